"""Encoded passages on the disk: made by `knowgate index`, read through sqlite.

A folder holds one database: what the vectors came from, and per passage the hash of its text,
its vectors and their checksum.

What is promised:

- **No old vectors for a changed text**: passages are found by a hash of their text.
- **No vectors of another encoder**: a store is bound to everything that changes them.
- **Killed writers do no harm**: what was not committed does not count. One process writes at a
  time; a store that is open does not see what is appended later.
- **Damage is an error, never a score**: sqlite checks the length of the file on opening, a
  checksum the vectors of a passage when they are read.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import InputError, ModelFolderError, first_fault
from ..files import open_regular, unwritable
from ..fingerprint import Fingerprint

Floats = NDArray[np.float32]
STORE_VERSION = 2
STORE_FILE = "passages.sqlite"
_HINT = "write it again with `knowgate index KB --out DIR` into a new folder"
_SCHEMA = (
    "CREATE TABLE about (content TEXT NOT NULL)",
    "CREATE TABLE passages (key BLOB PRIMARY KEY, crc INTEGER NOT NULL, vectors BLOB NOT NULL)",
)
# A passage of 100 words takes about 100 kB: larger pages would leave more of the last one empty.
_PAGE_BYTES = 2**14
_BUSY_SECONDS = 60.0
# Of a `content_key`: the hash of the text, whatever is kept of it.
_KEY_BYTES = 16
# Of a float16 that was widened to 32 bits and moved left by 13.
_SIGN_EXPONENT_FRACTION = np.uint32(0x8FFFE000).astype(np.int32)


class EncodedText:
    """One window of a text, encoded. Arrays are read-only.

    Args:
        ids: word-piece ids of shape (n,), the first [CLS] and the last [SEP].
        vectors: last hidden states of shape (n, dimensions), as the model gives them; kept at
            unit length.
        embedding: the sentence embedding of shape (dimensions,), of unit length; for
            the embedded model the mean of all n hidden states, normalised.
    """

    __slots__ = ("embedding", "ids", "vectors")

    def __init__(self, ids: NDArray[np.int32], vectors: Floats, embedding: Floats):
        # Here and not at every match, which would take as long as the products.
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        units = np.asarray(vectors / np.maximum(lengths, np.float32(1e-12)), np.float32)
        self.ids = ids
        self.vectors = units
        self.embedding = embedding
        for array in (ids, units, embedding):
            array.setflags(write=False)

    @property
    def nbytes(self) -> int:
        """What ids, vectors and embedding take."""
        return int(self.ids.nbytes + self.vectors.nbytes + self.embedding.nbytes)


class _About(BaseModel):
    """What the vectors of a store came from."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int = STORE_VERSION
    encoder: Fingerprint
    dtype: Literal["float16"] = "float16"


class PassageStore:
    """The encoded passages of a folder, for many threads and forked processes.

    A store that is opened does not see what is appended later.

    Args:
        folder: that `knowgate index` wrote.
        encoder: the fingerprint of the encoder that is to use them.

    Raises:
        ModelFolderError: the folder is no store, of another version, damaged or cut off, or
            another encoder gave the vectors.
    """

    def __init__(self, folder: str | os.PathLike[str], encoder: Fingerprint) -> None:
        self.path = Path(folder) / STORE_FILE
        self._opened = threading.local()
        try:
            os.close(open_regular(self.path, links=True))
        except FileNotFoundError:
            hint = "write it with `knowgate index`"
            what = "is no store of passages"
            raise ModelFolderError(what, where=str(self.path.parent), hint=hint) from None
        except OSError as error:
            raise _damaged(self.path, f"cannot be read ({error.strerror})") from None
        with self._reading() as connection:
            _require_about(connection, encoder, self.path)
            [(self._last,)] = connection.execute("SELECT ifnull(max(rowid), 0) FROM passages")

    def found(self, keys: Iterable[bytes]) -> dict[bytes, list[EncodedText]]:
        """The windows of the passages that are there, by key.

        Raises:
            ModelFolderError: the vectors of a passage are damaged.
        """
        found: dict[bytes, list[EncodedText]] = {}
        for key in keys:
            with self._reading() as connection:
                query = "SELECT crc, vectors FROM passages WHERE key = ? AND rowid <= ?"
                row = connection.execute(query, (key[:_KEY_BYTES], self._last)).fetchone()
            if row is None:
                continue
            crc, raw = row
            if not isinstance(raw, bytes) or zlib.crc32(raw) != crc:
                raise _damaged(self.path, "the vectors of a passage are not as written")
            found[key] = _unpacked(raw)
        return found

    @staticmethod
    def rounded(windows: Sequence[EncodedText]) -> list[EncodedText]:
        """Windows as they would be read from here."""
        return _unpacked(_packed(windows))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection of this thread and process: sqlite's own may not be taken into a fork."""
        local = self._opened
        try:
            if getattr(local, "process", None) != os.getpid():
                local.connection = sqlite3.connect(
                    f"{self.path.resolve().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS
                )
                local.connection.executescript("PRAGMA query_only = ON; PRAGMA mmap_size = 1e12")
                local.process = os.getpid()
            yield local.connection
        except sqlite3.Error as error:
            raise _damaged(self.path, f"cannot be read ({error})") from None


