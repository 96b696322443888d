"""A store of rows: appended in batches, each row once, nothing lost to a kill."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from ...guard.errors import InputError
from ._database_file import DatabaseFile, database_rows
from ._table import LinesFile, encode_row, sole_writer, unwritable, whole_lines

StoreKind = Literal["jsonl", "sqlite"]
_OTHER: Mapping[StoreKind, StoreKind] = {"jsonl": "sqlite", "sqlite": "jsonl"}
_Pending = tuple[str, bytes, "Future[None]"]


class _RowFile(Protocol):
    keys: dict[str, None]

    def write(self, rows: list[tuple[str, bytes]], /) -> None: ...
    def close(self) -> None: ...


class RowStore:
    """Rows by key, each written once and forced to disk; made by `open_store`.

    Rows that arrive while others are being synced go to disk together, by one thread.

    Attributes:
        key: name of the field by which rows are told apart.
    """

    def __init__(self, file: _RowFile, path: Path, key: str) -> None:
        self.key = key
        self._path = path
        self._file = file
        self._done = file.keys
        self._taken = set(file.keys)
        self._lock = threading.Lock()
        self._failure: InputError | None = None
        self._closed = False
        self._pending: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="knowgate-rows", daemon=True)
        self._writer.start()

    @property
    def done(self) -> Set[str]:
        """Keys of the rows on disk: a live view, in the order in which they were stored.

        To be asked for members at any time; to be walked through while nothing is stored.
        """
        return self._done.keys()

    def submit(self, row: Mapping[str, Any]) -> Future[None]:
        """Hand over a row; the future is done once it is on disk. From any thread.

        Raises:
            UnstorableRowError: JSON cannot hold the row, NaN and infinity included; nothing
                of it is written.
            InputError: an earlier row could not be written.
            ValueError: a row with its key was handed over before.
        """
        key, line = encode_row(row, self.key)
        stored: Future[None] = Future()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise ValueError("the store is closed")
            if key in self._taken:
                raise ValueError(f"{self.key} {key[:80]!r} is in the store already")
            self._taken.add(key)
            self._pending.put((key, line, stored))
        return stored

    def append(self, row: Mapping[str, Any]) -> None:
        """Store a row; once this returns, it is on disk. From any thread.

        Raises:
            InputError: as `submit`, or the disk is full: the rows before it are whole.
            ValueError: as `submit`.
        """
        self.submit(row).result()

    def close(self) -> None:
        """Wait until everything handed over is on disk, and close the file."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._pending.put(None)
        self._writer.join()
        self._file.close()

    def _write(self) -> None:
        """The writer's thread: whatever has come in since the last sync is one batch."""
        going_on = True
        while going_on:
            waiting = [self._pending.get()]
            while not self._pending.empty():
                waiting.append(self._pending.get())
            going_on = waiting[-1] is not None
            batch = [entry for entry in waiting if entry is not None]
            if batch:
                self._write_batch(batch)

    def _write_batch(self, batch: list[_Pending]) -> None:
        failure = self._failure
        if failure is None:
            try:
                self._file.write([(key, line) for key, line, _ in batch])
            except InputError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - nobody may wait for a dead writer
                failure = unwritable(self._path, type(error).__name__)
                failure.__cause__ = error
            with self._lock:
                self._failure = failure
        if failure is None:
            self._done.update((key, None) for key, _, _ in batch)
        for _, _, stored in batch:
            if stored.set_running_or_notify_cancel():
                if failure is None:
                    stored.set_result(None)
                else:
                    stored.set_exception(failure)


@contextmanager
def open_store(stem: str | Path, *, key: str, kind: StoreKind = "jsonl") -> Iterator[RowStore]:
    """The store `<stem>.jsonl` or `<stem>.sqlite`, new or continued, for this process alone.

    A row that a kill cut off is dropped. A store is closed when the context ends:
    by then everything that was handed over is on disk.

    Args:
        stem: path without suffix; its folder is made where missing.
        key: field by which rows are told apart; no two rows share its value.
        kind: of the file.

    Raises:
        InputError: another process writes the store, it is of the other kind, it cannot
            be written, or a row in it is damaged (with the line).
    """
    base = Path(stem)
    try:
        base.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(base.parent, error.strerror) from None
    with sole_writer(base):
        _refuse_other_kind(base, kind)
        path = _path(base, kind)
        file = DatabaseFile(path, key) if kind == "sqlite" else LinesFile(path, key)
        store = RowStore(file, path, key)
        try:
            yield store
        finally:
            store.close()


def stored_rows(stem: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """All whole rows of a store of either kind, in the order in which they were stored.

    Args:
        stem: path without suffix. Where neither file is there, there are no rows.

    Returns:
        (`file:line`, row) per row; a last line that a kill cut off does not count.

    Raises:
        InputError: the file cannot be read, a row in it is damaged, or there is a store
            of each kind.
    """
    base = Path(stem)
    lines, database = _path(base, "jsonl"), _path(base, "sqlite")
    if not database.exists():
        return list(whole_lines(_content(lines), lines)) if lines.exists() else []
    if lines.exists():
        raise _two_kinds(base)
    return database_rows(database)


def _path(base: Path, kind: StoreKind) -> Path:
    return base.with_name(f"{base.name}.{kind}")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(path), hint="check the permissions"
        ) from None


def _refuse_other_kind(base: Path, kind: StoreKind) -> None:
    other = _OTHER[kind]
    if _path(base, other).exists():
        if _path(base, kind).exists():
            raise _two_kinds(base)
        raise InputError(
            f"the rows are stored as {other}, not as {kind}",
            where=str(_path(base, other)),
            hint=f"go on with --store {other}, or choose another --out",
        )


def _two_kinds(base: Path) -> InputError:
    return InputError(
        "there are two stores of the same rows, one of each kind",
        where=f"{_path(base, 'jsonl')}, {_path(base, 'sqlite')}",
        hint="move one of them away",
    )
