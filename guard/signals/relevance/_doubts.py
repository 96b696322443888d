"""Find what may only name the subject of a question, for a reading that counts no such text.

A scorer's strict reading takes more for mentions than `mentions` does: what is doubtful costs a
call of a judge there, and no answer. What passes with the one reading and not with the other is
what the judge should read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from ._mentions import (
    ASIDE,
    COVERED,
    COVERED_WELL,
    NAME,
    NUMBER,
    WORD,
    AskedWords,
    Segment,
    asked_words,
    mentions,
)

# Entries of a list on one line, and the number of a page behind one.
_ENTRY_END = re.compile(r";|\(\d+\)")
_QUOTE = re.compile(r"[\"“„«][^\"“”„«»]{3,300}[\"“”»]|(?<!\w)'[^']{3,300}'(?!\w)")
# Pieces of so many words or fewer, so many in a row, are keywords.
_KEYWORD, _KEYWORDS = 3, 3
# Share of other words in a statement up to which it may be the question in synonyms.
_OTHERS = 0.5
# Of one word there is no other for it to stand apart from.
_FEWEST_APART = 2
# Shorter words are one slip from too many others.
_SHORTEST_SPELLED = 5
# Of a question's words and of a passage; looking for slips takes the product of the two.
_MOST_SPELLED, _MOST_READ = 64, 30_000


def doubtful(
    question: str, text: str, segments: Iterable[Segment], strictness: float
) -> list[Segment]:
    """The segments that hold words of the question and may tell nothing about it.

    Beside mentions these are statements of which half or more of the words are most of the
    question's, and none a number that may be asked for; sentences that lack a name of the question,
    or any word of one that asks for yes or no, and have another name;
    keywords in a row; and sentences of which each has a word or two of the question, all together
    most of them. Entries of a list on one line, and quotes of the question, are read one by one.

    Args:
        question: its text, without accents and the like.
        text: the passage.
        segments: its segments.
        strictness: above 0; see `mentions`.

    Example:
        >>> from knowgate.guard.signals.relevance._mentions import segments_of
        >>> text = "Contents: Plan refunds are paid (4); Invoices (5)"
        >>> asked = "When are plan refunds paid?"
        >>> [one.words for one in doubtful(asked, text, segments_of(text), 5.0)]
        [('contents', 'plan', 'refunds', 'are', 'paid', '4')]
    """
    asked = asked_words(question)
    parts = [entry for one in segments for entry in _entries(asked, text, one)]
    found = mentions(question, parts, strictness)
    told = _without(parts, found)
    found += [one for one in told if _tells_nothing(asked, one) or _exchanged(asked, one, text)]
    found += _keywords(asked, _without(told, found))
    return found + _apart(asked, _without(told, found))


def respelled(question: str, text: str) -> str:
    """The text with words that are one slip from a word of the question spelled as there.

    Words of five letters and more are, which begin with the same letter; in a long passage those
    of its first 30,000 characters.

    Example:
        >>> respelled("When are plan refunds paid?", "Plan refnuds are paid in May.")
        'Plan refunds are paid in May.'
    """
    words = (word.lower() for word in WORD.findall(question))
    asked = dict.fromkeys(word for word in words if len(word) >= _SHORTEST_SPELLED)
    by_letter: dict[str, list[str]] = {}
    for word in list(asked)[:_MOST_SPELLED]:
        by_letter.setdefault(word[0], []).append(word)
    known: dict[str, str] = {}

    def spelled(match: re.Match[str]) -> str:
        word = match.group().lower()
        if word not in known:
            near = by_letter.get(word[0], ()) if word not in asked and word.isalpha() else ()
            known[word] = next((one for one in near if _one_slip(one, word)), "")
        return known[word] or match.group()

    return WORD.sub(spelled, text[:_MOST_READ]) + text[_MOST_READ:]


def _one_slip(first: str, second: str) -> bool:
    """Whether a letter more, less, other or swapped with the next is all that differs."""
    shorter, longer = sorted((first, second), key=len)
    if len(longer) - len(shorter) > 1:
        return False
    start = _same_letters(shorter, longer)
    shorter, longer = shorter[start:], longer[start:]
    end = _same_letters(shorter[::-1], longer[::-1])
    shorter, longer = shorter[: len(shorter) - end], longer[: len(longer) - end]
    return len(longer) <= 1 or (len(shorter) == 2 and shorter == longer[::-1])


def _same_letters(first: str, second: str) -> int:
    """How many letters from the beginning on are the same."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def _without(segments: Iterable[Segment], others: Iterable[Segment]) -> list[Segment]:
    spans = {one.span for one in others}
    return [one for one in segments if one.span not in spans]


