"""One writer per store: a lock that ends with its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ...guard import InputError
from ._unwritable import unwritable


class StoreLock:
    """Held from making to `release`, or until the process ends in whatever way.

    A hidden file beside the rows and not the rows themselves: SQLite would lose its
    own locks, and both kinds of store must keep each other out.

    Args:
        stem: of the store.

    Raises:
        InputError: somebody else holds it, or the folder cannot be written.
    """

    def __init__(self, stem: Path) -> None:
        self._path = stem.with_name(f".{stem.name}.lock")
        while not self._taken():
            pass  # its last holder removed the file this very moment: take the new one

    def _taken(self) -> bool:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise unwritable(self._path.parent, error.strerror) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._file).st_ino == self._path.stat().st_ino:
                return True
        except BlockingIOError:
            os.close(self._file)
            raise InputError(
                "another process is writing these rows",
                where=str(self._path.parent),
                mend="wait for it, or choose another folder",
            ) from None
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(self._file)
            raise unwritable(self._path, error.strerror) from None
        os.close(self._file)
        return False

    def release(self) -> None:
        """Let the next one in."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._file)


@contextlib.contextmanager
def sole_writer(stem: str | Path) -> Iterator[None]:
    """Nobody else writes what `stem` names while this lasts: a store, or files of a folder.

    Raises:
        InputError: somebody else does, or the folder cannot be written.
    """
    lock = StoreLock(Path(stem))
    try:
        yield
    finally:
        lock.release()
