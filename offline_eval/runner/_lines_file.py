"""Rows in a file of JSON lines: appended, synced, and cut back to whole lines after a kill."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ._rows import keys_of, whole_lines
from ._unwritable import unwritable


class LinesFile:
    """`<stem>.jsonl`, open for appending.

    Opening drops a last line that a kill cut off.

    Args:
        path: of the file, made where missing.
        key: field by which rows are told apart.

    Raises:
        InputError: the file cannot be opened, or a whole line of it is no proper row.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise unwritable(path, error.strerror) from None
        try:
            content = path.read_bytes()
            self._end = content.rfind(b"\n") + 1
            # Before the cut: a file that is something else is left as it is.
            self.keys = keys_of(whole_lines(content, path), key)
            if self._end < len(content):
                os.ftruncate(self._file, self._end)
                os.fsync(self._file)
            _sync_folder(path.parent)
        except OSError as error:
            os.close(self._file)
            raise unwritable(path, error.strerror) from None
        except BaseException:
            os.close(self._file)
            raise

    def write(self, rows: Sequence[tuple[str, bytes]]) -> None:
        """Append rows (key, line) and force them to disk together; all of them or none.

        Raises:
            InputError: the disk is full, or the like, and the file is as it was before; or
                it was removed, replaced or changed by somebody else.
        """
        block = memoryview(b"".join(line + b"\n" for _, line in rows))
        if os.fstat(self._file).st_size != self._end:
            raise unwritable(self._path, "somebody else has changed it")
        try:
            written = 0
            while written < len(block):
                written += os.pwrite(self._file, block[written:], self._end + written)
            os.fsync(self._file)
            in_place = os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except FileNotFoundError:
            in_place = False
        except OSError as error:
            self._cut_back()
            raise unwritable(self._path, error.strerror) from None
        # What nobody finds under this name is not stored.
        if not in_place:
            raise unwritable(self._path, "it was moved or removed under way")
        self._end += len(block)

    def close(self) -> None:
        """Close the file; everything in it is on disk already."""
        os.close(self._file)

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._file, self._end)
        except OSError:
            return  # half a line at the end is dropped by whoever reads or opens the file


def _sync_folder(folder: Path) -> None:
    """A file that was just made survives a power cut only with its folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
