"""Rows as lines of JSON: what can be stored, and what was stored whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...guard.errors import NO_JSON, InputError
from ...guard.files import AnyPath, open_regular, read_bytes

_CONTINUE = "fix that and start again: it goes on after the last whole row"
_OTHER_ROW = (
    "not the row that was stored here: this row or manifest.json was changed, a row before it is "
    "missing, or it is of another run"
)
_RESTORE = "restore the file; or remove this row and all after it, and start what wrote them again"
_FIX_ROW = "fix or remove that row, the others stay as they are"

# `file:line`, and the JSON object of that line.
RawRow = tuple[str, dict[str, Any]]


class UnstorableRowError(InputError):
    """JSON cannot hold the row, or its key is not a text."""


def unwritable(path: Path, detail: str | None) -> InputError:
    """The error for a file that cannot be written: disk full, no permission, ….

    Args:
        path: of the file.
        detail: what the system says.
    """
    return InputError(
        f"cannot be written ({detail or 'no such path'})", where=str(path), hint=_CONTINUE
    )


def encode_line(row: Mapping[str, Any], where: str) -> bytes:
    """Return the row as one line of UTF-8 JSON without its end.

    Raises:
        UnstorableRowError: JSON cannot hold the row.
    """
    try:
        line = json.dumps(dict(row), ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        kind = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnstorableRowError(f"JSON cannot hold it ({kind})", where=where) from None
    return line.encode("utf-8", "backslashreplace")


def whole_lines(content: bytes, path: Path) -> Iterator[RawRow]:
    """Yield every line that has an end; what follows the last one was cut off.

    Raises:
        InputError: such a line is not a JSON object.
    """
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        if not line.strip():
            continue
        where, what, value = f"{path}:{number}", "", None
        try:
            value = json.loads(line)
        except RecursionError:
            what = "the row is nested too deeply"
        except ValueError as error:
            detail = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "broken JSON"
            what = f"the row is damaged ({detail})"
        if not isinstance(value, dict):
            what = what or f"expected a JSON object, found {type(value).__name__}"
            raise InputError(what, where=where, hint=_FIX_ROW)
        yield where, value


def stored_bytes(path: Path) -> bytes:
    """Return the content of a file; nothing where there is no file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return read_bytes(path, links=False)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(path), hint="check the permissions"
        ) from None


def stored_rows(path: Path) -> list[RawRow]:
    """Return all whole rows of a file in their order; none where there is no file.

    Raises:
        InputError: the file cannot be read, or a row is damaged.
    """
    return list(whole_lines(stored_bytes(path), path))


# Field of a stored row: a digest of the row and, by their digests, of all before it.
DIGEST = "chain_digest"


def bound_lines(lines: Iterable[bytes], last: str | None) -> tuple[bytes, str | None]:
    """Return lines with their ends and digests, and the digest of the last; None binds none.

    Args:
        lines: of rows, without their ends.
        last: digest of the row before them, or what the first row is bound to.
    """
    stored = []
    for line in lines:
        if last is None:
            stored.append(line + b"\n")
            continue
        last = _digest(json.loads(line), last)
        stored.append(line[:-1] + f', "{DIGEST}": "{last}"}}\n'.encode("ascii"))
    return b"".join(stored), last


def last_digest(rows: Iterable[RawRow], first: str) -> str:
    """Check that rows are as they were stored, in their order, and return the digest of the last.

    Args:
        rows: from the first on.
        first: what the first row is bound to.

    Raises:
        InputError: one was changed, removed, or comes from elsewhere (with the line).
    """
    last = first
    for where, row in rows:
        try:
            last = _digest(row, last)
        except RecursionError:
            raise InputError("the row is nested too deeply", where=where, hint=_FIX_ROW) from None
        if row.get(DIGEST) != last:
            raise InputError(_OTHER_ROW, where=where, hint=_RESTORE)
    return last


def _digest(row: Mapping[str, Any], before: str) -> str:
    # Of what the row says, not of how it is written.
    text = json.dumps({name: row[name] for name in sorted(row) if name != DIGEST}, sort_keys=True)
    return hashlib.sha256(f"{before} {text}".encode("ascii")).hexdigest()[:16]


def keys_of(rows: Iterable[RawRow], key: str) -> dict[str, None]:
    """Return the rows' keys in order.

    Raises:
        InputError: a row lacks its key, or two have the same.
    """
    keys: dict[str, None] = {}
    for where, row in rows:
        identifier = row.get(key)
        if not isinstance(identifier, str) or not identifier:
            raise InputError(f"field {key!r} is missing or not a text", where=where, hint=_FIX_ROW)
        if identifier in keys:
            raise InputError(f"{key} {identifier[:80]!r} occurs twice", where=where, hint=_FIX_ROW)
        keys[identifier] = None
    return keys


def inner_folder(root: AnyPath, name: str) -> Path:
    """Return the folder of a name below `root`, which need not be there yet.

    Raises:
        InputError: it is a link: what it leads to does not belong to `root`.
    """
    folder = Path(root, name)
    if folder.is_symlink():
        raise InputError(
            "is a link, not a folder",
            where=str(folder),
            hint="put the folder itself there",
        )
    return folder


def sync_folder(folder: Path) -> None:
    """Force a folder to disk: a new file survives a power cut only with its folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(stem: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes out while this lasts, or until this process ends.

    The lock is a hidden file beside what it locks, so that a file can be replaced under it.

    Args:
        stem: path of what is locked; the lock is `.<name>.lock` beside it, in a folder that is
            made where missing.
        wait: for a process that holds it.

    Raises:
        InputError: another process holds it, or the folder cannot be written.
    """
    path = stem.with_name(f".{stem.name}.lock")
    while (held := _lock(path, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)) is None:
        # Its last holder removed the file this very moment: take the new one.
        pass
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(held)


def _lock(path: Path, how: int) -> int | None:
    """Open and lock the file; None where it is no longer under its name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open_regular(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise unwritable(path.parent, error.strerror) from None
    with contextlib.ExitStack() as opened:
        opened.callback(os.close, file)
        try:
            fcntl.flock(file, how)
            if os.fstat(file).st_ino == path.stat().st_ino:
                opened.pop_all()
                return file
        except BlockingIOError:
            what = "another process is writing this run"
            hint = "wait for it, or choose another folder"
            raise InputError(what, where=str(path.parent), hint=hint) from None
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unwritable(path, error.strerror) from None
    return None


def append_lines(path: Path, lines: Sequence[bytes]) -> None:
    """Append whole lines to a file that several processes share, and force them to disk.

    A last line without an end gets one if it is a whole JSON object; otherwise a kill cut it
    off, and it is removed.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with os.fdopen(descriptor, "ab+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.seek(0)
            content = stream.read()
            start = content.rfind(b"\n") + 1
            if is_whole_row(content[start:]):
                lines = [b"", *lines]
            elif start < len(content):
                stream.truncate(start)
            stream.write(b"\n".join([*lines, b""]))
            stream.flush()
            os.fsync(stream.fileno())
        if new:
            sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error.strerror) from None


def is_whole_row(line: bytes) -> bool:
    """Whether a line without an end is a JSON object: no part of one is an object, too."""
    try:
        return isinstance(json.loads(line), dict)
    except NO_JSON:
        return False
