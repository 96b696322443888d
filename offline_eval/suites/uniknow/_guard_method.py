"""The guard as a method: it routes each case to the context, to memory or to abstaining."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....guard import Guard, GuardOptions
from ....guard.contracts import Confidence, ConfidenceEstimator, RelevanceScorer
from ....guard.decision import Decision, Route
from ....guard.errors import KnowgateError, SignalValueError
from ....guard.policy import PlattCalibrator, Policy, known_calibrator
from ...run import (
    RowError,
    each_or_error,
)
from ...systems import choose_reply
from ._cases import Reply, ScenarioCase
from ._matching import is_right
from ._methods import Method
from ._remembering import RememberingEstimator, RememberingScorer
from ._rows import Part, UniKnowSignal


class SignalMeter:
    """Measure signals, and keep what was measured.

    Args:
        scorer: measures relevance.
        estimator: measures confidence in the closed-book answer.
        aggregator: how passage scores become one value.
        naive: replies with the context; guards over it reuse its replies.
    """

    def __init__(
        self,
        scorer: RelevanceScorer,
        estimator: ConfidenceEstimator,
        aggregator: str,
        naive: Method,
    ) -> None:
        self.scorer = RememberingScorer.over(scorer)
        self.estimator = RememberingEstimator(estimator)
        self.aggregator = aggregator
        self._naive = naive
        # No deadline: how busy the machine is must not decide which cases count as failed.
        # Only raw values are kept; a scorer of one's own may give others than probabilities.
        policy = Policy(
            scorer=scorer.fingerprint,
            aggregator=aggregator,
            relevance_calibrator=known_calibrator(scorer.fingerprint)
            or PlattCalibrator(a=1.0, b=0.0),
            relevance_threshold=1.0,
            allowed_routes=(Route.FOLLOW_CONTEXT, Route.ABSTAIN),
        )
        self._guard = Guard(
            policy,
            scorer=self.scorer,
            options=GuardOptions(mode="shadow", deadlines={"relevance": None}),
            metrics=False,
        )

    def remember(self, signals: Iterable[tuple[UniKnowSignal, ScenarioCase]]) -> None:
        """Add what was measured before, so that it is not measured again."""
        for signal, case in signals:
            question, passages = case.question.question, case.context.passages
            scores = [score for score in signal.scores if score is not None]
            if signal.raw_relevance is not None and len(scores) == len(passages):
                self.scorer.remember(question, passages, tuple(scores), signal.raw_relevance)
            if signal.raw_confidence is not None and signal.closed_book is not None:
                found = Confidence(signal.raw_confidence, signal.closed_book)
                self.estimator.remember(question, found)

    def measure(self, cases: Sequence[ScenarioCase], part: Part) -> list[UniKnowSignal]:
        """Return the signals of some cases, in order; failures are noted, never raised."""
        asked = [case.question.question for case in cases]
        decisions = self._guard.decide_batch(asked, [case.context.passages for case in cases])
        confidences = self._confidences(asked)
        replies = self._naive.answer(cases)
        return [
            _signal(case, part, decision, found, reply)
            for case, decision, found, reply in zip(
                cases, decisions, confidences, replies, strict=True
            )
        ]

    def _confidences(self, questions: Sequence[str]) -> list[Confidence | KnowgateError]:
        different = list(dict.fromkeys(questions))

        def call(some: Sequence[str]) -> Sequence[Confidence | KnowgateError]:
            return self.estimator.estimate_many(some, on_error="return")

        found = dict(zip(different, each_or_error(call, different), strict=True))
        return [_checked(found[question]) for question in questions]


def _signal(
    case: ScenarioCase,
    part: Part,
    decision: Decision,
    found: Confidence | KnowgateError,
    reply: Reply,
) -> UniKnowSignal:
    errors = []
    if decision.raw_relevance is None:
        errors.append(f"SignalError: relevance signal: {decision.reason}")
    confidence = None if isinstance(found, KnowgateError) else found
    if isinstance(found, KnowgateError):
        errors.append(str(RowError.of(found)))
    if reply.error:
        errors.append(reply.error)
    known = None if confidence is None else is_right(confidence.answer, case.question.answers)
    return UniKnowSignal(
        case_id=case.case_id,
        dataset=case.question.dataset,
        question_id=case.question.id,
        group=case.question.group,
        part=part,
        kind=case.context.kind,
        holds_answer=bool(case.context.answers),
        raw_relevance=decision.raw_relevance,
        raw_confidence=None if confidence is None else confidence.value,
        context_right=None if reply.error else is_right(reply.text, case.expected),
        closed_book_right=known,
        closed_book=None if confidence is None else confidence.answer,
        context_reply=None if reply.error else reply.text,
        scores=decision.scores,
        error=errors[0] if errors else None,
    )


def _checked(found: Confidence | KnowgateError) -> Confidence | KnowgateError:
    if isinstance(found, KnowgateError) or 0.0 <= found.value <= 1.0:
        return found
    return SignalValueError("confidence", "the value is not in [0, 1]")


def policy_guard(policy: Policy, scorer: RelevanceScorer, estimator: ConfidenceEstimator) -> Guard:
    """Make the guard of a policy, without deadlines.

    How busy the machine is must not decide which cases count as failed.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
    """
    return Guard(
        policy,
        scorer=scorer,
        estimator=estimator,
        options=GuardOptions(deadlines={"relevance": None, "confidence": None}),
        metrics=False,
    )


class GuardMethod:
    """Put a guard in front of another method.

    Routed to the context, the other method answers from the passages kept. Routed to
    memory, the reply is the closed-book answer that the confidence belongs to. Otherwise
    it abstains.

    Args:
        name: of the method.
        base: answers from the context.
        guard: decides; `policy_guard` for a policy of the suite.
    """

    def __init__(self, name: str, base: Method, guard: Guard) -> None:
        self.name, self._base, self._guard = name, base, guard

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """Return one reply per case, in order, with route, relevance and confidence."""
        decisions = self._guard.decide_batch(
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
    """Return the case with the passages that the guard kept."""
    passages = tuple(case.context.passages[index] for index in decision.kept)
    if passages == case.context.passages:
        return case
    return replace(case, context=replace(case.context, passages=passages))


def _reply(decision: Decision, followed: Reply | None) -> Reply:
    chosen = choose_reply(
        decision,
        with_context=followed,
        closed_book=Reply((decision.closed_book_answer or "").strip(), abstained=False),
        abstention=Reply("", abstained=True),
    )
    assert chosen is not None
    error = chosen.error
    if decision.failed_signals:
        # The guard abstains then, but nothing was measured: the reply does not count.
        error = f"SignalError: {', '.join(decision.failed_signals)} could not be measured"
    return Reply(
        chosen.text,
        abstained=chosen.abstained,
        route=decision.route.value,
        relevance=decision.relevance,
        confidence=decision.confidence,
        error=error,
    )
