"""Questions that offer two options: "which award did Ann receive, A or B?"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...contracts import Answerability, Premise, PremiseFault
from ._linking import Answers, find_answers, words_by_passage
from ._phrases import read_phrase, words_of
from ._questions import asks_for_a_thing, asks_for_what_nests, asks_how, asks_openly
from ._statements import Form, Likeness, Statement, is_proper, likeness, nearest

_OR = re.compile(r" or |还是|還是", re.IGNORECASE)
_COMMA = re.compile(r"[,，:：] ?")
_EDGES = " ,，?？.。:："
# A question with more of them offers no two options.
_MOST = 6
_LAST_IS = re.compile(r"是(?=[^是]*$)")


def splits(question: str) -> Iterator[tuple[str, str, str]]:
    """The ways to read a folded question as (what is asked, option, option).

    Example:
        >>> list(splits("Where is Rill, Arn or Bel?"))
        [('Where is Rill', 'Arn', 'Bel')]
    """
    text = question.strip(_EDGES)
    betweens = list(_OR.finditer(text))
    if not 0 < len(betweens) <= _MOST:
        return
    for between in betweens:
        left, second = text[: between.start()], text[between.end() :].strip(_EDGES)
        commas = list(_COMMA.finditer(left))
        starts = [(comma.start(), comma.end()) for comma in commas[-_MOST:]]
        if not commas and (copula := _LAST_IS.search(left)):
            starts = [(copula.start(), copula.end())]
        for end, start in starts:
            first = left[start:].strip(_EDGES)
            if first and second and left[:end].strip(_EDGES):
                yield left[:end].strip(_EDGES), first, second


def check_options(
    question: str, statements: Sequence[Statement], *, closed_world: bool
) -> Answerability | None:
    """Whether one of the two options can be right; None where none are offered.

    Args:
        question: folded.
        statements: of all passages.
        closed_world: see `find_answers`.
    """
    seen: list[tuple[Answers, Likeness, Likeness]] = []
    offered = left_open = False
    for stem, first, second in splits(question):
        offered = True
        # "Is it open, mornings or evenings?" may be answered in any words.
        left_open = left_open or asks_how(stem) or not asks_openly(stem)
        left_open = left_open or not (closed_world or asks_for_a_thing(stem))
        answers = find_answers(read_phrase(stem), statements, closed_world=closed_world)
        if answers is None:
            continue
        options = (first, second)
        # A sentence that has one of them may say so in words not understood.
        left_open = left_open or (not answers.one_source and _spoken_of(options, statements))
        left_open = left_open or not (closed_world or _tells(question, options, answers))
        one_source = closed_world and answers.one_source
        is_first = _stands(first, answers, one_source=one_source)
        seen.append((answers, is_first, _stands(second, answers, one_source=one_source)))
    if not offered:
        return None
    if not seen:
        return Answerability(Premise.UNDECIDED)
    passages = tuple(sorted({index for answers, _, _ in seen for index in answers.passages}))
    unlike = all(first is second is Likeness.DIFFERENT for _, first, second in seen)
    if unlike and not left_open and all(answers.complete for answers, _, _ in seen):
        return Answerability(Premise.UNANSWERABLE, PremiseFault.FALSE_OPTIONS, passages=passages)
    if any({first, second} == {Likeness.SAME, Likeness.DIFFERENT} for _, first, second in seen):
        return Answerability(Premise.ANSWERABLE, passages=passages)
    return Answerability(Premise.UNDECIDED)


def _spoken_of(options: tuple[str, str], statements: Sequence[Statement]) -> bool:
    passages = words_by_passage(statements).values()
    return any(
        words_of(option) and words >= set(words_of(option))
        for option in options
        for words in passages
    )


def _tells(question: str, options: tuple[str, str], answers: Answers) -> bool:
    """Whether what is told in any words can rule two options out.

    Not a place, which may lie in another; not what goes by many words, as common things do
    ("petrol", "the buyer", 买家) and quantities; not what a sentence says by the way.
    """
    if Form.SENTENCE in answers.forms or asks_for_what_nests(question):
        return False
    return all(map(is_proper, (*options, *answers.names)))


def _stands(option: str, answers: Answers, *, one_source: bool) -> Likeness:
    """How like the option is to any of the answers, or to a run of words in them."""
    words = words_of(option)
    if not one_source and _has_digit(option) and not any(map(_has_digit, answers.whole)):
        # Asked was a number, and a name is told: where for when.
        return Likeness.MAYBE
    for whole in answers.whole:
        if likeness(option, whole) is Likeness.SAME or _contains(words_of(whole), words):
            return Likeness.SAME
    found = nearest(option, answers.names, one_source=one_source)
    if found is Likeness.SAME and any("," in whole for whole in answers.whole):
        return Likeness.SAME
    return found


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _contains(text: tuple[str, ...], words: tuple[str, ...]) -> bool:
    # As whole words only, and none that could be part of another name.
    if len(words) < 2 or len(text) > 400:
        return False
    joined, sought = f"\0{chr(0).join(text)}\0", f"\0{chr(0).join(words)}\0"
    return sought in joined
