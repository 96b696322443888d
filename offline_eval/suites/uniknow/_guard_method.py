"""The guard as a method: it decides which of context and memory answers, or neither."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....guard import Guard, GuardOptions
from ....guard.contracts import Confidence, ConfidenceEstimator, RelevanceScorer
from ....guard.decision import Decision, Route
from ....guard.errors import KnowgateError, SignalValueError
from ....guard.policy import Policy
from ...run import each_or_error, error_note
from ...systems import choose_reply
from ._cases import Reply, ScenarioCase
from ._knowledge import is_right
from ._methods import Method
from ._remembering import RememberingEstimator, RememberingScorer


@dataclass(frozen=True, slots=True)
class UniKnowSignal:
    """The signals of one question with one context, and what they are to foretell.

    Attributes:
        case_id: of the case.
        dataset: of the question.
        question_id: in its data set.
        group: questions of one group stay together.
        part: `training` or `evaluation`.
        kind: of the context.
        holds_answer: whether the context was made to hold an answer.
        raw_relevance: aggregated score before calibration, None where it failed.
        raw_confidence: confidence before calibration, None where it failed.
        context_right: whether the naive reply is the answer that is expected with this
            context; None where the model failed.
        closed_book_right: whether the closed-book reply is a gold answer; None likewise.
        closed_book: that reply.
        context_reply: the naive reply.
        scores: of each passage.
        error: what failed first, None where nothing did.
    """

    case_id: str
    dataset: str
    question_id: str
    group: str
    part: str
    kind: str
    holds_answer: bool
    raw_relevance: float | None
    raw_confidence: float | None
    context_right: bool | None
    closed_book_right: bool | None
    closed_book: str | None
    context_reply: str | None
    scores: tuple[float | None, ...] = ()
    error: str | None = None


class SignalMeter:
    """Measures signals, and remembers what it measured.

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
        # The guard that serves also measures. No deadline: how busy the machine is must not
        # decide which cases count as failed.
        policy = Policy(
            scorer=scorer.fingerprint,
            aggregator=aggregator,
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
        """Take over what was measured before, so that it is not measured again."""
        for signal, case in signals:
            question, passages = case.question.question, case.context.passages
            scores = [score for score in signal.scores if score is not None]
            if signal.raw_relevance is not None and len(scores) == len(passages):
                self.scorer.remember(question, passages, tuple(scores), signal.raw_relevance)
            if signal.raw_confidence is not None and signal.closed_book is not None:
                found = Confidence(signal.raw_confidence, signal.closed_book)
                self.estimator.remember(question, found)

    def measure(self, cases: Sequence[ScenarioCase], part: str) -> list[UniKnowSignal]:
        """The signals of some cases, in order; failures are noted, never raised."""
        asked = [case.question.question for case in cases]
        decisions = self._guard.decide_batch(asked, [case.context.passages for case in cases])
        confidences = self._confidences(asked)
        replies = self._naive.answer(cases)
        signals = []
        for case, decision, found, reply in zip(
            cases, decisions, confidences, replies, strict=True
        ):
            errors = []
            if decision.raw_relevance is None:
                errors.append(f"SignalError: relevance signal: {decision.reason}")
            failed = isinstance(found, KnowgateError)
            if isinstance(found, KnowgateError):
                errors.append(error_note(found))
            errors += [reply.error] if reply.error else []
            closed_book = None if isinstance(found, KnowgateError) else found.answer
            right = None if closed_book is None else is_right(closed_book, case.question.answers)
            signals.append(
                UniKnowSignal(
                    case_id=case.case_id,
                    dataset=case.question.dataset,
                    question_id=case.question.id,
                    group=case.question.group,
                    part=part,
                    kind=case.context.kind.value,
                    holds_answer=bool(case.context.answers),
                    raw_relevance=decision.raw_relevance,
                    raw_confidence=None if failed else found.value,  # type: ignore[union-attr]
                    context_right=None if reply.error else is_right(reply.text, case.expected),
                    closed_book_right=right,
                    closed_book=closed_book,
                    context_reply=None if reply.error else reply.text,
                    scores=decision.scores,
                    error=errors[0] if errors else None,
                )
            )
        return signals

    def _confidences(self, questions: Sequence[str]) -> list[Confidence | KnowgateError]:
        different = list(dict.fromkeys(questions))

        def call(some: Sequence[str]) -> Sequence[Confidence | KnowgateError]:
            return self.estimator.estimate_many(some, on_error="return")

        found = dict(zip(different, each_or_error(call, different), strict=True))
        return [_checked(found[question]) for question in questions]


def _checked(found: Confidence | KnowgateError) -> Confidence | KnowgateError:
    if isinstance(found, KnowgateError) or 0.0 <= found.value <= 1.0:
        return found
    return SignalValueError("confidence", "the value is not in [0, 1]")


def signal_row(signal: UniKnowSignal) -> dict[str, Any]:
    """A signal as `signals.jsonl` keeps it."""
    row = {name: getattr(signal, name) for name in UniKnowSignal.__slots__}
    return {**row, "scores": list(signal.scores)}


def signal_from(row: Mapping[str, Any]) -> UniKnowSignal:
    """The signal that `signal_row` stored; the row was checked before."""
    known = {name: row[name] for name in UniKnowSignal.__slots__}
    return UniKnowSignal(**{**known, "scores": tuple(row["scores"])})


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
            options=GuardOptions(deadlines={"relevance": None, "confidence": None}),
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
    chosen = choose_reply(
        decision,
        with_context=followed,
        closed_book=Reply((decision.closed_book_answer or "").strip(), abstained=False),
        abstention=Reply("", abstained=True),
    )
    assert chosen is not None
    error = chosen.error
    if decision.failed_signals:
        # The guard abstains then, but nothing was measured: it is no reply to count.
        error = f"SignalError: {', '.join(decision.failed_signals)} could not be measured"
    return Reply(
        chosen.text,
        abstained=chosen.abstained,
        route=decision.route.value,
        relevance=decision.relevance,
        confidence=decision.confidence,
        error=error,
    )
