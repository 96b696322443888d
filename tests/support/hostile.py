"""Questions and passages that nobody should send, and that somebody will."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any


class Raising:
    """Every attribute raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class RaisingIterator:
    """Looks like a sequence and raises in the middle."""

    def __iter__(self) -> Iterator[str]:
        yield "first"
        raise ValueError("second")


class StopsOddly:
    """Raises what generators take for their own end."""

    @property
    def page_content(self) -> str:
        raise StopIteration


class RaisingText(str):
    """Text whose methods raise."""

    __slots__ = ()

    def strip(self, chars: str | None = None, /) -> str:
        raise RuntimeError("strip")

    def __str__(self) -> str:
        raise RuntimeError("str")

    def replace(self, *_: Any) -> str:
        raise RuntimeError("replace")

    def encode(self, *_: Any) -> bytes:
        raise RuntimeError("encode")


class RaisingBytes(bytes):
    """Bytes that cannot be decoded."""

    def decode(self, *_: Any) -> str:
        raise RuntimeError("decode")


class RaisingMapping(Mapping[str, Any]):
    """A mapping that knows nothing."""

    def __getitem__(self, key: str) -> Any:
        raise OverflowError(key)

    def __iter__(self) -> Iterator[str]:
        raise OverflowError

    def __len__(self) -> int:
        raise OverflowError


class Document:
    """A lone document that is iterable over its fields."""

    def __init__(self, text: Any) -> None:
        self.page_content = text

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter([("page_content", self.page_content)])


class Changing:
    """A document whose text is another one whenever it is read."""

    def __init__(self) -> None:
        self._reads = 0

    @property
    def page_content(self) -> str:
        self._reads += 1
        return f"reading {self._reads}"


class Exits:
    """Ends the program when it is read."""

    @property
    def page_content(self) -> str:
        raise SystemExit(3)


class RaisingMetadata:
    """A document that tells its text only."""

    page_content = "text"

    @property
    def metadata(self) -> Any:
        raise RuntimeError("metadata")


class OddList(list[Any]):
    """A list that raises when it is walked through."""

    def __iter__(self) -> Iterator[Any]:
        raise MemoryError


MEGABYTE = "x" * 1_000_000
TEXTS: list[Any] = [
    "",
    " \t\n",
    "\x00",
    "a\x00b",
    "שלום עולם",
    "\u202eright to left\u202c",
    "👩‍👩‍👧‍👦🏴‍☠️",
    "\ud800",
    "\udfff\ud800 \ud83d\ude00",
    "e\u0301" * 50,
    "\u2028\u2029\ufeff",
    "{question} {0} %s %(x)s",
    "a b " * 500,
    "我的护照在哪里？",
    b"bytes",
    b"\xff\xfe\x00",
    RaisingText("text"),
    RaisingBytes(b"text"),
]
OTHERS: list[Any] = [
    None,
    0,
    -1,
    10**400,
    1.5,
    float("nan"),
    True,
    object(),
    Raising(),
    StopsOddly(),
    RaisingMapping(),
    {"text": "in a mapping"},
    {"text": 7, "content": b"later"},
    {1: 2},
    Document("in a document"),
    Document(None),
    Document("\ud800"),
    type,
    len,
    ...,
    bytearray(b"bytes"),
    memoryview(b"bytes"),
    [["nested"]],
    Changing(),
    Exits(),
    RaisingMetadata(),
    [None],
    ("passage", 0.9),
    {"text": None},
    OddList(["passage"]),
]


def hostile_value(random: Random) -> Any:
    """One question or passage."""
    if random.random() < 0.5:
        return random.choice(TEXTS)
    if random.random() < 0.4:
        return random.choice(OTHERS)
    return "".join(chr(random.randrange(0x110000)) for _ in range(random.randrange(30)))


def hostile_passages(random: Random) -> Any:
    """What is passed as passages."""
    kind = random.randrange(14)
    values = [hostile_value(random) for _ in range(random.randrange(5))]
    if kind == 0:
        return hostile_value(random)
    if kind == 1:
        return (value for value in values)
    if kind == 2:
        return RaisingIterator()
    if kind == 3:
        return iter([f"passage {i}" for i in range(random.randrange(60))])
    if kind == 4:
        return tuple(values)
    if kind == 5:
        return itertools.repeat(random.choice(["endless", "", None, MEGABYTE]))
    if kind == 6:
        return [*values, [Document("nested"), "passage"]]
    if kind == 7:
        return Document("in a bare document")
    if kind == 8:
        return [Changing(), RaisingMetadata(), *values]
    return values


def hostile_inputs(count: int, seed: int = 0) -> Iterator[tuple[Any, Any]]:
    """`count` questions with passages, a megabyte of text among them now and then."""
    random = Random(seed)
    for index in range(count):
        question = MEGABYTE if index % 997 == 5 else hostile_value(random)
        passages = [MEGABYTE, "short"] if index % 991 == 7 else hostile_passages(random)
        yield question, passages
