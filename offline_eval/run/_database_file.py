"""Rows in a SQLite database: one table, one transaction per batch."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...guard.errors import InputError
from ._table import decode_row, keys_of, unwritable

_TABLE = "CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, key TEXT UNIQUE, row TEXT)"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'rows'"
_INSERT = "INSERT INTO rows (key, row) VALUES (?, ?)"
_SELECT = "SELECT number, row FROM rows ORDER BY number"
_SECONDS_FOR_READERS = 30.0


class DatabaseFile:
    """`<stem>.sqlite`, open for appending.

    A rollback journal and not a write-ahead log: between two batches the file is
    alone and complete, to be copied as it is. `EXTRA` also syncs the folder, so that
    a power cut cannot bring the journal of a finished batch back.

    Args:
        path: of the file, made where missing.
        key: field by which rows are told apart.

    Raises:
        InputError: the file cannot be opened, or is not such a database.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._path = path
        # Made on the thread that opens the store, used by the one that writes.
        self._connection = _connected(path, "rwc")
        try:
            with _typed(path):
                self._connection.execute("PRAGMA journal_mode = DELETE")
                self._connection.execute("PRAGMA synchronous = EXTRA")
                self._connection.execute(_TABLE)
                self.keys = keys_of(_rows(self._connection, path), key)
        except BaseException:
            self._connection.close()
            raise

    def write(self, rows: Sequence[tuple[str, bytes]]) -> None:
        """Append rows (key, line) and force them to disk together; all of them or none.

        Raises:
            InputError: the disk is full, or the like; the file is as it was before.
        """
        with _typed(self._path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(_INSERT, ((key, line.decode()) for key, line in rows))
                self._connection.execute("COMMIT")
            except BaseException:
                # After some errors SQLite has rolled back by itself.
                if self._connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the database; everything in it is on disk already."""
        self._connection.close()


def database_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """`file:row` and row of everything that the database holds, in order.

    Raises:
        InputError: the file cannot be read, or is not such a database.
    """
    connection = _connected(path, "rw")
    try:
        with _typed(path):
            if connection.execute(_HAS_TABLE).fetchone() is None:
                return []  # killed before its first row
            return list(_rows(connection, path))
    finally:
        connection.close()


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    with _typed(path):
        return sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_SECONDS_FOR_READERS,
        )


def _rows(connection: sqlite3.Connection, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in connection.execute(_SELECT):
        where = f"{path}:{number}"
        if not isinstance(row, str):
            raise InputError(
                "the row is damaged (no text)", where=where, hint="restore the file from a copy"
            )
        yield where, decode_row(row, where)


@contextlib.contextmanager
def _typed(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        # Full, read-only, locked, no permission: SQLite's own words say which.
        raise unwritable(path, str(error)) from None
    except sqlite3.DatabaseError as error:
        raise InputError(
            f"not a database of rows ({error})",
            where=str(path),
            hint="restore the file from a copy, or remove it and start again",
        ) from None
