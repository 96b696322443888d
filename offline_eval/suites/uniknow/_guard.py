"""The guard as a method: measure its signals once, calibrate it, route each case by it.

It is calibrated on the suite's training questions; those of the evaluation take no part.

The guarantee: of the questions that neither the context nor the model's memory answers, few
are let through. Calibrators and the path of thresholds come from the learning part of the
questions (`calibration.risk.learned_path`). On the testing part, one case per question, the path
is tested point by point until the first that fails. Of the points that pass, the one is taken
that routes most training cases rightly: to the context if it holds the answer, to memory if that
is right, otherwise to abstaining. If no point passes, the policy always abstains.

Source: Angelopoulos et al. 2021, Learn then Test (fixed-sequence testing).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np

from ...._version import CREATED_BY
from ....calibration import CalibrationRecord
from ....calibration.calibrators import fit_platt
from ....calibration.monitoring import calibration_histograms
from ....calibration.risk import RiskTarget, fit_policy
from ....calibration.risk.certificate import Evidence
from ....calibration.risk.fit import PolicyBinding
from ....calibration.risk.learned_path import forecast_path
from ....guard.artefacts import Guarantee
from ....guard.contracts import Confidence, ConfidenceEstimator, RelevanceScorer
from ....guard.decision import Route
from ....guard.errors import KnowgateError, SignalValueError
from ....guard.fingerprint import default_aggregator
from ....guard.policy import Policy
from ....guard.routing import Calibrator, Signals, decide_route
from ...data.answers.matching import is_right
from ...run import RowError
from ...run.calls import each_or_error
from ...run.grouping import grouped
from ...run.measured_run import measuring_guard
from ._cases import TEXTS, Case, Method, QuestionKey, Reply, UniKnowSignal


class SignalMeter:
    """Measure signals, and keep what was measured.

    Args:
        scorer: measures relevance.
        estimator: measures confidence in the closed-book answer.
        naive: replies with the context; guards over it reuse its replies.

    Attributes:
        aggregator: how passage scores become one value; the scorer's usual one.
        found: what was measured, by case id.
    """

    def __init__(
        self, scorer: RelevanceScorer, estimator: ConfidenceEstimator, naive: Method
    ) -> None:
        self.scorer, self.estimator = scorer, estimator
        self.aggregator = default_aggregator(scorer.fingerprint.kind)
        self.found: dict[str, UniKnowSignal] = {}
        self._naive = naive
        self._guard = measuring_guard(scorer, self.aggregator, mode="shadow")

    def remember(self, signals: Iterable[UniKnowSignal]) -> None:
        """Add what was measured before, so that it is not measured again."""
        self.found |= {signal.case_id: signal for signal in signals}

    def signals(self, cases: Sequence[Case]) -> list[UniKnowSignal]:
        """Return the signals of some cases, in order; what failed before is measured again."""
        there = {name for name, signal in self.found.items() if signal.complete}
        self.measure([case for case in cases if case.case_id not in there])
        return [self.found[case.case_id] for case in cases]

    def measure(self, cases: Sequence[Case]) -> list[UniKnowSignal]:
        """Return the signals of some cases, in order; failures are noted, never raised."""
        decisions = self._guard.decide_batch(
            [case.question for case in cases],
            [case.passages for case in cases],
        )
        estimated, replies = self._estimated(cases), self._naive(cases)
        measured = []
        for case, decision, found, reply in zip(cases, decisions, estimated, replies, strict=True):
            known, errors = None, [reply.error]
            if isinstance(found, KnowgateError):
                errors.insert(0, str(RowError.of(found)))
            else:
                known = found
            if decision.raw_relevance is None:
                errors.insert(0, f"SignalError: relevance signal: {decision.reason}")
            signal = UniKnowSignal(
                case_id=case.case_id,
                **case.about,
                part=case.part,
                kind=case.context_kind,
                holds_answer=bool(case.context_answers),
                raw_relevance=decision.raw_relevance,
                raw_confidence=known and known.value,
                closed_book=known and known.answer,
                closed_book_right=known and is_right(known.answer, case.answers),
                context_right=None if reply.error else is_right(reply.text, case.expected),
                context_reply=None if reply.error else reply.text,
                scores=decision.scores,
                error=next(filter(None, errors), None),
            )
            measured.append(signal)
        self.remember(measured)
        return measured

    def _estimated(self, cases: Sequence[Case]) -> list[Confidence | KnowgateError]:
        """Return the confidence of each case; each question is asked once."""
        found: dict[QuestionKey, Confidence | KnowgateError] = {
            one.question_key: Confidence(one.raw_confidence, one.closed_book)
            for one in self.found.values()
            if one.raw_confidence is not None and one.closed_book is not None
        }
        new = {case.question_key: case.question for case in cases if case.question_key not in found}
        many: Any = getattr(self.estimator, "estimate_many", None)

        def call(questions: Sequence[str]) -> Sequence[Confidence | KnowgateError]:
            if many is None:
                return [self.estimator.estimate(question) for question in questions]
            return list(many(questions, on_error="return"))

        for key, one in zip(new, each_or_error(call, list(new.values())), strict=True):
            usable = isinstance(one, KnowgateError) or 0.0 <= one.value <= 1.0
            wrong = SignalValueError("confidence", "the value is not in [0, 1]")
            found[key] = one if usable else wrong
        return [found[case.question_key] for case in cases]


def guarded(base: Method, policy: Policy, meter: SignalMeter) -> Method:
    """Put a guard in front of another method.

    It decides by the signals that were measured, as a guard that serves does. Routed to the
    context, the other method answers. Routed to memory, the reply is the closed-book answer that
    the confidence belongs to. Otherwise it abstains. Replies have route, relevance and confidence.

    Args:
        base: answers from the context.
        policy: of the guard.
        meter: measured the signals.
    """

    def answer(cases: Sequence[Case]) -> list[Reply]:
        decided = [Signals.replay(policy, *calibrated(policy, one)) for one in meter.signals(cases)]
        routes = [decide_route(policy, measured).route for measured in decided]
        pairs = zip(cases, routes, strict=True)
        followed = [case for case, route in pairs if route is Route.FOLLOW_CONTEXT]
        replies = iter(base(followed) if followed else [])
        found = []
        for case, measured, route in zip(cases, decided, routes, strict=True):
            memory = meter.found[case.case_id].closed_book if route is Route.ANSWER else None
            chosen = Reply((memory or "").strip(), abstained=route is Route.ABSTAIN)
            if route is Route.FOLLOW_CONTEXT:
                chosen = next(replies)
            if measured.failed:
                # The guard abstains then, but nothing was measured: the reply does not count.
                names = ", ".join(sorted(measured.failed))
                chosen = replace(chosen, error=f"SignalError: {names} could not be measured")
            chosen = replace(chosen, relevance=measured.relevance, confidence=measured.confidence)
            found.append(replace(chosen, route=route))
        return found

    return answer


def calibrated(policy: Policy, signal: UniKnowSignal) -> tuple[float | None, float | None]:
    """Return relevance and confidence as the policy's guard sees them; None where one failed."""
    relevance, confidence = signal.raw_relevance, signal.raw_confidence
    return (
        None if relevance is None else policy.relevance_calibrator.apply(relevance),
        None if confidence is None else policy.confidence_calibrator.apply(confidence),
    )


