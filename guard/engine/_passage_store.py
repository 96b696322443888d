"""Encoded passages on the disk: made by `knowgate index`, mapped into memory to be read.

A folder holds three files. `index.json` says what the vectors came from and how much of the
other two counts; `passages.table` has one record of 32 bytes per passage: the hash of its
text, where its vectors are, and their checksum; `passages.data` has the vectors.

What is promised:

- **No old vectors for a changed text**: passages are found by a hash of their text.
- **No vectors of another encoder**: a store is bound to everything that changes them.
- **Killed writers do no harm**: the other two files only grow, and what is new in them counts
  once `index.json` has been replaced. One process writes at a time.
- **Damage is an error, never a score**: lengths and the table are checked on opening, the
  vectors of a passage when they are first read.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from ..errors import InputError, ModelFolderError
from ..files import open_regular, read_json, write_text
from ..policy import Fingerprint
from ._encoded_text import EncodedText

StoredDtype = Literal["float16", "int8"]

STORE_VERSION = 1
_INDEX, _TABLE, _DATA, _LOCK = "index.json", "passages.table", "passages.data", ".lock"
_HINT = "write it again with `knowgate index KB --out DIR` into a new folder"
# The first 16 bytes of a key, as two numbers; where the passage is, and its crc32.
_RECORD = np.dtype(
    [("high", "<u8"), ("low", "<u8"), ("start", "<u8"), ("bytes", "<u4"), ("crc", "<u4")]
)
_KEY_BYTES = 16
# Of a float16 that was widened to 32 bits and moved left by 13.
_SIGN_EXPONENT_FRACTION = np.uint32(0x8FFFE000).astype(np.int32)
_NUMPY_DTYPES: Mapping[StoredDtype, str] = {"float16": "<f2", "int8": "i1"}


class _Index(BaseModel):
    """The content of `index.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int = STORE_VERSION
    encoder: Fingerprint
    dtype: StoredDtype
    passages: NonNegativeInt = 0
    data_bytes: NonNegativeInt = 0
    table_crc32: NonNegativeInt = 0


class PassageStore:
    """The encoded passages of a folder, for many threads and forked processes.

    A store that is opened does not see what is appended later.

    Args:
        folder: that `knowgate index` wrote.
        encoder: the fingerprint of the encoder that is to use them.

    Raises:
        ModelFolderError: the folder is no store, of a newer version, damaged or cut off, or
            another encoder gave the vectors.
    """

    def __init__(self, folder: str | os.PathLike[str], encoder: Fingerprint) -> None:
        self.folder = Path(folder)
        self.index = _read_index(self.folder)
        _require_encoder(self.index, encoder, self.folder)
        self._records = self._read_table()
        order = np.argsort(self._records["high"], kind="stable")
        self._order, self._high = order, self._records["high"][order]
        self._data = self._map_data()

    def __len__(self) -> int:
        return self.index.passages

    def __contains__(self, key: bytes) -> bool:
        return self._place(key) is not None

    @property
    def dtype(self) -> StoredDtype:
        """In which precision vectors are stored."""
        return self.index.dtype

    def found(self, keys: Iterable[bytes]) -> dict[bytes, list[EncodedText]]:
        """The windows of the passages that are there, by key.

        Raises:
            ModelFolderError: the vectors of a passage are damaged.
        """
        places = {key: place for key in keys if (place := self._place(key)) is not None}
        for place in places.values():
            self._announce(place)
        return {key: _unpacked(self._raw(place), self.dtype) for key, place in places.items()}

    def raw(self, key: bytes) -> bytes | None:
        """The checked bytes of one passage, None where it is not there. Raises as `found`."""
        place = self._place(key)
        return None if place is None else self._raw(place)

    def _announce(self, place: int) -> None:
        """Let the system read a passage from the disk while others are waited for."""
        start, size = self._span(place)
        if isinstance(self._data, mmap.mmap) and hasattr(self._data, "madvise"):
            low = start - start % mmap.PAGESIZE
            self._data.madvise(mmap.MADV_WILLNEED, low, start + size - low)

    def _raw(self, place: int) -> bytes:
        start, size = self._span(place)
        raw = self._data[start : start + size]
        if zlib.crc32(raw) != self._records[place]["crc"]:
            raise _damaged(self.folder / _DATA, "the vectors of a passage are not as written")
        return raw

    def _span(self, place: int) -> tuple[int, int]:
        record = self._records[place]
        return int(record["start"]), int(record["bytes"])

    def rounded(self, windows: Sequence[EncodedText]) -> list[EncodedText]:
        """Windows as they would be read from here."""
        return _unpacked(_packed(windows, self.dtype), self.dtype)

    def require_dtype(self, dtype: str) -> None:
        """Reject a store in another precision.

        Raises:
            InputError: it is another.
        """
        if dtype != self.dtype:
            raise InputError(
                f"the passages are stored in {self.dtype}, not in {dtype}",
                where=str(self.folder),
                hint=f"use --dtype {self.dtype}, or another folder",
            )

    def _place(self, key: bytes) -> int | None:
        """The record of a key; several keys may begin alike."""
        high, low = _numbers(key)
        # As a number of the same type, or all would be converted, to floats that are alike.
        at = int(self._high.searchsorted(np.uint64(high)))
        while at < len(self._high) and self._high[at] == high:
            place = int(self._order[at])
            if self._records[place]["low"] == low:
                return place
            at += 1
        return None

    def _read_table(self) -> NDArray[Any]:
        path, index = self.folder / _TABLE, self.index
        wanted = index.passages * _RECORD.itemsize
        try:
            with os.fdopen(open_regular(path, links=True), "rb") as stream:
                raw = stream.read(wanted)
        except OSError as error:
            raise _damaged(path, f"cannot be read ({error.strerror})") from None
        if len(raw) < wanted:
            raise _damaged(path, f"has {len(raw)} bytes, {wanted} were written")
        if zlib.crc32(raw) != index.table_crc32:
            raise _damaged(path, "is not as written")
        records = np.frombuffer(raw, dtype=_RECORD)
        if len(records) and int((records["start"] + records["bytes"]).max()) > index.data_bytes:
            raise _damaged(path, "names places beyond the end of the vectors")
        return records

    def _map_data(self) -> mmap.mmap | bytes:
        path, wanted = self.folder / _DATA, self.index.data_bytes
        try:
            with os.fdopen(open_regular(path, links=True), "rb") as stream:
                there = os.fstat(stream.fileno()).st_size
                if there < wanted:
                    raise _damaged(path, f"has {there} bytes, {wanted} were written")
                if not wanted:
                    return b""
                return mmap.mmap(stream.fileno(), wanted, access=mmap.ACCESS_READ)
        except OSError as error:
            raise _damaged(path, f"cannot be read ({error.strerror})") from None


class PassageWriter:
    """Appends encoded passages to a folder, which is made where it is missing.

    A context manager; what was not committed when it is left does not count.

    Args:
        folder: new, empty or a store.
        encoder: the fingerprint of the encoder that gives the vectors.
        dtype: `float16` or `int8`; None for what the store has, and float16 for a new one.
        reuse: folder of another store of the same encoder and dtype, to copy from.

    Raises:
        InputError: the folder has other files, cannot be written, another process writes it,
            or a store has another dtype.
        ModelFolderError: as for `PassageStore`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        encoder: Fingerprint,
        dtype: str | None = None,
        reuse: str | os.PathLike[str] | None = None,
    ) -> None:
        if dtype is not None and dtype not in get_args(StoredDtype):
            raise InputError(
                f"{dtype!r} is not a precision that passages are stored in",
                where="dtype",
                hint=f"one of {', '.join(get_args(StoredDtype))}",
            )
        self.folder = Path(folder)
        self._lock = self._locked()
        try:
            self._store = self._opened(encoder, dtype)
            self._index = self._store.index
            self._old = None
            if reuse is not None:
                self._old = PassageStore(reuse, encoder)
                self._old.require_dtype(self._index.dtype)
            # What a killed writer left behind does not count.
            self._table = self._stream(_TABLE, self._index.passages * _RECORD.itemsize)
            self._data = self._stream(_DATA, self._index.data_bytes)
        except BaseException:
            os.close(self._lock)
            raise
        self._new: set[bytes] = set()
        self._records: list[tuple[int, int, int, int, int]] = []
        self._end = self._index.data_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in (self._table, self._data):
            # On a full disk, once more what was raised before; nothing of it counts.
            with contextlib.suppress(OSError):
                stream.close()
        os.close(self._lock)

    def __contains__(self, key: bytes) -> bool:
        return key[:_KEY_BYTES] in self._new or key in self._store

    def __len__(self) -> int:
        """Passages that count, those not yet committed included."""
        return self._index.passages + len(self._records)

    def append(self, encoded: Mapping[bytes, Sequence[EncodedText]]) -> None:
        """Write passages; those that are there already stay as they are."""
        for key, windows in encoded.items():
            self._append(key, _packed(windows, self._index.dtype))

    def copy(self, key: bytes) -> bool:
        """Whether a passage was there to be copied from the store to reuse."""
        raw = None if self._old is None else self._old.raw(key)
        if raw is not None:
            self._append(key, raw)
        return raw is not None

    def _append(self, key: bytes, raw: bytes) -> None:
        if key in self:
            return
        self._written(lambda: self._data.write(raw))
        self._records.append((*_numbers(key), self._end, len(raw), zlib.crc32(raw)))
        self._new.add(key[:_KEY_BYTES])
        self._end += len(raw)

    def commit(self) -> None:
        """Make what was appended count."""
        table = np.array(self._records, dtype=_RECORD).tobytes()
        self._written(lambda: self._flushed(table))
        self._index = self._index.model_copy(
            update={
                "passages": self._index.passages + len(self._records),
                "data_bytes": self._end,
                "table_crc32": zlib.crc32(table, self._index.table_crc32),
            }
        )
        self._records.clear()
        write_text(self.folder / _INDEX, self._index.model_dump_json(indent=1) + "\n")

    def _flushed(self, table: bytes) -> None:
        self._table.write(table)
        for stream in (self._data, self._table):
            stream.flush()
            os.fsync(stream.fileno())

    def _written(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            raise _unwritable(self.folder, error) from None

    def _locked(self) -> int:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = open_regular(self.folder / _LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise InputError(
                "another process is writing this store",
                where=str(self.folder),
                hint="wait for it, or choose another folder",
            ) from None
        return lock

    def _opened(self, encoder: Fingerprint, dtype: str | None) -> PassageStore:
        if not (self.folder / _INDEX).exists():
            others = {path.name for path in self.folder.iterdir()} - {_TABLE, _DATA, _LOCK}
            if others:
                raise InputError(
                    "holds other files and no store of passages",
                    where=str(self.folder),
                    hint="name a new folder, or one that `knowgate index` wrote",
                )
            for name in (_TABLE, _DATA):
                write_text(self.folder / name, "")
            index = _Index(encoder=encoder, dtype=cast(StoredDtype, dtype or "float16"))
            write_text(self.folder / _INDEX, index.model_dump_json(indent=1) + "\n")
        store = PassageStore(self.folder, encoder)
        store.require_dtype(dtype or store.dtype)
        return store

    def _stream(self, name: str, length: int) -> Any:
        try:
            stream = os.fdopen(open_regular(self.folder / name, os.O_RDWR), "r+b")
            stream.truncate(length)
            stream.seek(length)
        except OSError as error:
            raise _unwritable(self.folder / name, error) from None
        return stream


def _read_index(folder: Path) -> _Index:
    path = folder / _INDEX
    if not path.is_file():
        raise ModelFolderError(
            "is no store of passages", where=str(folder), hint="write it with `knowgate index`"
        )
    try:
        value = read_json(path)
    except InputError as error:
        raise _damaged(path, error.what) from None
    version = value.get("schema_version") if isinstance(value, dict) else None
    if type(version) is int and version > STORE_VERSION:
        raise ModelFolderError(
            f"schema {version} is newer than {STORE_VERSION}, the newest known here",
            where=str(path),
            hint="upgrade knowgate, or " + _HINT,
        )
    try:
        # As JSON, where `strict` takes lists for tuples, but no text for a number.
        return _Index.model_validate_json(json.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise _damaged(path, f"field '{field}': {first['msg']}") from None


def _require_encoder(index: _Index, encoder: Fingerprint, folder: Path) -> None:
    differences = index.encoder.differences(encoder)
    if differences:
        raise ModelFolderError(
            f"the passages were encoded by another scorer ({'; '.join(differences)})",
            where=str(folder),
            hint="encode them for this one with `knowgate index KB --scorer NAME --out DIR`",
        )


def _damaged(path: Path, what: str) -> ModelFolderError:
    return ModelFolderError(what, where=str(path), hint=_HINT)


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot be written ({error.strerror})", where=str(path), hint="choose another place"
    )


def _numbers(key: bytes) -> tuple[int, int]:
    return int.from_bytes(key[:8], "little"), int.from_bytes(key[8:_KEY_BYTES], "little")


def _packed(windows: Sequence[EncodedText], dtype: StoredDtype) -> bytes:
    """One passage as bytes: sizes, then per window its embedding, ids and token vectors.

    int8 has a scale for each token, whose largest number is 127.
    """
    widths = windows[0].embedding.size, windows[0].vectors.shape[1]
    sizes = np.array([*widths, len(windows), *(len(window.ids) for window in windows)], "<u4")
    parts = [sizes.tobytes()]
    for window in windows:
        parts += [window.embedding.astype("<f4").tobytes(), window.ids.astype("<i4").tobytes()]
        vectors = window.vectors
        if dtype == "int8":
            scales = np.abs(vectors).max(axis=1, keepdims=True) / np.float32(127)
            vectors = np.rint(vectors / np.maximum(scales, np.float32(1e-12)))
            parts.append(scales.astype("<f4").tobytes())
        parts.append(vectors.astype(_NUMPY_DTYPES[dtype]).tobytes())
    return b"".join(parts)


def _unpacked(raw: bytes, dtype: StoredDtype) -> list[EncodedText]:
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
        scales = take("<f4", length) if dtype == "int8" else None
        stored = take(_NUMPY_DTYPES[dtype], length * width).reshape(length, width)
        vectors = from_float16(stored) if scales is None else stored * scales[:, None]
        windows.append(EncodedText(ids, vectors, embedding))
    return windows


def from_float16(stored: NDArray[np.float16]) -> NDArray[np.float32]:
    """The same finite numbers in float32, six times as fast as by `astype`.

    The bits of exponent and fraction are moved to where float32 has them; the exponent is then
    too small by the 112 between the two offsets.
    """
    bits = stored.view(np.int16).astype(np.int32) << 13
    bits &= _SIGN_EXPONENT_FRACTION
    numbers = bits.view(np.float32)
    numbers *= np.float32(2.0**112)
    return numbers