class PassageWriter:
    """Appends encoded passages to a folder, which is made where it is missing.

    A context manager; what was not committed when it is left does not count.

    Args:
        folder: new, empty or a store.
        encoder: the fingerprint of the encoder that gives the vectors.

    Raises:
        InputError: the folder has other files, cannot be written, or another process writes it.
        ModelFolderError: as for `PassageStore`.
    """

    def __init__(self, folder: str | os.PathLike[str], encoder: Fingerprint) -> None:
        self._path = Path(folder) / STORE_FILE
        _prepare_folder(self._path)
        with self._writing():
            self._connection = sqlite3.connect(self._path, isolation_level=None, timeout=0.0)
        try:
            with self._writing():
                self._begin(encoder)
            # Which checks what is there.
            PassageStore(folder, encoder)
        except BaseException:
            self._connection.close()
            raise

    def _begin(self, encoder: Fingerprint) -> None:
        run = self._connection.execute
        run(f"PRAGMA page_size = {_PAGE_BYTES}")
        # Readers wait only while a commit is written, not while passages are appended.
        run("PRAGMA cache_spill = OFF")
        run("PRAGMA synchronous = FULL")
        run("BEGIN IMMEDIATE")
        run(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")
        [(tables,)] = run("SELECT count(*) FROM sqlite_schema")
        if not tables:
            for statement in _SCHEMA:
                run(statement)
            about = _About(encoder=encoder)
            run("INSERT INTO about VALUES (?)", (about.model_dump_json(),))
            self.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __contains__(self, key: bytes) -> bool:
        query = "SELECT 1 FROM passages WHERE key = ?"
        return self._connection.execute(query, (key[:_KEY_BYTES],)).fetchone() is not None

    def __len__(self) -> int:
        """Passages that count, those not yet committed included."""
        [(count,)] = self._connection.execute("SELECT count(*) FROM passages")
        return int(count)

    def append(self, encoded: Mapping[bytes, Sequence[EncodedText]]) -> None:
        """Write passages; those that are there already stay as they are."""
        for key, windows in encoded.items():
            raw = _packed(windows)
            row = key[:_KEY_BYTES], zlib.crc32(raw), raw
            with self._writing():
                self._connection.execute("INSERT OR IGNORE INTO passages VALUES (?, ?, ?)", row)

    def commit(self) -> None:
        """Make what was appended count."""
        with self._writing():
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN IMMEDIATE")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            folder = str(self._path.parent)
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                what = "another process is writing this store"
                hint = "wait for it, or choose another folder"
                raise InputError(what, where=folder, hint=hint) from None
            if error.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise _damaged(self._path, f"cannot be read ({error})") from None
            raise unwritable(folder, error) from None


def _prepare_folder(path: Path) -> None:
    """Make the folder of a store, and reject one that holds anything else."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = {one.name for one in folder.iterdir()} - {f"{STORE_FILE}-journal"}
        if STORE_FILE in files:
            os.close(open_regular(path, os.O_RDWR))
    except OSError as error:
        raise unwritable(folder, error) from None
    if files and STORE_FILE not in files:
        what = "holds other files and no store of passages"
        hint = "name a new folder, or one that `knowgate index` wrote"
        raise InputError(what, where=str(folder), hint=hint)


def _require_about(connection: sqlite3.Connection, encoder: Fingerprint, path: Path) -> None:
    schema = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    # A view or a trigger could name functions to run.
    if [statement for (statement,) in schema] != list(_SCHEMA):
        raise _damaged(path, "is no database of passages")
    rows = connection.execute("SELECT content FROM about").fetchall()
    try:
        about = _About.model_validate_json(rows[0][0] if len(rows) == 1 else "")
    except ValidationError as error:
        raise _damaged(path, first_fault(error)) from None
    if about.schema_version != STORE_VERSION:
        what = f"schema {about.schema_version} is not {STORE_VERSION}, the one known here"
        raise ModelFolderError(what, where=str(path), hint="upgrade knowgate, or " + _HINT)
    differences = about.encoder.differences(encoder)
    if differences:
        what = f"the passages were encoded by another scorer ({'; '.join(differences)})"
        hint = "encode them for this one with `knowgate index KB --scorer NAME --out DIR`"
        raise ModelFolderError(what, where=str(path.parent), hint=hint)


def _damaged(path: Path, what: str) -> ModelFolderError:
    return ModelFolderError(what, where=str(path), hint=_HINT)


def _packed(windows: Sequence[EncodedText]) -> bytes:
    """One passage as bytes: sizes, then per window its embedding, ids and token vectors."""
    widths = windows[0].embedding.size, windows[0].vectors.shape[1]
    sizes = np.array([*widths, len(windows), *(len(window.ids) for window in windows)], "<u4")
    parts = [sizes.tobytes()]
    for window in windows:
        parts += [window.embedding.astype("<f4").tobytes(), window.ids.astype("<i4").tobytes()]
        parts.append(window.vectors.astype("<f2").tobytes())
    return b"".join(parts)


def _unpacked(raw: bytes) -> list[EncodedText]:
    place = 0

    def take(dtype: str, count: int) -> NDArray[Any]:
        nonlocal place
        found = np.frombuffer(raw, dtype=dtype, count=count, offset=place)
        place += found.nbytes
        return found

    embedded, width, count = take("<u4", 3).tolist()
    windows = []
    for length in take("<u4", count).tolist():
        embedding = take("<f4", embedded).astype(np.float32)
        ids = take("<i4", length).astype(np.int32)
        vectors = from_float16(take("<f2", length * width).reshape(length, width))
        windows.append(EncodedText(ids, vectors, embedding))
    return windows


def from_float16(stored: NDArray[np.float16]) -> Floats:
    """The same finite numbers in float32, six times as fast as by `astype`.

    The bits of exponent and fraction are moved to where float32 has them; the exponent is then
    too small by the 112 between the two offsets.
    """
    bits = stored.view(np.int16).astype(np.int32) << 13
    bits &= _SIGN_EXPONENT_FRACTION
    numbers = bits.view(np.float32)
    numbers *= np.float32(2.0**112)
    return numbers