# Of the training questions; the rest is worth more in the test.
_LEARNING_SHARE = 0.25


def calibrate_guard(
    signals: Sequence[UniKnowSignal],
    binding: PolicyBinding,
    *,
    risk: float = 0.1,
    delta: float = 0.1,
) -> Policy:
    """Fit a policy that lets through few of the questions that neither side answers.

    Args:
        signals: of training questions, in any order.
        binding: what measured them.
        risk: share of such questions that may be let through, in (0, 1).
        delta: probability in (0, 1) that the guarantee fails by chance.

    Raises:
        ValueError: `risk` or `delta` is out of its range.
    """
    # Sums of floats depend on their order.
    usable = sorted((one for one in signals if one.complete), key=lambda signal: signal.case_id)
    # Question by question, whatever their groups: the testing part must be a sample of all
    # questions that the guarantee is about.
    keys = sorted({signal.question_key for signal in usable})
    seed = CalibrationRecord.seed_of(map("/".join, keys))
    Random(f"uniknow/guard/{seed}").shuffle(keys)  # noqa: S311 - a draw, no secret
    first = set(keys[: round(_LEARNING_SHARE * len(keys))])
    learning = [signal for signal in usable if signal.question_key in first]
    relevance, confidence = _calibrators(learning)
    records = {one.case_id: _record(one, relevance, confidence) for one in usable}
    testing = [signal for signal in usable if signal.question_key not in first]
    tested = [records[name] for name in _one_per_question(testing)]
    forecasts = forecast_path(
        [records[one.case_id] for one in learning],
        RiskTarget("selective", risk),
        delta=delta,
        questions=len(tested),
    )
    binding = replace(
        binding,
        relevance_calibrator=relevance,
        confidence_calibrator=confidence,
        created_by=CREATED_BY,
    )
    # Letting one of them through costs 1 by either route: the mean cost is their share.
    targets = [RiskTarget("cost", risk)]
    fit = partial(fit_policy, tested, targets, delta=delta, binding=binding)
    path, everything = [point for point, _, _ in forecasts], list(records.values())
    policy = fit(path=path).policy
    promise = policy.guarantee
    if promise is not None and promise.chosen is not None:
        # All certified points keep the promise together. Ending at the one that routes most cases
        # rightly, of equals the strictest, the same test gives its figures.
        evidence = Evidence.of(everything)
        wanted = np.where(evidence.context_right, 1, np.where(evidence.closed_book_right, 2, 0))
        right = (evidence.route_codes(path[: promise.chosen + 1]) == wanted).sum(axis=1)
        policy = fit(path=path[: int(right.argmax()) + 1]).policy
    # Live questions are not only those that neither side answers.
    compared = CalibrationRecord.one_per_question(everything)
    return policy.model_copy(
        update={
            "guarantee": _in_words(policy.guarantee),
            "histograms": calibration_histograms(policy, compared),
            "calibration_set_sha256": _sha256(usable),
        }
    )


