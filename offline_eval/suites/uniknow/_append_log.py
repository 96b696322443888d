"""A file of JSON lines that grows by whole lines, each forced to disk."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from ....guard.errors import InputError


class AppendLog:
    """Lines of JSON objects; a line that a kill cut off does not count.

    Reading changes nothing; what is left of a line is cut off by the next `append`.

    Args:
        path: of the file; it is made with the first line.
        opening: what every line begins with. A file whose last line is not whole and
            begins otherwise is somebody else's, and is refused before it is cut.
    """

    def __init__(self, path: str | os.PathLike[str], opening: str = "{") -> None:
        self.path = Path(path)
        self._opening = opening.encode("utf-8")

    def read(self) -> list[tuple[int, dict[str, Any]]]:
        """Line numbers from 1, and objects; nothing where there is no file yet.

        Raises:
            InputError: the file cannot be read, or a line of it is no JSON object.
        """
        if not self.path.exists():
            return []
        rows = []
        try:
            with self.path.open("rb") as stream:
                for number, line in enumerate(stream, start=1):
                    if line.endswith(b"\n"):
                        rows.append((number, self._row(line, number)))
                    elif not self._is_ours(line):
                        raise self._foreign(number)
        except OSError as error:
            raise self._unusable(error) from None
        return rows

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write `rows` and force them to disk together; one process at a time.

        Raises:
            InputError: the file cannot be written.
        """
        lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
        if not lines:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX)
                _drop_tail(stream)
                stream.write("".join(lines).encode("utf-8"))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise self._unusable(error) from None

    def _is_ours(self, tail: bytes) -> bool:
        size = min(len(tail), len(self._opening))
        return tail[:size] == self._opening[:size]

    def _row(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise self._foreign(number)
        return row

    def _foreign(self, number: int) -> InputError:
        return InputError(
            "the line is no JSON object of this file's kind",
            where=f"{self.path}:{number}",
            hint="remove the file and start again, or name another one",
        )

    def _unusable(self, error: OSError) -> InputError:
        return InputError(
            f"cannot be read and written ({error.strerror})",
            where=str(self.path),
            hint="fix that and start again, it goes on where it stopped",
        )


def _drop_tail(stream: IO[bytes]) -> None:
    """Cut off what a kill left of a line."""
    size = stream.seek(0, os.SEEK_END)
    if size == 0:
        return
    stream.seek(size - 1)
    if stream.read(1) != b"\n":
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
    stream.seek(0, os.SEEK_END)
