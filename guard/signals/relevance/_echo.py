"""Find the text of a passage that asks instead of telling.

A passage that repeats the question matches every word of it and says nothing. Four kinds of
text ask: sentences that are questions; copies of the question, whole or with words changed;
lists of the question's words in another order; and sentences that only mention its subject.
The rest is what the passage tells.

What is promised: any text is accepted; the result depends on the question and the passage
alone; a passage without such text is returned as it is.

Source: Smith & Waterman 1981 (local alignment), here over words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from sys import getsizeof

import numpy as np
from numpy.typing import NDArray

from ..._byte_cache import ByteCache, content_key
from ...deadlines import check_deadline
from ...language import without_suffix
from ...text import clean_text
from ._doubts import doubtful, respelled
from ._mentions import (
    ASIDE,
    AUXILIARY,
    PRONOUNS,
    WH,
    WORD,
    Segment,
    mentions,
    repeats,
    segments_of,
    spans_of,
    without_camel_case,
)

# Ends of sentences and lines: "period.By" is one, "1.5" and "e.g. this" are none.
_SENTENCE_END = re.compile(
    r"[.!]+[\"')\]]*(?=\s+[^a-z\s]|\s*$)|(?<=[a-z0-9])\.(?=[A-Z])|[?؟]+[\"')\]]*|。+|\n+"
)
# "Q:", "2. Question -", "A." in front of what is left.
_LABEL = re.compile(r"(?:^|(?<=\s))(?:q|a|question|answer|faq)\s*\d*\s*[:.)-]+(?=\s|$)", re.I)
# The number in front of a listed question.
_NUMBERED = re.compile(r"(?:^|\n)[ \t]*\(?\d{1,3}[.)][ \t]*$")
_ASIDE_WEIGHT = 0.5
_GAP = 0.25
# Shares of the question's weight that a copy holds, and nearly all of it.
_COPIED, _COPIEDWHOLE = 0.5, 0.8
# What a copy word by word may lack: less than a statement with "can" after its subject.
_CHANGED = 0.3
_OTHER_WORDS, _OTHER_LISTED = 0.1, 0.2
# From this share of its text that asks on, a passage is read as a whole.
_MOSTLY = 0.5
_FEWEST_COPIED, _FEWEST_LISTED, _FEWEST_LISTED_KINDS = 3, 6, 2
# About what the encoder reads of a passage.
_MOST_CHARACTERS = 30_000
_MOST_WORDS, _MOST_SENTENCES, _MOST_COPIES = 64, 8, 8
_OPENING = 8

# Of the passages that are kept as they were read.
_CACHE_BYTES = 32 * 2**20
_BYTES_PER_WORD, _BYTES_PER_SPAN = 300, 150

# Of Cyrillic and Greek, as written; nothing else in a Latin text is likely to be meant by them.
_LOOK_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u0261\u03bf\u03bd\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a7",
    "aeopcyxijsdqgovABEKMHOPCTXABEZHIKMNOPTX",
)
# Counts up when the same texts are read in another way: part of the fingerprints of scorers.
ECHO_VERSION = 2
Span = tuple[int, int]
Places = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StatedText:
    """A passage without the text that asks.

    Attributes:
        kept: without lists of the question's words and mentions of its subject, which tell
            nothing.
        stated: without questions and copies of the question, too; empty where nothing is left, and
            None where the passage has no text that asks.
        replied: what is stated after the first copy of the question, where an answer stands; None
            where that is all that is stated.
    """

    kept: str
    stated: str | None
    replied: str | None = None

    @classmethod
    def of(cls, question: str, passage: str, strictness: float = 0.0) -> StatedText:
        """Part a passage into what it tells and text that asks.

        With strictness more sentences count as mentions of the subject, see `doubtful`, and a slip
        in a word of the question hides none.

        Example:
            >>> StatedText.of("When do you open?", "When do you open? At nine.").stated
            'At nine.'
            >>> StatedText.of("When do you open?", "We open at nine.").stated is None
            True
        """
        check_deadline()
        given = passage
        if strictness:
            passage = respelled(question, passage)
        found = _PASSAGES.made(content_key(passage), lambda: _Passage.read(passage))
        asked, parts = _question(question)
        copies = [span for part in parts for span in _copies(part, found)]
        lists = [*_lists(asked, found), *_mentioned(question, found, strictness)]
        if not (found.asking or copies or lists):
            return cls(given, None)
        kept = _without(found.text, lists) if lists else passage
        nothing = [*found.asking, *copies, *lists]
        stated = _without(found.text, nothing)
        # In a mail the answer may stand above the line that it quotes.
        lines = ((found.text[found.text.rfind("\n", 0, a) + 1 : a + 1], b) for a, b in copies)
        asked_at = [end for line, end in lines if not line.lstrip().startswith(">")]
        replied = _without(found.text, [(0, min(asked_at)), *nothing]) if asked_at else stated
        return cls(kept, stated, None if replied == stated else replied)

    @property
    def texts(self) -> tuple[str, ...]:
        """What is encoded: nothing where the passage tells nothing."""
        if self.stated is None:
            return (self.kept,)
        if not self.stated:
            return ()
        return (self.kept, self.stated, self.replied) if self.replied else (self.kept, self.stated)

    def read(self, share: float) -> str:
        """What is read where so much of the text that asks counts; empty where nothing is told."""
        if self.stated is None:
            return self.kept
        return self.kept if self.stated and share >= _MOSTLY else self.stated


# The stems of a sentence of the question, and whether it states the circumstances.
_Part = tuple[tuple[str, ...], bool]


@dataclass(frozen=True, slots=True, eq=False)
class _Passage:
    """What is read of a passage for any question.

    Attributes:
        text: without accents and the like.
        stems: of its words.
        spans: where these stand.
        kinds: the different stems.
        sentences: where each begins and ends.
        asking: the sentences that are questions.
        outside: the stems of words in no such sentence, each in its place; others are empty.
        segments: its sentences, lines and cells.
    """

    text: str
    stems: tuple[str, ...]
    spans: tuple[Span, ...]
    kinds: frozenset[str]
    sentences: tuple[Span, ...]
    asking: tuple[Span, ...]
    outside: tuple[str, ...]
    segments: tuple[Segment, ...]

    @classmethod
    def read(cls, passage: str) -> _Passage:
        """Read a passage."""
        text = _folded(passage)
        (stems, spans), sentences = _words(text), tuple(spans_of(_SENTENCE_END, text))
        asks = bytearray(len(text))
        asking: list[Span] = []
        for start, end in sentences:
            if text[start:end].rstrip("\"')] ").endswith(("?", "؟")):
                asking.append((start, end))
                asks[start:end] = b"?" * (end - start)
        outside = ("" if asks[at] else stem for stem, (at, _) in zip(stems, spans, strict=True))
        kinds, segments = frozenset(stems), segments_of(text)
        read = tuple(asking), tuple(outside)
        return cls(text, stems, spans, kinds, sentences, *read, segments)

    @property
    def bytes(self) -> int:
        """About what it takes in memory."""
        # Of the sentences and of the segments.
        words = 2 * len(self.stems)
        sentences = len(self.sentences) + len(self.asking) + len(self.segments)
        return getsizeof(self.text) + _BYTES_PER_WORD * words + _BYTES_PER_SPAN * sentences


# Retrieved passages repeat; reading one takes longer than looking for a question in it.
_PASSAGES: ByteCache[bytes, _Passage] = ByteCache(_CACHE_BYTES, lambda passage: passage.bytes)


def _folded(text: str) -> str:
    """The text without accents, invisible characters, compatibility forms and camel case.

    In a text that is mostly Latin, Cyrillic and Greek letters that look like Latin ones count as
    these.
    """
    text = clean_text(text)
    if len(text) > _MOST_CHARACTERS:
        text = " ".join(text.split())[:_MOST_CHARACTERS]
    text = without_camel_case(text)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Cf"))
    latin = sum(c.isascii() and c.isalpha() for c in text)
    return text.translate(_LOOK_ALIKE) if 2 * latin > sum(map(str.isalpha, text)) else text


@lru_cache(maxsize=1024)
def _question(question: str) -> tuple[tuple[str, ...], tuple[_Part, ...]]:
    text = _folded(question)
    sentences = [text[start:end] for start, end in spans_of(_SENTENCE_END, text)][:_MOST_SENTENCES]
    parts = tuple(
        (_words(one)[0][:_MOST_WORDS], len(sentences) > 1 and not one.rstrip().endswith("?"))
        for one in sentences
    )
    return _words(text)[0][:_MOST_WORDS], parts


def _words(text: str) -> tuple[tuple[str, ...], tuple[Span, ...]]:
    """The stems of a text's words, and where these stand."""
    found = list(WORD.finditer(text))
    return tuple(_stem(one.group()) for one in found), tuple(one.span() for one in found)


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    word = word.lower().replace("’", "'")
    if word in ASIDE:
        return PRONOUNS.get(word, word)
    return without_suffix(word.removesuffix("'s"), ("ing", "ies", "ed", "es", "s"), 3)


