"""Sentences of a text with their words, figures and names, ready to be looked for elsewhere."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from sys import getsizeof

from ..._byte_cache import ByteCache, content_key
from ...language import by_word, compiled, listed, without_suffix
from ..conflict.meaning_rules import UNITS, Reading, Word, read_answer

MOST_CHARACTERS = 200_000
# Of the texts that are kept as they were read.
_CACHE_BYTES, _BYTES_PER_WORD, _BYTES_PER_ITEM = 64 * 2**20, 250, 250
# Words of a sentence beside another that carries it count so much.
BESIDE = 0.9
# From this share of its words on a passage sentence is about the same as the reply's: only there
# can a negation turn it round, and another name stand in the place of one.
SAME_MATTER = 0.6

# After these a full stop ends no sentence.
_ABBREVIATIONS = "|".join(sorted(listed("support", "abbreviations")))
_END = re.compile(
    r"(?<![.!?])(?<!\b[A-Za-z])[.!?]++[\"'”’)\]]*+(?=\s)|[。！？；]++[”’」』）]*+|\n++"
)
# Nor after the number of a list's entry.
_NOT_AT_THE_END = re.compile(rf"\b(?:{_ABBREVIATIONS})\.$|(?:^|\n)\W*\d{{1,2}}\.$", re.IGNORECASE)
_NUMBERED = re.compile(r"\bnos?\.$", re.IGNORECASE)  # No. 5
# Blanks take the place of references, so that places stay.
_RULE = compiled("support", "reading")
EMPTY = listed("questions", "aside") | listed("support", "empty")
_FAMILIES = by_word("word_families")
_PARTICLES = listed("support", "particles")
_SUFFIXES = (
    "ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "ed", "es", "ly", "s", "e",
)  # fmt: skip
_LEAST_STEM = 3
_SMALL = frozenset(map(str, range(13)))
_WEIGHTS = {"number": 2.0, "name": 2.0, "count": 1.0, "word": 1.0, "character": 0.5}
_WORDS = re.compile(r"\w+")
_LISTED = re.compile(r"\s*[(\[]?\d{1,2}[.)\]]\s")
_CJK = re.compile(r"[぀-ヿ㐀-鿿豈-﫿]")


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a sentence tells.

    Attributes:
        kind: `number` (also a month or a weekday), `count` (a small number in words, without a
            unit), `name`, `word` or `character`, a pair of Chinese or Japanese ones.
        text: as it is compared.
        shown: as it is written.
        unit: of a number, as it is compared; empty where it has none.
        weight: how much it counts.
    """

    kind: str
    text: str
    shown: str
    unit: str = ""
    weight: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _WEIGHTS[self.kind])


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence and what it tells.

    Attributes:
        start: where it begins in the text, in characters.
        end: where it ends.
        text: as written.
        reading: its words and quantities.
        items: what it tells, without words that say little.
        quotes: what it quotes, names of commands and files included, as compared.
        stems: all its words as they are compared, in order.
        own: what it tells, as it is compared.
        beside: what the sentences next to it tell, likewise.
        units: of the numbers here and there; an empty one where a number stands alone.
    """

    start: int
    end: int
    text: str
    reading: Reading
    items: tuple[Item, ...]
    quotes: tuple[str, ...]
    stems: tuple[str, ...]
    own: frozenset[str]
    beside: frozenset[str] = frozenset()
    units: dict[str, set[str]] = field(default_factory=dict)

    def share(self, items: Iterable[Item]) -> float:
        """The share of what the items weigh that stands here or beside."""
        own, beside = self.shares(items)
        return own + BESIDE * beside

    def shares(self, items: Iterable[Item]) -> tuple[float, float]:
        """The shares that stand in the sentence itself, and only in those next to it."""
        total = own = beside = 0.0
        here, next_to = self.own, self.beside
        for item in items:
            total += item.weight
            if item.text in here:
                own += item.weight
            elif item.text in next_to:
                beside += item.weight
        return (own / total, beside / total) if total else (0.0, 0.0)

    def says_most_of(self, other: Sentence) -> bool:
        """Whether most of what another sentence tells stands here, too."""
        return self.shares(other.items)[0] >= SAME_MATTER

    @property
    def facts(self) -> dict[int, str]:
        """Kinds of words by their places: figures, names, Chinese characters with a meaning."""
        found = {}
        for place, word in enumerate(self.reading.words):
            if place in self.reading.dated:
                found[place] = "number"
            elif _CJK.match(word.text):
                if word.text not in _PARTICLES:
                    found[place] = "character"
            elif word.capital and place and word.text not in EMPTY:
                found[place] = "name"
        return found


_TEXTS: ByteCache[bytes, tuple[Sentence, ...]] = ByteCache(
    _CACHE_BYTES,
    lambda found: sum(
        _BYTES_PER_WORD * len(one.reading.words)
        + _BYTES_PER_ITEM * len(one.items)
        + 2 * getsizeof(one.text)
        for one in found
    ),
)


def read_sentences(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of a text, at most its first 200,000 characters.

    Example:
        >>> [one.text for one in read_sentences("Dr. Lee pays 5 euros. It is due in May.")]
        ['Dr. Lee pays 5 euros.', 'It is due in May.']
    """
    return _TEXTS.made(content_key(text), lambda: tuple(_sentences(text[:MOST_CHARACTERS])))


