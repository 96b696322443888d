"""Questions with two conditions: "who translated A and is also the mother of B?"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .._premise_finding import Answerability, Premise, PremiseFault
from ._linking import LONGEST_LIST, find_answers, words_by_passage
from ._names import Likeness, nearest
from ._phrases import Phrase, read_phrase
from ._statements import Statement

_AND = re.compile(
    r",? (?:and|as well as|while|who|but)(?: (?:is|was|has|who|at the same time|simultaneously|"
    r"also|been))*(?= )|(?:的人)?[中里]?[,，] ?(?=有?[谁誰哪])|"
    r"的同时[,，] ?(?:该人)?也?|[,，]? ?(?:又|同时|同時|并且|而且|以及|也)",
    re.IGNORECASE,
)
_BOTH = re.compile(r"\bboth\b|既", re.IGNORECASE)
_EDGES = " ,，?？.。"
# Four translators of a book are all of them; five may be the best known.
_SELECTION = 5
# Places at which a question is taken apart.
_MOST = 12


def splits(question: str) -> Iterator[tuple[str, str]]:
    """The ways to take a folded question apart.

    Example:
        >>> list(splits("Who is the author of A and also the mother of B?"))
        [('Who is the author of A', 'the mother of B')]
    """
    text = _BOTH.sub(" ", question.strip(_EDGES), count=1)
    for number, match in enumerate(_AND.finditer(text)):
        if number >= _MOST:
            return
        first, second = text[: match.start()].strip(_EDGES), text[match.end() :].strip(_EDGES)
        if first and second:
            yield first, second


def check_halves(
    question: str, statements: Sequence[Statement], *, closed_world: bool
) -> Answerability | None:
    """Whether anything can meet both conditions; None where there are no two.

    Args:
        question: folded.
        statements: of all passages.
        closed_world: see `find_answers`.
    """
    found = Answerability(Premise.UNDECIDED)
    cut_at = LONGEST_LIST if closed_world else _SELECTION
    asked = False
    for parts in splits(question):
        asked = True
        halves = [read_phrase(part) for part in parts]
        both = [
            find_answers(read_phrase(part), statements, closed_world=closed_world, cut_at=cut_at)
            for part in parts
        ]
        first, second = both
        if first is None or second is None:
            continue
        passages = tuple(sorted({*first.passages, *second.passages}))
        one_source = first.one_source and second.one_source
        alike = max(
            (nearest(name, second.names, one_source=one_source) for name in first.names),
            default=Likeness.MAYBE,
        )
        if alike is Likeness.SAME:
            return Answerability(Premise.ANSWERABLE, passages=passages)
        complete = first.complete and second.complete and second.names
        if alike is Likeness.DIFFERENT and complete and not _met_at_once(halves, statements):
            found = Answerability(
                Premise.UNANSWERABLE, PremiseFault.EMPTY_INTERSECTION, passages=passages
            )
    return found if asked else None


def _met_at_once(halves: Sequence[Phrase], statements: Sequence[Statement]) -> bool:
    """Whether one passage speaks of both conditions, perhaps in words not understood."""
    return any(
        all(_speaks_of(half, words) for half in halves)
        for words in words_by_passage(statements).values()
    )


def _speaks_of(half: Phrase, words: frozenset[str]) -> bool:
    names = [word.text for word in half.words if word.named]
    if names:
        return all(name in words for name in names)
    return any(text in words for text in half.texts)
