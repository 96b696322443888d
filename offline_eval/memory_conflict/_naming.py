"""Which answers a text names, by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...guard import canonical_answer

_SENTENCE = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|\n+|(?<=[。！？])")
# Thai and its neighbours, Chinese, Japanese, and Korean, whose particles follow without a space.
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
)
_LETTERS = re.compile(r"\w+", re.UNICODE)
# An answer that is a whole sentence is rarely repeated word for word.
_LONG_ANSWER, _OVERLAP = 5, 0.7


def names_answer(text: str, names: Sequence[str]) -> bool:
    """Whether one of the names stands in the text as whole words.

    Example:
        >>> names_answer("There are 6,922 people.", ["6922"]), names_answer("In 18401", ["1840"])
        (True, False)
    """
    return bool(answers_named(text, [names]))


def answers_named(text: str, answers: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """The answers that a text names as whole words, in their order.

    Within the name of one answer no other one is named: who writes "New York City" has not
    said "New York". In scripts without spaces a name may stand anywhere.

    Args:
        text: that is read.
        answers: each with all its names.

    Example:
        >>> answers_named("It is New York City.", [["New York"], ["New York City"]])
        (1,)
    """
    canonical = canonical_answer(text)
    names = {
        (name, number)
        for number, some in enumerate(answers)
        for name in map(canonical_answer, some)
        if name
    }
    taken: list[tuple[int, int]] = []
    found = set()
    for name, number in sorted(names, key=lambda pair: (-len(pair[0]), pair)):
        for begin in _places(name, canonical):
            end = begin + len(name)
            # The very same name of two answers names both.
            within = any(a <= begin and end <= b and b - a > len(name) for a, b in taken)
            if not within:
                found.add(number)
                taken.append((begin, end))
    return tuple(sorted(found))


def _places(name: str, text: str) -> Iterator[int]:
    """Where a name stands in a text, as whole words."""
    begin = text.find(name)
    while begin >= 0:
        end = begin + len(name)
        opens = begin == 0 or text[begin - 1] == " " or _SPACELESS.match(name[0])
        closes = end == len(text) or text[end] == " " or _SPACELESS.match(name[-1])
        if opens and closes:
            yield begin
        begin = text.find(name, begin + 1)


def sentences_of(passage: str) -> tuple[str, ...]:
    """The sentences of a passage, in order, without the empty ones."""
    found = (sentence.strip() for sentence in _SENTENCE.split(passage))
    return tuple(sentence for sentence in found if sentence)


def answering_sentences(passage: str, names: Sequence[str]) -> tuple[str, ...]:
    """The sentences that give the answer; none where they cannot be told.

    They name it or, where it is itself a sentence of five words or more, the one that shares
    most words with it does, if these are seven in ten.

    Example:
        >>> answering_sentences("The town is old. Ann Li ran it.", ["Ann Li"])
        ('Ann Li ran it.',)
    """
    sentences = sentences_of(passage)
    named = tuple(sentence for sentence in sentences if names_answer(sentence, names))
    wanted = _words(names[0]) if names else frozenset()
    if named or len(wanted) < _LONG_ANSWER:
        return named
    shares = [len(wanted & _words(sentence)) / len(wanted) for sentence in sentences]
    best = max(shares, default=0.0)
    return (sentences[shares.index(best)],) if best >= _OVERLAP else ()


def _words(text: str) -> frozenset[str]:
    return frozenset(_LETTERS.findall(text.casefold()))