def _sentences(text: str) -> Iterator[Sentence]:
    plain = _RULE["references"].sub(lambda one: " " * len(one.group()), text)
    read = [_sentence(plain, *span) for span in sentence_spans(text)]
    for place, one in enumerate(read):
        beside = read[max(0, place - 1) : place] + read[place + 1 : place + 2]
        units: dict[str, set[str]] = {}
        for item in (item for near in (one, *beside) for item in near.items):
            if item.kind in ("number", "count"):
                units.setdefault(item.text, set()).add(item.unit)
        texts = frozenset[str]().union(*(near.own for near in beside))
        yield replace(one, beside=texts, units=units)


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Return where the sentences and lines of a text begin and end, blanks left out."""
    start = 0
    for found in _END.finditer(text):
        before = text[max(0, found.start() - 12) : found.start() + 1]
        if _NOT_AT_THE_END.search(before):
            continue
        if _NUMBERED.search(before) and text[found.end() : found.end() + 3].strip()[:1].isdigit():
            continue
        yield from _stripped(text, start, found.end())
        start = found.end()
    yield from _stripped(text, start, len(text))


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    part = text[start:end]
    if part.strip():
        yield start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _sentence(text: str, start: int, end: int) -> Sentence:
    part = text[start:end]
    reading = read_answer(part)
    stems = tuple(stem(word.text) for word in reading.words)
    items, quotes = tuple(_items(reading)), tuple(_quotes(part))
    own = frozenset(item.text for item in items)
    return Sentence(start, end, part, reading, items, quotes, stems, own)


def _quotes(text: str) -> Iterator[str]:
    for found in _RULE["quoted"].finditer(text):
        yield folded(found.group(1))
    for found in _RULE["code"].finditer(text):
        yield folded(found.group().rstrip("./-"))


def folded(text: str) -> str:
    """Return the words of a text in one form, to be looked for in another."""
    return " ".join(_WORDS.findall(unicodedata.normalize("NFKC", text).casefold()))


def _items(reading: Reading) -> Iterator[Item]:
    words = reading.words
    # The number of a list's entry tells nothing.
    first = 1 if _LISTED.match(reading.text) and 0 in reading.dated else 0
    for place, word in enumerate(words[first:], first):
        following = words[place + 1] if place + 1 < len(words) else None
        if place in reading.dated:
            yield _quantity(reading, word, following)
        elif word.text in UNITS.values():
            # It is looked for with its number.
            continue
        elif _CJK.match(word.text):
            if following is not None and _CJK.match(following.text) and following.start == word.end:
                yield Item("character", word.text + following.text, word.text + following.text)
        elif word.text not in EMPTY and any(map(str.isalnum, word.text)):
            shown = reading.shown(word)
            is_name = word.capital and (place > 0 or (len(shown) > 1 and shown.isupper()))
            yield Item("name" if is_name else "word", stem(word.text), shown)


def _quantity(reading: Reading, word: Word, following: Word | None) -> Item:
    unit = following.text if following and following.text in UNITS.values() else ""
    shown = reading.shown(word)
    # "The first", "two kinds", "I": what counts or orders the reply's own words.
    is_figure = unit or any(map(str.isdigit, shown)) or word.text.startswith("month ")
    small = word.text in _SMALL or len(shown) == 1
    return Item("number" if is_figure or not small else "count", word.text, shown, unit)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return the form in which words of one family are equal.

    Example:
        >>> stem("carried") == stem("carries"), stem("wrote") == stem("writer")
        (True, True)
    """
    word = unicodedata.normalize("NFKD", word)
    word = "".join(c for c in word if unicodedata.category(c) != "Mn").removesuffix("'s")
    if word in _FAMILIES:
        return _FAMILIES[word]
    bare = without_suffix(word, _SUFFIXES, _LEAST_STEM)
    return bare.rstrip("y") if len(word) > _LEAST_STEM else word