def _weight(stem: str) -> float:
    return _ASIDE_WEIGHT if stem in ASIDE else 1.0


def _copies(part: _Part, passage: _Passage) -> list[Span]:
    """Where the words of a sentence of the question stand in its order."""
    stems, states = part
    total = sum(map(_weight, stems))
    known = sum(_weight(stem) for stem in stems if stem in passage.kinds)
    if len(stems) < _FEWEST_COPIED or known < _COPIED * total:
        return []
    left = list(passage.stems)
    found: list[Span] = []
    for _ in range(_MOST_COPIES):
        aligned = _aligned(stems, left, _COPIED * total)
        if aligned is None:
            break
        score, first, last = aligned
        span = passage.spans[first][0], passage.spans[last][1]
        asks = (
            score >= _COPIEDWHOLE * total
            if states
            else score > total - _CHANGED or _opens(stems, left[first : last + 1])
        )
        if asks or _stands_alone(part, span, passage):
            found.append(span)
        left[first : last + 1] = [""] * (last + 1 - first)
    return found


def _opens(stems: Sequence[str], copied: Sequence[str]) -> bool:
    """Whether the copy opens as the question does: with its "how", or with "can you"."""
    stems = stems[:_OPENING]
    asking = [stem for stem in stems if stem in WH][:2]
    if asking:
        return any(stem in copied[:2] for stem in asking)
    place = next((place for place, stem in enumerate(stems) if stem in AUXILIARY), None)
    if place is None or copied[0] != stems[place]:
        return False
    # In a statement the subject stands before "can".
    following = stems[place + 1 : place + 2]
    return not following or following[0] in ("", *copied[1:3])


