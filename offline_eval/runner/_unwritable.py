"""What is said when rows cannot be stored."""

from __future__ import annotations

from pathlib import Path

from ...guard import InputError

_GO_ON = "mend that and start again: it goes on after the last whole row"


def unwritable(path: Path, detail: str | None) -> InputError:
    """The error for a file of rows that cannot be written: disk full, no permission, ….

    Args:
        path: of the file.
        detail: what the system says.
    """
    return InputError(
        f"cannot be written ({detail or 'no such path'})", where=str(path), mend=_GO_ON
    )
