"""The cases worth reading: where relevance was most wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ookb import OokbQuestion
from ._cases import Case
from ._escaping import one_line, shortened
from ._numbers import decimal

SHOWN = 10
_QUESTION_LIMIT = 300
_PASSAGE_LIMIT = 180


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A retrieved passage; `own` marks the one that holds the answer."""

    id: str
    score: str
    text: str
    own: bool


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A case as it is shown.

    Attributes:
        case_id: as stored.
        question: shortened.
        taken_out: the passage that was left out, shortened; empty for in-KB cases.
        relevance: calibrated, in words; `–` without a policy.
        score: raw, in words.
        outcome: what the policy did; empty without one.
        wrong: whether that was a mistake.
        held_out: whether the policy had not seen the question.
        passages: best first.
    """

    case_id: str
    question: str
    taken_out: str
    relevance: str
    score: str
    outcome: str
    wrong: bool
    held_out: bool
    passages: tuple[ShownPassage, ...]


def most_relevant_left_out(
    cases: Sequence[Case], questions: Mapping[str, OokbQuestion]
) -> list[ShownCase]:
    """Left-out cases that look best covered, the best first."""
    chosen = sorted(
        (case for case in cases if case.left_out), key=lambda case: (-case.score, case.row.case_id)
    )
    return [_shown(case, questions) for case in chosen[:SHOWN]]


def least_relevant_found(
    cases: Sequence[Case], questions: Mapping[str, OokbQuestion]
) -> list[ShownCase]:
    """In-KB cases with their own passage retrieved that look worst covered, the worst first."""
    chosen = sorted(
        (case for case in cases if case.found), key=lambda case: (case.score, case.row.case_id)
    )
    return [_shown(case, questions) for case in chosen[:SHOWN]]


def _shown(case: Case, questions: Mapping[str, OokbQuestion]) -> ShownCase:
    row = case.row
    wrong = case.passes is not None and case.passes == case.left_out
    outcome = {None: "", True: "let through", False: "declined"}[case.passes]
    return ShownCase(
        case_id=one_line(row.case_id),
        question=shortened(case.question.question, _QUESTION_LIMIT),
        taken_out=shortened(case.question.passage, _PASSAGE_LIMIT) if case.left_out else "",
        relevance=decimal(case.relevance),
        score=decimal(row.raw_relevance if row.retrieved else None),
        outcome=f"{outcome} wrongly" if wrong else outcome,
        wrong=wrong,
        held_out=case.held_out,
        passages=tuple(
            ShownPassage(
                id=one_line(passage_id),
                score=decimal(score),
                text=_passage(passage_id, questions),
                own=passage_id == case.question.own_passage,
            )
            for passage_id, score in zip(row.retrieved, row.scores, strict=True)
        ),
    )


def _passage(passage_id: str, questions: Mapping[str, OokbQuestion]) -> str:
    # A shared passage goes by the id of the first question that it answers. A knowledge
    # base may hold more than the run asked about.
    found = questions.get(passage_id)
    return (
        "(text not stored in the run)"
        if found is None
        else shortened(found.passage, _PASSAGE_LIMIT)
    )
