"""Each case with what the policy makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from ...guard import Policy, Route, Signals, decide_route
from ..ookb import CaseKind, OokbQuestion, OokbRow, OokbRun


@dataclass(frozen=True, slots=True)
class Case:
    """A measured case, that is, one without an error.

    Attributes:
        row: as stored.
        question: what was asked.
        score: raw relevance; where nothing was retrieved, a value below all others, so
            that ranking needs no special case.
        relevance: calibrated, in [0, 1]; None without a policy.
        passes: whether the policy lets the context pass; None without a policy.
        held_out: whether the policy has not seen the question; False without a policy.
    """

    row: OokbRow
    question: OokbQuestion
    score: float
    relevance: float | None
    passes: bool | None
    held_out: bool

    @property
    def found(self) -> bool:
        """Whether this is an in-KB case whose own passage was retrieved."""
        return self.row.kind is CaseKind.IN_KB and not self.row.retrieval_miss

    @property
    def missed(self) -> bool:
        """Whether this is an in-KB case whose own passage was not retrieved."""
        return self.row.kind is CaseKind.IN_KB and self.row.retrieval_miss

    @property
    def left_out(self) -> bool:
        """Whether the own passage had been taken out."""
        return self.row.kind is CaseKind.LEFT_OUT


def measured_cases(run: OokbRun) -> tuple[Case, ...]:
    """The cases without an error, in the order of the run."""
    rows = [row for row in run.rows if row.error is None]
    scores = [row.raw_relevance for row in rows if row.raw_relevance is not None and row.retrieved]
    lowest = min(scores, default=0.0) - 1.0
    gate = None if run.calibration is None else relevance_gate(run.calibration.policy)
    held_out = frozenset() if run.calibration is None else run.calibration.test_questions
    return tuple(
        _case(row, run.questions[row.question_id], gate, lowest, row.question_id in held_out)
        for row in rows
    )


def relevance_gate(policy: Policy) -> Policy:
    """`policy` reduced to what this suite measures: whether the context passes.

    Confidence and conflict are not measured here; asked for them, the policy would
    abstain because of a missing signal, which says nothing about relevance.
    """
    return policy.model_copy(update={"check_conflict": False, "confidence_threshold": None})


def _case(
    row: OokbRow, question: OokbQuestion, gate: Policy | None, lowest: float, held_out: bool
) -> Case:
    raw = row.raw_relevance if row.retrieved else None
    score = lowest if raw is None else raw
    if gate is None:
        return Case(row, question, score, None, None, held_out)
    relevance = 0.0 if raw is None else gate.relevance_calibrator.apply(raw)
    signals = Signals.replay(gate, relevance, None, nothing_retrieved=raw is None)
    passes = decide_route(gate, signals).route is Route.FOLLOW_CONTEXT
    return Case(row, question, score, relevance, passes, held_out)
