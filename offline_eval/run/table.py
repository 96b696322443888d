"""Tables of typed rows: appended in batches, each row once, nothing lost to a kill."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from ...guard.errors import InputError
from ...guard.files import AnyPath, atomic_writer, open_regular, read_bytes, read_jsonl, write_text
from .manifest import Manifest, Stored
from .rows import (
    DIGEST,
    UnstorableRowError,
    append_lines,
    bound_lines,
    encode_line,
    inner_folder,
    is_whole_row,
    keys_of,
    last_digest,
    locked,
    stored_bytes,
    stored_rows,
    sync_folder,
    unwritable,
    whole_lines,
)

RowT = TypeVar("RowT", bound=Stored)
MAKE_AGAIN = "make the run again into another folder"


@dataclass(frozen=True, slots=True)
class TableSpec(Generic[RowT]):
    """What a table is called and what its rows hold.

    Attributes:
        name: the file is `<name>.jsonl` in the run's folder; may hold `/`.
        row: model of a row.
        key: field of the row that identifies it; a text, unique in the table.
        hint: what an error about a damaged row tells the user to do.
        whole: whether the file is written whole (`write`) rather than row by row; a
            last line without an end then counts, too.
        clean: whether lone surrogates and NUL, which many programs cannot take, are
            replaced when rows are read.
    """

    name: str
    row: type[RowT]
    key: str
    hint: str = MAKE_AGAIN
    whole: bool = False
    clean: bool = False

    def path(self, folder: Path) -> Path:
        """Return the file of the table in a folder."""
        return folder / f"{self.name}.jsonl"

    @contextmanager
    def open(self, folder: AnyPath) -> Iterator[Table[RowT]]:
        """Open a table outside of a `Run`, new or continued, for this process alone.

        A row that a kill cut off is dropped. When the context ends, everything that was
        handed over is on disk.

        Args:
            folder: that the file lies in, made where missing.

        Raises:
            InputError: another process writes the table, it cannot be written, or a row in it
                is damaged (with the line).
        """
        path = self.path(Path(folder))
        if path.parent != Path(folder):
            inner_folder(folder, path.parent.name)
        with locked(path.with_suffix("")):
            table = Table(Path(folder), self)
            try:
                yield table
            finally:
                table.close()

    def read(self, folder: AnyPath) -> list[RowT]:
        """Return the rows in the order in which they were stored; none without a file.

        A last row that a kill cut off does not count.

        Raises:
            InputError: the file cannot be read, or a row is damaged (with the line).
        """
        return Table(Path(folder), self, writable=False).rows()

    def by_key(self, folder: AnyPath) -> dict[str, RowT]:
        """Return the rows by their keys; see `read`."""
        return {getattr(row, self.key): row for row in self.read(folder)}

    def bound_text(self, folder: AnyPath, rows: Iterable[Mapping[str, Any]]) -> str:
        """Return the text of the table's file, each row bound to those before it and to the run.

        Args:
            folder: of a run, with its manifest.
            rows: JSON objects, in their order.

        Raises:
            InputError: the manifest cannot be read.
            UnstorableRowError: JSON cannot hold a row.
        """
        first = Manifest.first_digest(Path(folder), self.name)
        text, _ = bound_lines((encode_line(row, self.name) for row in rows), first)
        return text.decode("utf-8")

    def write(self, folder: AnyPath, rows: Iterable[RowT]) -> None:
        """Write the file of the table, whole or not at all.

        Raises:
            InputError: the file cannot be written.
        """
        path = self.path(Path(folder))
        with atomic_writer(path) as stream:
            for row in rows:
                line = encode_line(row.model_dump(mode="json"), str(path))
                stream.write(line.decode("utf-8") + "\n")


class Table(Generic[RowT]):
    """Rows by key, each written once and forced to disk; see `Run` and `TableSpec.open`.

    Args:
        folder: that the file lies in.
        spec: what the rows hold.
        writable: False to read only.

    Raises:
        InputError: the file cannot be opened, or a row in it is damaged (with the line).
    """

    def __init__(self, folder: Path, spec: TableSpec[RowT], *, writable: bool = True) -> None:
        self.spec = spec
        self.key = spec.key
        self._path = spec.path(folder)
        self._first = Manifest.first_digest(folder, spec.name)
        self._lock = threading.RLock()
        self._keys: dict[str, None] = {}
        self._end, self._last = 0, self._first
        self._file: int | None = None
        if writable:
            self._open()

    def _open(self) -> None:
        """Open the file for appending; a last line that a kill cut off is dropped."""
        path = self._path
        with ExitStack() as opened:
            try:
                file = open_regular(path, os.O_RDWR | os.O_CREAT)
                opened.callback(os.close, file)
                content = read_bytes(path, links=False)
                self._end = content.rfind(b"\n") + 1
                # Before the cut: a file that is something else is left as it is.
                rows = list(whole_lines(content, path))
                self._keys = keys_of(rows, self.key)
                if self._first is not None:
                    self._last = last_digest(rows, self._first)
                if self._end < len(content):
                    os.ftruncate(file, self._end)
                    os.fsync(file)
                sync_folder(path.parent)
            except OSError as error:
                raise unwritable(path, error.strerror) from None
            opened.pop_all()
        self._file = file

    @property
    def done(self) -> Set[str]:
        """Keys of the rows on disk, in the order in which they were stored: a live view.

        Empty if the table is open for reading only. Membership may be asked at any time;
        iterate only while nothing is being stored.
        """
        return set[str]() if self._file is None else self._keys.keys()

    def rows(self) -> list[RowT]:
        """Return all rows on disk, in the order in which they were stored.

        Raises:
            InputError: a row is damaged or not a row of this table (with the line).
        """
        return [row for _, row in self.places()]

    def places(self) -> list[tuple[str, RowT]]:
        """Return `file:line` and row for all rows on disk.

        Raises:
            InputError: as `rows`.
        """
        spec = self.spec
        if spec.whole:
            lines = read_jsonl(self._path, links=False)
            found = [(f"{self._path}:{number}", row) for number, row in lines]
        else:
            found = stored_rows(self._path)
        checked = [
            (where, spec.row.checked(value, where=where, hint=spec.hint, clean=spec.clean))
            for where, value in found
        ]
        keys_of(found, self.key)
        # Files that are written before the manifest cannot be bound to it.
        unbound = self.spec.whole and not any(DIGEST in row for _, row in found)
        if self._first is not None and not unbound:
            last_digest(found, self._first)
        return checked

    def append(self, row: RowT | Mapping[str, Any]) -> None:
        """Store a row; once this returns, it is on disk. From any thread.

        Raises:
            UnstorableRowError: JSON cannot hold the row, NaN and infinity included; nothing
                of it is written.
            InputError: the disk is full, or the like: the rows before it are whole.
            ValueError: a row with its key is in the table already.
        """
        if not self.extend([row]):
            key, _ = self._encoded(row)
            raise ValueError(f"{self.key} {key[:80]!r} is in the table already")

    def extend(self, rows: Iterable[RowT | Mapping[str, Any]]) -> int:
        """Store those of the rows whose keys are not in the table, synced together.

        Returns:
            How many these were.

        Raises:
            InputError: as `append`.
        """
        lines = dict(map(self._encoded, rows))
        with self._lock:
            new = {key: line for key, line in lines.items() if key not in self.done}
            self._write(new)
        return len(new)

    def _encoded(self, row: RowT | Mapping[str, Any]) -> tuple[str, bytes]:
        """The row's key, and the row as one line without its end."""
        value = row.model_dump(mode="json") if isinstance(row, BaseModel) else row
        key = value.get(self.key)
        where = f"row {key[:80]!r}" if isinstance(key, str) else "row"
        if not isinstance(key, str) or not key:
            what = f"field {self.key!r} must be a text that is not empty"
            raise UnstorableRowError(what, where=where)
        try:
            key.encode()
        except UnicodeEncodeError:
            what = f"field {self.key!r} holds half a character"
            raise UnstorableRowError(what, where=where) from None
        return key, encode_line(value, where)

    def _write(self, rows: Mapping[str, bytes]) -> None:
        """Append rows by their keys and force them to disk together; all of them or none.

        Raises:
            InputError: the disk is full, or the like, and the file is as it was before; or
                it was removed, replaced or changed by somebody else.
        """
        file, path = self._file, self._path
        if file is None:
            raise ValueError("the table is closed")
        stored, last = bound_lines(rows.values(), self._last)
        if os.fstat(file).st_size != self._end:
            raise unwritable(path, "somebody else has changed it")
        try:
            written = 0
            while written < len(stored):
                written += os.pwrite(file, memoryview(stored)[written:], self._end + written)
            os.fsync(file)
            in_place = os.path.samestat(os.fstat(file), os.lstat(path))
        except FileNotFoundError:
            in_place = False
        except OSError as error:
            # Half a line is dropped by whoever reads or opens the file.
            with suppress(OSError):
                os.ftruncate(file, self._end)
            raise unwritable(path, error.strerror) from None
        # What nobody finds under this name is not stored.
        if not in_place:
            raise unwritable(path, "it was moved or removed under way")
        self._end += len(stored)
        self._last = last
        self._keys.update(dict.fromkeys(rows))

    def drop(self, unwanted: Callable[[RowT], bool]) -> int:
        """Remove rows, by writing the table anew; a kill leaves it as it was or as it will be.

        Args:
            unwanted: whether a row is removed. No row may be on its way to disk.

        Returns:
            How many rows were removed.

        Raises:
            InputError: a row is damaged, or the file cannot be written.
        """
        kept = [getattr(row, self.key) for _, row in self.places() if not unwanted(row)]
        removed = len(self.done) - len(kept)
        if removed:
            self._rewrite(kept)
        return removed

    def sort(self, keys: Sequence[str]) -> None:
        """Put the rows into the order of their keys, if they are not, by writing the table anew.

        Args:
            keys: of all rows; further ones do not count. No row may be on its way to disk.

        Raises:
            InputError: the file cannot be written.
        """
        ordered = [key for key in keys if key in self.done]
        if ordered != list(self.done):
            self._rewrite(ordered)

    def _rewrite(self, keys: Sequence[str]) -> None:
        """Write the table anew with the rows of these keys, in this order."""
        with self._lock:
            lines = {}
            for _, value in stored_rows(self._path):
                value.pop(DIGEST, None)
                lines[value[self.key]] = encode_line(value, self.key)
            text, _ = bound_lines((lines[key] for key in keys), self._first)
            write_text(self._path, text.decode("utf-8"))
            self.close()
            self._open()

    def close(self) -> None:
        """Close the file; everything in it is on disk already."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file = None


class SharedLog(Generic[RowT]):
    """Rows without keys in a file to which several processes append.

    Reading changes nothing; what is left of a line that a kill cut off is removed by the
    next `append`. A whole last line without an end, as an editor leaves it, is a row.

    Args:
        path: of the file; it is made with the first row.
        row: model of a row.
        opening: what every line begins with. A file whose last line is not whole and
            begins otherwise is not a log, and is rejected before it is changed.
        hint: what an error about a damaged row tells the user to do.
    """

    def __init__(
        self,
        path: AnyPath,
        row: type[RowT],
        *,
        opening: str = "{",
        hint: str = "fix the line, or move the file away",
    ) -> None:
        self.path = Path(path)
        self._row, self._hint = row, hint
        self._opening = opening.encode("utf-8")

    def places(self) -> list[tuple[str, RowT]]:
        """Return `file:line` and row for all whole lines; none where there is no file.

        Raises:
            InputError: the file cannot be read, or a line is not such a row.
        """
        content = stored_bytes(self.path)
        tail = content[content.rfind(b"\n") + 1 :].strip()
        number = content.count(b"\n") + 1
        if is_whole_row(tail):
            content += b"\n"
        lines = list(whole_lines(content, self.path))
        if not content.endswith(b"\n") and not self._opening.startswith(tail[: len(self._opening)]):
            raise InputError(
                "the last line is not a row of such a file",
                where=f"{self.path}:{number}",
                hint="name another file, or move this one away",
            )
        return [
            (where, self._row.checked(value, where=where, hint=self._hint))
            for where, value in lines
        ]

    def size(self) -> int:
        """Return the bytes of the file; it has grown if another process wrote."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def append(self, rows: Iterable[RowT]) -> None:
        """Write rows and force them to disk together; one process at a time.

        Raises:
            UnstorableRowError: JSON cannot hold a row; nothing is written.
            InputError: the file cannot be written.
        """
        where = str(self.path)
        lines = [encode_line(row.model_dump(mode="json"), where) for row in rows]
        if lines:
            append_lines(self.path, lines)
