"""The file of one annotator: a label is on disk before it is acknowledged."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from ....guard.errors import InputError
from ...run import stored_rows
from ._criteria import HumanLabel

Outcomes = Mapping[str, Sequence[str]]


class LabelLog:
    """Labels of one annotator, one JSON line each, in the order in which they were given.

    Args:
        path: `labels/NAME.jsonl`; made with the first label.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        """Bytes of the file; it has grown where another process wrote."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def read(self, outcomes: Outcomes | None = None) -> list[HumanLabel]:
        """All labels; a last line that a kill cut off does not count.

        Args:
            outcomes: criterion → the outcomes that it has; labels by other criteria may
                have any. None for no check.

        Raises:
            InputError: the file is broken, or a label is none of the outcomes, with the line.
        """
        labels = []
        for where, value in stored_rows(self.path.with_suffix("")):
            try:
                label = HumanLabel.model_validate(value)
            except ValidationError as error:
                fault = error.errors()[0]
                name = ".".join(str(part) for part in fault["loc"])
                raise InputError(
                    f"field {name!r}: {fault['msg']}",
                    where=where,
                    hint="fix the line, or move the file away",
                ) from None
            allowed = (outcomes or {}).get(label.criterion)
            if label.outcome is not None and allowed and label.outcome not in allowed:
                raise InputError(
                    f"{label.outcome[:60]!r} is no outcome of {label.criterion[:60]!r}",
                    where=where,
                    hint=f"choose one of {', '.join(allowed)}, or move the file away",
                )
            labels.append(label)
        return labels

    def append(self, labels: Sequence[HumanLabel]) -> int:
        """Write labels and force them to disk together; one writer at a time.

        Returns:
            Bytes written.

        Raises:
            InputError: the file cannot be written.
        """
        lines = "".join(label.model_dump_json() + "\n" for label in labels).encode("utf-8")
        try:
            new = not self.path.exists()
            with self.path.open("ab+") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX)
                _drop_tail(stream)
                stream.write(lines)
                stream.flush()
                os.fsync(stream.fileno())
            if new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise InputError(
                f"cannot be written ({error.strerror})",
                where=str(self.path),
                hint="fix that; what was labelled before is safe",
            ) from None
        return len(lines)


def _drop_tail(stream: IO[bytes]) -> None:
    """Cut off what a kill left of a line, or the next label would be lost with it."""
    if stream.seek(0, os.SEEK_END) == 0:
        return
    stream.seek(-1, os.SEEK_END)
    if stream.read(1) != b"\n":
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
    stream.seek(0, os.SEEK_END)


def _sync_folder(folder: Path) -> None:
    """A file's name is in its folder, which has to reach the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
