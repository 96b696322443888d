"""The cases that the report of relevance signals shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...report import Case as ShownCase
from ...report import CaseLine, Cases, Passages, decimal, one_line
from ...run import Review
from ._signals_summary import Case

_SHOWN = 10
_QUESTION_LIMIT = 300
_PASSAGE_LIMIT = 180
_NONE = "No such case was measured."
_REVIEWED = {
    Review.Verdict.ANSWERED: "another passage answers it, so it is no leak",
    Review.Verdict.NOT_ANSWERED: "no other passage answers it",
    Review.Verdict.UNSURE: "unsure, so it counts as unanswered",
}


def most_relevant_missing(cases: Sequence[Case], texts: Mapping[str, str]) -> Cases:
    """Choose the cases without an answer that look best covered, the best first."""
    chosen = sorted(
        (case for case in cases if not case.in_kb),
        key=lambda case: (-case.score, case.row.case_id),
    )
    return Cases(tuple(_shown(case, texts) for case in chosen[:_SHOWN]), empty=_NONE)


def least_relevant_found(cases: Sequence[Case], texts: Mapping[str, str]) -> Cases:
    """Choose the in-KB cases with their own passage retrieved that look worst covered."""
    chosen = sorted(
        (case for case in cases if case.found), key=lambda case: (case.score, case.row.case_id)
    )
    return Cases(tuple(_shown(case, texts) for case in chosen[:_SHOWN]), empty=_NONE)


def _shown(case: Case, texts: Mapping[str, str]) -> ShownCase:
    row = case.row
    wrong = case.passes is not None and case.passes == case.missing and not case.elsewhere
    outcome = {None: "", True: "let through", False: "abstained"}[case.passes]
    notes = [row.case_id]
    if case.relevance is not None:
        notes.append(f"relevance {decimal(case.relevance)}")
    notes.append(f"raw score {decimal(row.raw_relevance if row.retrieved else None)}")
    if case.held_out:
        notes.append("held out")
    if case.review is not None:
        notes.append(f"reviewed: {_REVIEWED[case.review]}")
    parts: list[CaseLine | Passages] = []
    if not case.in_kb and case.question.passage:
        parts.append(CaseLine(one_line(case.question.passage, _PASSAGE_LIMIT), "Left out"))
    parts.append(_passages(case, texts) if row.retrieved else CaseLine("Nothing was retrieved."))
    return ShownCase(
        question=one_line(case.question.question, _QUESTION_LIMIT),
        note=" · ".join(notes),
        parts=tuple(parts),
        tag=f"{outcome} wrongly" if wrong else outcome,
        wrong=wrong,
    )


def _passages(case: Case, texts: Mapping[str, str]) -> Passages:
    return Passages(
        tuple(
            CaseLine(
                _text(passage_id, texts),
                label=decimal(score),
                right=_is_own(case, passage_id),
                note=passage_id,
            )
            for passage_id, score in zip(case.row.retrieved, case.row.scores, strict=True)
        )
    )


def _is_own(case: Case, passage_id: str) -> bool:
    # A chunk of a served chain is called after its source.
    own = case.question.own_passage
    return passage_id == own or passage_id.startswith(f"{own}#")


def _text(passage_id: str, texts: Mapping[str, str]) -> str:
    # A knowledge base may hold more than the run asked about.
    found = texts.get(passage_id)
    return "(text not stored in the run)" if found is None else one_line(found, _PASSAGE_LIMIT)