def _stands_alone(part: _Part, span: Span, passage: _Passage) -> bool:
    """Whether the sentences that the copy touches say nothing else.

    The words of a yes/no question in the order of a statement answer it.
    """
    low = min((start for start, end in passage.sentences if end > span[0]), default=span[0])
    high = max((end for start, end in passage.sentences if start < span[1]), default=span[1])
    inside = [
        stem
        for stem, (start, end) in zip(passage.stems, passage.spans, strict=True)
        if start >= low and end <= high
    ]
    content = [stem for stem in inside if stem not in ASIDE]
    stems, states = part
    if sum(stem not in stems for stem in content) > _OTHER_WORDS * len(content):
        return False
    yes_no = not any(stem in WH for stem in stems[:_OPENING])
    return states or not yes_no or len(content) >= 0.8 * len(inside)


def _aligned(
    asked: Sequence[str],
    told: Sequence[str],
    least: float,
) -> tuple[float, int, int] | None:
    """Score, first and last place of the best local alignment; None below the least score."""
    ends = _alignment_ends(asked, told)
    last = int(ends.argmax())
    if ends[last] < least:
        return None
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


def _mentioned(question: str, passage: _Passage, strictness: float) -> list[Span]:
    """Sentences and headings that only mention the subject.

    The question itself is not among them: a page may repeat it above its answer.
    """
    question = _folded(question)

    def asks(one: Segment) -> bool:
        return repeats(question, one) or any(
            start < one.span[1] and end > one.span[0] for start, end in passage.asking
        )

    found = (
        doubtful(question, passage.text, passage.segments, strictness)
        if strictness
        else mentions(question, passage.segments)
    )
    return [one.span for one in found if not asks(one)]


def _lists(asked: Sequence[str], passage: _Passage) -> list[Span]:
    """Runs of the question's words out of order, hardly another word between them."""
    known = {stem for stem in asked if stem not in ASIDE or len(stem) > 3}
    content = known - ASIDE
    if len(content) < _FEWEST_LISTED_KINDS or 2 * len(content & passage.kinds) < len(content):
        return []
    free = [stem in known for stem in passage.outside]
    if sum(free) < _FEWEST_LISTED:
        return []
    ordered = [stem for stem in asked if stem in known]
    pairs = set(pairwise(ordered))
    found: list[Span] = []
    place = 0
    while place < len(free):
        run = _run(free, place) if free[place] else []
        if len(run) >= _FEWEST_LISTED and _is_list(
            [passage.stems[at] for at in run],
            content,
            pairs,
        ):
            length = run[-1] - run[0] + 1
            if len(run) >= (1 - _OTHER_LISTED) * length:
                found.append((passage.spans[run[0]][0], passage.spans[run[-1]][1]))
                place = run[-1]
        place += 1
    return found


def _is_list(hits: Sequence[str], content: AbstractSet[str], pairs: set[tuple[str, str]]) -> bool:
    """Whether the words cover half of the question's, half of them in another order."""
    steps = list(pairwise(hits))
    strange = len(steps) - len(pairs.intersection(steps))
    return len(content & set(hits)) >= 0.5 * len(content) and strange >= 0.5 * len(steps)


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
    return rest if WORD.search(rest) else ""
