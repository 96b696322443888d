"""Find the text of a passage that asks instead of telling.

A passage that repeats the question matches every word of it and says nothing. Three kinds of
text ask: sentences that are questions; copies of the question, whole or with words changed;
and lists of the question's words in another order. The rest is what the passage tells.

What is promised: any text is accepted; the result depends on the question and the passage
alone; a passage without such text is returned as it is.

Source: Smith & Waterman 1981 (local alignment), here over words.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...text import clean_text

_WORD = re.compile(r"\w+(?:['’]\w+)?")
# Ends of sentences and lines: "period.By" is one, "1.5" and "e.g. this" are none.
_SENTENCE_END = re.compile(
    r"[.!]+[\"')\]]*(?=\s+[^a-z\s]|\s*$)|(?<=[a-z0-9])\.(?=[A-Z])|\?+[\"')\]]*|\n+"
)
# "Q:", "2. Question -", "A." in front of what is left.
_LABEL = re.compile(r"(?:^|(?<=\s))(?:q|a|question|answer|faq)\s*\d*\s*[:.)-]+(?=\s|$)", re.I)
# The number in front of a listed question.
_NUMBERED = re.compile(r"(?:^|\n)[ \t]*\(?\d{1,3}[.)][ \t]*$")
_PRONOUNS = {"i": "you", "we": "you", "one": "you", "my": "your", "our": "your", "me": "you"}


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WH = _listed("what which who whom whose when where why how")
_AUXILIARY = _listed(
    "am are can could did do does had has have is may might must shall should was were will would"
)
# Words that say little about what a text is about.
_ASIDE = (
    _WH
    | _AUXILIARY
    | _listed(
        "a about all also an and any as at be been but by can't don't doesn't for from he her his "
        "i i'm if in into it it's its just me more most my no not of on one or our please she so "
        "some than that the their there these they this those to us we what's with yes you your"
    )
)
_ASIDE_WEIGHT = 0.5
_GAP = 0.25
# Shares of the question's weight that a copy holds, and nearly all of it.
_COPIED, _COPIED_WHOLE = 0.5, 0.8
# What a copy word by word may lack: less than a statement with "can" after its subject.
_CHANGED = 0.3
_OTHER_WORDS, _OTHER_LISTED = 0.1, 0.2
_FEWEST_COPIED, _FEWEST_LISTED, _FEWEST_LISTED_KINDS = 3, 6, 2
# About what the encoder reads of a passage.
_MOST_CHARACTERS = 30_000
_MOST_WORDS, _MOST_SENTENCES, _MOST_COPIES = 64, 8, 8
_OPENING = 8

Span = tuple[int, int]
Places = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Told:
    """A passage without the text that asks.

    Attributes:
        kept: without lists of the question's words, which no page needs.
        told: without questions and copies of the question, too; empty where nothing is left.
    """

    kept: str
    told: str


def told_beside(question: str, passage: str) -> Told | None:
    """What a passage tells beside text that asks; None where it has no such text.

    Example:
        >>> told_beside("When do you open?", "When do you open? At nine.").told
        'At nine.'
        >>> told_beside("When do you open?", "We open at nine.") is None
        True
    """
    text = _folded(passage)
    words, sentences = _words(text), _sentences(text)
    asked, parts = _question(question)
    asking = [span for span in sentences if text[span[0] : span[1]].rstrip("\"')] ").endswith("?")]
    copies = [span for part in parts for span in _copies(part, words, sentences)]
    lists = _lists(asked, words, asking)
    if not (asking or copies or lists):
        return None
    kept = _without(text, lists) if lists else passage
    return Told(kept, _without(text, [*asking, *copies, *lists]))


@dataclass(frozen=True, slots=True)
class _Words:
    stems: tuple[str, ...]
    spans: tuple[Span, ...]

    def within(self, low: int, high: int) -> list[str]:
        """The stems between two places of the text."""
        return [
            stem
            for stem, (start, end) in zip(self.stems, self.spans, strict=True)
            if start >= low and end <= high
        ]


@dataclass(frozen=True, slots=True)
class _Part:
    """A sentence of the question, and whether it states the circumstances."""

    stems: tuple[str, ...]
    states: bool


def _folded(text: str) -> str:
    """The text without accents, invisible characters and compatibility forms."""
    text = clean_text(text)
    if len(text) > _MOST_CHARACTERS:
        text = " ".join(text.split())[:_MOST_CHARACTERS]
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKD", text)
    return "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Cf"))


@lru_cache(maxsize=1024)
def _question(question: str) -> tuple[tuple[str, ...], tuple[_Part, ...]]:
    text = _folded(question)
    sentences = [text[start:end] for start, end in _sentences(text)][:_MOST_SENTENCES]
    parts = tuple(
        _Part(
            _words(one).stems[:_MOST_WORDS],
            len(sentences) > 1 and not one.rstrip().endswith("?"),
        )
        for one in sentences
    )
    return _words(text).stems[:_MOST_WORDS], parts


def _words(text: str) -> _Words:
    found = list(_WORD.finditer(text))
    return _Words(tuple(_stem(one.group()) for one in found), tuple(one.span() for one in found))


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    word = word.lower().replace("’", "'")
    if word in _ASIDE:
        return _PRONOUNS.get(word, word)
    word = word.removesuffix("'s")
    for suffix in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


def _sentences(text: str) -> list[Span]:
    ends = [found.end() for found in _SENTENCE_END.finditer(text)] + [len(text)]
    spans = zip([0, *ends[:-1]], ends, strict=True)
    return [(start, end) for start, end in spans if text[start:end].strip()]


def _weight(stem: str) -> float:
    return _ASIDE_WEIGHT if stem in _ASIDE else 1.0


def _copies(part: _Part, words: _Words, sentences: Sequence[Span]) -> list[Span]:
    """Where the words of a sentence of the question stand in its order."""
    total = sum(map(_weight, part.stems))
    there = set(words.stems)
    if len(part.stems) < _FEWEST_COPIED:
        return []
    if sum(_weight(stem) for stem in part.stems if stem in there) < _COPIED * total:
        return []
    left = list(words.stems)
    found: list[Span] = []
    for _ in range(_MOST_COPIES):
        score, first, last = _aligned(part.stems, left)
        if score < _COPIED * total:
            break
        span = words.spans[first][0], words.spans[last][1]
        asks = (
            score >= _COPIED_WHOLE * total
            if part.states
            else score > total - _CHANGED or _opens(part, left[first : last + 1])
        )
        if asks or _stands_alone(part, span, words, sentences):
            found.append(span)
        left[first : last + 1] = [""] * (last + 1 - first)
    return found


def _opens(part: _Part, copied: Sequence[str]) -> bool:
    """Whether the copy opens as the question does: with its "how", or with "can you"."""
    stems = part.stems[:_OPENING]
    asking = [stem for stem in stems if stem in _WH][:2]
    if asking:
        return any(stem in copied[:2] for stem in asking)
    places = [place for place, stem in enumerate(stems) if stem in _AUXILIARY][:1]
    # In a statement the subject stands before "can".
    return any(
        copied[0] == stems[place]
        and (stems[place + 1 : place + 2] or [""])[0] in ("", *copied[1:3])
        for place in places
    )


def _stands_alone(part: _Part, span: Span, words: _Words, sentences: Sequence[Span]) -> bool:
    """Whether the sentences that the copy touches say nothing else.

    The words of a yes/no question in the order of a statement answer it.
    """
    low = min((start for start, end in sentences if end > span[0]), default=span[0])
    high = max((end for start, end in sentences if start < span[1]), default=span[1])
    inside = words.within(low, high)
    content = [stem for stem in inside if stem not in _ASIDE]
    if sum(stem not in part.stems for stem in content) > _OTHER_WORDS * len(content):
        return False
    yes_no = not any(stem in _WH for stem in part.stems[:_OPENING])
    return part.states or not yes_no or len(content) >= 0.8 * len(inside)


def _aligned(asked: Sequence[str], told: Sequence[str]) -> tuple[float, int, int]:
    """Score, first and last place of the best local alignment."""
    ends = _alignment_ends(asked, told)
    last = int(ends.argmax())
    back = _alignment_ends(asked[::-1], told[last::-1])
    return float(ends[last]), last - int(back.argmax()), last


def _alignment_ends(asked: Sequence[str], told: Sequence[str]) -> Places:
    """Per place the score of the best alignment that ends there with a match."""
    places = np.arange(len(told)) * _GAP
    names = np.array(told, dtype=object)
    same = {stem: names == stem for stem in set(asked)}
    row, best = np.zeros(len(told)), np.zeros(len(told))
    for stem in asked:
        met = same[stem]
        before = np.concatenate([[0.0], row[:-1]])
        row = np.maximum(np.where(met, before + _weight(stem), 0.0), row - _GAP)
        row = np.maximum.accumulate(np.maximum(row, 0.0) + places) - places
        best = np.maximum(best, np.where(met, row, 0.0))
    return best


def _lists(asked: Sequence[str], words: _Words, taken: Sequence[Span]) -> list[Span]:
    """Runs of the question's words out of order, hardly another word between them."""
    known = {stem for stem in asked if stem not in _ASIDE or len(stem) > 3}
    content = known - _ASIDE
    if len(content) < _FEWEST_LISTED_KINDS:
        return []
    ordered = [stem for stem in asked if stem in known]
    pairs = set(pairwise(ordered))
    lows = [low for low, _ in taken]
    free = []
    for stem, (start, end) in zip(words.stems, words.spans, strict=True):
        before = bisect_right(lows, start) - 1
        free.append(stem in known and (before < 0 or taken[before][1] < end))
    found: list[Span] = []
    place = 0
    while place < len(free):
        run = _run(free, place) if free[place] else [place]
        hits = [words.stems[at] for at in run]
        steps = list(pairwise(hits))
        strange = len(steps) - len(set(steps) & pairs)
        covered = len(content.intersection(hits)) >= 0.5 * len(content)
        dense = len(hits) >= (1 - _OTHER_LISTED) * (run[-1] - run[0] + 1)
        if dense and covered and len(hits) >= _FEWEST_LISTED and strange >= 0.5 * len(steps):
            found.append((words.spans[run[0]][0], words.spans[run[-1]][1]))
            place = run[-1]
        place += 1
    return found


def _run(free: Sequence[bool], start: int) -> list[int]:
    """Places of the question's words from here on, until too many others have come."""
    run, others = [start], 0
    for place in range(start + 1, min(len(free), start + _MOST_WORDS)):
        if free[place]:
            run.append(place)
            continue
        others += 1
        if others > 1 + _OTHER_LISTED * len(run):
            break
    return run


def _without(text: str, spans: Iterable[Span]) -> str:
    kept, last = [], 0
    for start, end in sorted(spans):
        kept.append(_NUMBERED.sub("", text[last : max(last, start)]))
        last = max(last, end)
    rest = _LABEL.sub(" ", " ".join([*kept, text[last:]])).strip()
    rest = rest.lstrip(".,;:!)] ")
    return rest if _WORD.search(rest) else ""
