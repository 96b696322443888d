"""Documents of about 100 words, composed of statements and filler sentences."""

from __future__ import annotations

import string
from collections.abc import Sequence
from random import Random

from ._phrasings import filler_sentences

DOCUMENT_WORDS = 100


def compose(statements: Sequence[str], rng: Random, *, words: int = DOCUMENT_WORDS) -> str:
    """Prose that holds the statements in their order among filler sentences.

    Args:
        statements: full sentences.
        rng: picks and places the fillers.
        words: fillers are added until this length is as close as it gets.

    Returns:
        One paragraph; longer than `words` only when the statements alone are.
    """
    fillers = list(filler_sentences())
    rng.shuffle(fillers)
    sentences: list[str | None] = [None] * len(statements)
    missing = words - sum(len(statement.split()) for statement in statements)
    chosen: list[str] = []
    while fillers and missing > 5:
        filler = fillers.pop()
        chosen.append(filler)
        missing -= len(filler.split())
    for filler in chosen:
        sentences.insert(rng.randint(0, len(sentences)), filler)
    rest = iter(statements)
    return " ".join(next(rest) if sentence is None else sentence for sentence in sentences)


def mentions(text: str, words: str) -> bool:
    """Whether `words` stand in `text`, whatever the case and with or without number commas.

    >>> mentions("The town of Balbel has 4,310 people.", "balbel")
    True
    >>> mentions("In 18401 sheep were counted.", "1840")
    False
    """

    def flat(part: str) -> str:
        kept = part.casefold().replace(",", "")
        kept = "".join(char if char.isalnum() else " " for char in kept)
        return f" {' '.join(kept.split())} "

    return flat(words) in flat(text)


def normalise_answer(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces.

    >>> normalise_answer("The Balbel Guild.")
    'balbel guild'
    """
    kept = "".join(char for char in text.casefold() if char not in string.punctuation)
    return " ".join(word for word in kept.split() if word not in {"a", "an", "the"})


def is_same_answer(answer: str, expected: str) -> bool:
    """Exact match after normalisation."""
    return normalise_answer(answer) == normalise_answer(expected)
