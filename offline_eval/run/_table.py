"""Rows as lines of JSON: what can be stored, and what was stored whole."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...guard.errors import InputError

_GO_ON = "fix that and start again: it goes on after the last whole row"


def unwritable(path: Path, detail: str | None) -> InputError:
    """The error for a file of rows that cannot be written: disk full, no permission, ….

    Args:
        path: of the file.
        detail: what the system says.
    """
    return InputError(
        f"cannot be written ({detail or 'no such path'})", where=str(path), hint=_GO_ON
    )


_HINT_FILE = "hint or remove that row, the others stay as they are"


class UnstorableRowError(InputError):
    """JSON cannot hold the row, or its key is no proper text."""


def encode_row(row: Mapping[str, Any], key: str) -> tuple[str, bytes]:
    """The row's key, and the row as one line of UTF-8 JSON without its end.

    Lone surrogates, which UTF-8 cannot hold, are written as `\\udXXX`: inside a JSON
    string that reads back as it was.

    Raises:
        UnstorableRowError: JSON cannot hold the row, or its key is no proper text.
    """
    identifier = row.get(key)
    where = f"row {identifier[:80]!r}" if isinstance(identifier, str) else "row"
    if not isinstance(identifier, str) or not identifier:
        raise UnstorableRowError(f"field {key!r} must be a text that is not empty", where=where)
    try:
        identifier.encode()
        line = json.dumps(dict(row), ensure_ascii=False, allow_nan=False)
    except UnicodeEncodeError:
        raise UnstorableRowError(f"field {key!r} holds half a character", where=where) from None
    except (ValueError, TypeError, RecursionError) as error:
        kind = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnstorableRowError(f"JSON cannot hold it ({kind})", where=where) from None
    return identifier, line.encode("utf-8", "backslashreplace")


def decode_row(line: bytes | str, where: str) -> dict[str, Any]:
    """The row that a line holds.

    Args:
        line: without its end.
        where: `file:line`, for messages.

    Raises:
        InputError: the line is no JSON object.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        detail = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "broken JSON"
        raise InputError(f"the row is damaged ({detail})", where=where, hint=_HINT_FILE) from None
    if not isinstance(value, dict):
        raise InputError(
            f"expected a JSON object, found {type(value).__name__}", where=where, hint=_HINT_FILE
        )
    return value


def whole_lines(content: bytes, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """`file:line` and row of every line that has an end; what follows the last one was cut off.

    Raises:
        InputError: such a line is no JSON object.
    """
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        if line.strip():
            where = f"{path}:{number}"
            yield where, decode_row(line, where)


def keys_of(rows: Iterator[tuple[str, dict[str, Any]]], key: str) -> dict[str, None]:
    """The rows' keys in order.

    Raises:
        InputError: a row lacks its key, or two have the same.
    """
    keys: dict[str, None] = {}
    for where, row in rows:
        identifier = row.get(key)
        if not isinstance(identifier, str) or not identifier:
            raise InputError(f"field {key!r} is missing or no text", where=where, hint=_HINT_FILE)
        if identifier in keys:
            raise InputError(
                f"{key} {identifier[:80]!r} stands here a second time",
                where=where,
                hint=_HINT_FILE,
            )
        keys[identifier] = None
    return keys


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
                hint="wait for it, or choose another folder",
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
