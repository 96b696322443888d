"""Which answers a text names, by their words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...guard import canonical_answer

_SENTENCE = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|\n+|(?<=[。！？])")
_LETTERS = re.compile(r"\w+", re.UNICODE)
# An answer that is a whole sentence is rarely repeated word for word.
_LONG_ANSWER, _OVERLAP = 5, 0.7


def names_answer(text: str, names: Sequence[str]) -> bool:
    """Whether one of the names stands in the text as whole words.

    Example:
        >>> names_answer("There are 6,922 people.", ["6922"]), names_answer("In 18401", ["1840"])
        (True, False)
    """
    padded = f" {canonical_answer(text)} "
    return any(name and f" {name} " in padded for name in map(canonical_answer, names))


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
