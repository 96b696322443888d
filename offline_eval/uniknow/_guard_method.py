"""The guard as a method: it decides which of context and memory answers, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...guard import (
    ConfidenceEstimator,
    Decision,
    Guard,
    Policy,
    RelevanceScorer,
    Route,
)
from ._cases import Reply, ScenarioCase
from ._methods import Method


class GuardMethod:
    """A guard over another method.

    Routed to the context, the other method answers with the passages kept. Routed to
    memory, the closed-book answer stands that the confidence speaks of: the context is
    removed. Otherwise it abstains.

    Args:
        name: of the method.
        base: answers where the context is followed.
        policy: calibrated on questions that the evaluation does not ask.
        scorer: measures relevance.
        estimator: measures confidence.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
    """

    def __init__(
        self,
        name: str,
        base: Method,
        policy: Policy,
        *,
        scorer: RelevanceScorer,
        estimator: ConfidenceEstimator,
    ) -> None:
        self._name, self._base = name, base
        # No deadlines: how busy the machine is must not decide which cases count as failed.
        self.guard = Guard(
            policy,
            scorer=scorer,
            estimator=estimator,
            deadlines={"relevance": None, "confidence": None},
            metrics=False,
        )

    @property
    def name(self) -> str:
        """How rows and tables call it."""
        return self._name

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """One reply per case, in order; with route, relevance and confidence as measured."""
        decisions = self.guard.decide_batch(
            [case.question.question for case in cases], [case.context.passages for case in cases]
        )
        followed = [
            _kept(case, decision)
            for case, decision in zip(cases, decisions, strict=True)
            if decision.route is Route.FOLLOW_CONTEXT
        ]
        replies = iter(self._base.answer(followed) if followed else [])
        return [
            _reply(decision, next(replies) if decision.route is Route.FOLLOW_CONTEXT else None)
            for decision in decisions
        ]


def _kept(case: ScenarioCase, decision: Decision) -> ScenarioCase:
    """The case with the passages that belong into the prompt."""
    passages = tuple(case.context.passages[index] for index in decision.kept)
    if passages == case.context.passages:
        return case
    return replace(case, context=replace(case.context, passages=passages))


def _reply(decision: Decision, followed: Reply | None) -> Reply:
    text, abstained, error = "", decision.route is Route.ABSTAIN, None
    if followed is not None:
        text, abstained, error = followed.text, followed.abstained, followed.error
    elif decision.route is Route.ANSWER:
        text = (decision.closed_book_answer or "").strip()
    if decision.failed_signals:
        # The guard abstains then, but nothing was measured: it is no reply to count.
        error = f"SignalError: {', '.join(decision.failed_signals)} could not be measured"
    return Reply(
        text,
        abstained=abstained,
        route=decision.route.value,
        relevance=decision.relevance,
        confidence=decision.confidence,
        error=error,
    )
