"""A cache bounded in bytes, the least recently used values dropped first."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from sys import getsizeof
from typing import Generic, TypeVar

from .errors import InputError
from .process import add, after_fork

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

# Of the encoded texts that one encoder keeps.
CACHE_BYTES = 256 * 2**20
# What the dictionary itself and the number of bytes take per value.
_BYTES_PER_ENTRY = 300


class ByteCache(Generic[Key, Value]):
    """Values that together take at most so many bytes; for many threads.

    Long texts are best kept under their `content_key`, so that the cache does not hold them.

    Attributes:
        bytes_kept: what keys and values take together.

    Args:
        most_bytes: of all keys and values together; 0 keeps nothing.
        size: the bytes of one value, what it refers to included.
        name: under which lookups by `found` are counted; empty for not at all.

    Raises:
        InputError: `most_bytes` is negative.

    Example:
        >>> cache = ByteCache(1_000, len)
        >>> cache.keep({"a": b"x" * 400, "b": b"y" * 400})
        >>> cache.found(["a", "b"]).keys()
        dict_keys(['b'])
    """

    def __init__(self, most_bytes: int, size: Callable[[Value], int], name: str = "") -> None:
        if most_bytes < 0:
            raise InputError("must not be negative", where="cache_bytes")
        self._most_bytes, self._size, self._name = most_bytes, size, name
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.bytes_kept = 0
        self._lock = threading.Lock()
        after_fork(self)

    def __len__(self) -> int:
        return len(self._values)

    def found(self, keys: Collection[Key]) -> dict[Key, Value]:
        """The values that are there, by key; each counts as used."""
        values: dict[Key, Value] = {}
        hits = 0
        with self._lock:
            for key in keys:
                if (entry := self._values.get(key)) is not None:
                    self._values.move_to_end(key)
                    values[key] = entry[0]
                    hits += 1
        for result, count in (("hit", hits), ("miss", len(keys) - hits)):
            if self._name and count:
                add("caches", (self._name, result), count)
        return values

    def keep(self, fresh: Mapping[Key, Value]) -> None:
        """Add values; one that is larger than the whole cache is not kept."""
        sizes = {
            key: self._size(value) + getsizeof(key) + _BYTES_PER_ENTRY
            for key, value in fresh.items()
        }
        with self._lock:
            for key, value in fresh.items():
                # Another thread may have added the same one meanwhile.
                if key not in self._values and sizes[key] <= self._most_bytes:
                    self._values[key] = value, sizes[key]
                    self.bytes_kept += sizes[key]
            while self.bytes_kept > self._most_bytes:
                _, (_, dropped) = self._values.popitem(last=False)
                self.bytes_kept -= dropped

    def made(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of one key, made where it is not there."""
        with self._lock:
            if (entry := self._values.get(key)) is not None:
                self._values.move_to_end(key)
                return entry[0]
        found = make()
        self.keep({key: found})
        return found

    def forget(self) -> None:
        """Drop all values."""
        self._lock = threading.Lock()
        self._values, self.bytes_kept = OrderedDict(), 0

    def begin(self) -> None:
        """Drop what another thread was at when this process was forked."""
        if self._lock.locked():
            self.forget()


def made_of(
    cache: ByteCache[bytes, Value],
    texts: Sequence[str],
    make: Callable[[dict[bytes, str]], Mapping[bytes, Value]],
    kind: int = 0,
) -> list[Value]:
    """What is kept of each text; what is not is made for all of them together.

    Args:
        cache: by `content_key`.
        texts: in any number; equal ones are made once.
        make: of the texts that are missing by their keys, with a value for each.
        kind: tells apart what is kept of a text.
    """
    keys = [content_key(text, kind) for text in texts]
    found = cache.found(keys)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
    if missing:
        fresh = make(missing)
        found.update(fresh)
        cache.keep(fresh)
    return [found[key] for key in keys]


def content_key(text: str, kind: int = 0) -> bytes:
    """A key of 17 bytes for a text, `kind` telling apart what is kept of it, in [0, 255]."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return digest + bytes([kind])