def _calibrators(learning: Sequence[UniKnowSignal]) -> tuple[Calibrator, Calibrator]:
    sides: dict[bool, list[float]] = {True: [], False: []}
    memory: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for signal in learning:
        sides[signal.holds_answer].append(signal.raw_relevance or 0.0)
        memory[bool(signal.closed_book_right)][signal.question_id] = signal.raw_confidence or 0.0
    right, wrong = (list(memory[side].values()) for side in (True, False))
    return fit_platt(sides[True], sides[False]), fit_platt(right, wrong)


def _record(
    signal: UniKnowSignal, relevance: Calibrator, confidence: Calibrator
) -> CalibrationRecord:
    """Return the calibrated signals of a case, and which side has the answer."""
    return replace(
        signal.record(),
        relevance=relevance.apply(signal.raw_relevance or 0.0),
        confidence=confidence.apply(signal.raw_confidence or 0.0),
        context_right=signal.holds_answer,
        closed_book_right=bool(signal.closed_book_right),
    )


def _one_per_question(signals: Sequence[UniKnowSignal]) -> list[str]:
    """One case of each question that neither side answers, picked by a hash of its id."""
    neither = (one for one in signals if not one.holds_answer and not one.closed_book_right)
    by_question = grouped(neither, lambda signal: signal.question_key)
    return [min((one.case_id for one in some), key=_hash) for some in by_question.values()]


def _in_words(found: Guarantee | None) -> Guarantee:
    """The guarantee, speaking of the questions that it is about."""
    assert found is not None
    names = ("statement", "loss", "population")
    words = {name: TEXTS.text(f"guarantee_{name}", found) for name in names}
    return found.model_copy(update=words)


def _sha256(signals: Sequence[UniKnowSignal]) -> str:
    names = ("case_id", "raw_relevance", "raw_confidence", "holds_answer", "closed_book_right")
    lines = [json.dumps([getattr(signal, name) for name in names]) for signal in signals]
    return _hash("\n".join(lines)).hex()


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