def _entries(asked: AskedWords, text: str, segment: Segment) -> Sequence[Segment]:
    """The entries of a list, and a quote that is most of the question by itself."""
    start, end = segment.span
    cuts = {start, end, *(one.end() for one in _ENTRY_END.finditer(text, start, end))}
    for one in _QUOTE.finditer(text, start, end):
        kinds = Segment.of(one.group()).kinds
        if kinds <= asked.content | ASIDE and _is_most(asked, kinds):
            cuts |= {*one.span()}
    if len(cuts) == 2:
        return [segment]
    spans = pairwise(sorted(cuts))
    return [Segment.of(text[a:b], (a, b)) for a, b in spans if text[a:b].strip()]


def _is_most(asked: AskedWords, kinds: frozenset[str]) -> bool:
    return len(kinds & asked.content) >= max(2, COVERED_WELL * len(asked.content))


def _tells_nothing(asked: AskedWords, segment: Segment) -> bool:
    """Whether it has the question's words, and hardly another that may be the answer.

    Where more than yes is asked, a number may be; where it is not, the words of the question as a
    statement answer it by their form alone.
    """
    others = segment.kinds - asked.content - ASIDE
    shared = segment.kinds & asked.content
    if asked.asks_more and len(shared) > 1 and all(map(str.isdigit, others)):
        return True
    if not _is_most(asked, segment.kinds) or len(others) > _OTHERS * len(others | shared):
        return False
    words = zip(segment.words, segment.stems, strict=True)
    numbers = (stem in others and NUMBER.fullmatch(word) for word, stem in words)
    return not (asked.asks_more and any(numbers))


def _exchanged(asked: AskedWords, segment: Segment, text: str) -> bool:
    """Whether much of the question stands there, and another name in the place of a word of it.

    Where more than yes is asked: most of it, in the place of one of its names.
    """
    shared = len(asked.content & segment.kinds)
    much = _is_most(asked, segment.kinds) if asked.asks_more else 2 * shared >= len(asked.content)
    if (asked.names if asked.asks_more else asked.content) <= segment.kinds or not much:
        return False
    names = (one for one in NAME.findall(text[slice(*segment.span)]) if not one[0].isdigit())
    return any(not Segment.of(one).kinds <= asked.content | ASIDE for one in names)


def _keywords(asked: AskedWords, segments: Sequence[Segment]) -> list[Segment]:
    """Pieces of a few of the question's words each, several in a row."""
    runs = groupby(segments, lambda one: _is_keyword(asked, one))
    keywords = (list(run) for is_one, run in runs if is_one)
    return [one for run in keywords if len(run) >= _KEYWORDS for one in run]


def _is_keyword(asked: AskedWords, segment: Segment) -> bool:
    few = len(segment.words) <= _KEYWORD and segment.kinds <= asked.content | ASIDE
    return few and not segment.kinds.isdisjoint(asked.content)


def _apart(asked: AskedWords, segments: Sequence[Segment]) -> list[Segment]:
    """The segments with a word of the question, where most of them stand one by one."""
    count = len(asked.content)
    shared = [one.kinds & asked.content for one in segments]
    most = max(map(len, shared), default=0)
    together = len(frozenset[str]().union(*shared))
    if count < _FEWEST_APART or most >= max(2, COVERED * count) or together < COVERED_WELL * count:
        return []
    return [one for one, those in zip(segments, shared, strict=True) if those]
