"""The signals that decide the route beside relevance: confidence and conflict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ._measuring import RelevanceSignal, checks_its_deadline, has_methods
from ._signal import Signal
from .contracts import (
    Confidence,
    ConfidenceEstimator,
    ConflictDetector,
    ConflictExaminer,
    ConflictFinding,
    RelevanceScorer,
    View,
    plain,
)
from .decision import SignalName
from .errors import PolicyError, SignalValueError
from .routing import IdentityCalibrator, PolicyFields
from .text import Request, clean_text


def routing_signals(
    policy: PolicyFields,
    scorer: RelevanceScorer | None,
    estimator: ConfidenceEstimator | None,
    detector: ConflictDetector | None,
) -> dict[SignalName, Signal[Any]]:
    """The signals that `policy` can ask for, by name.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
        PolicyError: the policy needs a part that was not given, or a part of another kind.
    """
    found: dict[SignalName, Signal[Any]] = {}
    if scorer is not None:
        found[SignalName.RELEVANCE] = RelevanceSignal(policy, scorer)
    elif policy.may_follow:
        raise PolicyError("the policy needs a relevance scorer", hint="pass scorer=…")
    if estimator is not None:
        found[SignalName.CONFIDENCE] = ConfidenceSignal(policy, estimator)
    elif policy.needs_estimator:
        raise PolicyError("the policy needs a confidence estimator", hint="pass estimator=…")
    if detector is not None:
        found[SignalName.CONFLICT] = ConflictSignal(policy, detector)
    elif policy.check_conflict and policy.may_follow:
        raise PolicyError("the policy checks conflicts", hint="pass conflict_detector=…")
    return found


# -- confidence -----------------------------------------------------------------------


class ConfidenceSignal(Signal[Confidence]):
    """Whether the model itself would answer rightly, by a `ConfidenceEstimator`."""

    name = SignalName.CONFIDENCE.value
    deadline = 60.0

    def __init__(self, policy: PolicyFields, estimator: ConfidenceEstimator) -> None:
        policy.require_estimator(estimator.fingerprint)
        self._estimator: Any = estimator
        threshold = policy.confidence_threshold
        deciding_at = getattr(estimator, "deciding_at", None)
        raw = isinstance(policy.confidence_calibrator, IdentityCalibrator)
        # It stops sampling where this policy's decision is fixed: seven of the first seven samples
        # fix "at least 0.7", but not yet "at least 0.9". One that the policy was calibrated on, or
        # whose values are calibrated again, stays as it is: the threshold then refers to its own
        # values.
        if deciding_at is not None and threshold and policy.estimator is None and raw:
            self._estimator = deciding_at(threshold)
        self.checks_deadline = checks_its_deadline(self._estimator)
        self._calibrator = policy.confidence_calibrator

    def has(self, form: str) -> bool:
        """Whether the estimator takes several questions at once."""
        many = has_methods(self._estimator, "estimate_many", "aestimate_many")
        return form == "ameasure" or many

    def measure(self, request: Request) -> Any:
        """The estimator's confidence for one question."""
        return self._estimator.estimate(request.question)

    async def ameasure(self, request: Request) -> Any:
        """As `measure`, without blocking the event loop."""
        return await self._estimator.aestimate(request.question)

    def measure_many(self, requests: Sequence[Request]) -> Any:
        """The confidence for several questions; an error in place of one that failed."""
        asked = [request.question for request in requests]
        return self._estimator.estimate_many(asked, on_error="return")

    async def ameasure_many(self, requests: Sequence[Request]) -> Any:
        """As `measure_many`, without blocking the event loop."""
        asked = [request.question for request in requests]
        return await self._estimator.aestimate_many(asked, on_error="return")

    def check(self, value: Any, request: Request) -> Confidence:
        """The confidence, its value a float within [0, 1], its answer clean text."""
        if not isinstance(value, Confidence):
            raise SignalValueError(self.name, f"the estimator returned {type(value).__name__}")
        number: Any = plain(value.value)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
            raise SignalValueError(self.name, "the value is not within [0, 1]")
        answer: Any = value.answer
        if not isinstance(answer, str):
            raise SignalValueError(self.name, f"the answer is a {type(answer).__name__}, not text")
        return replace(value, value=float(number), answer=clean_text(answer))

    def level(self, value: Confidence) -> float:
        """The calibrated probability that the closed-book answer is right."""
        return self._calibrator.apply(value.value)

    def decision_fields(self, value: Confidence, request: Request) -> dict[str, Any]:
        """The closed-book answer."""
        return {"closed_book_answer": value.answer}


# -- conflict -------------------------------------------------------------------------


class ConflictSignal(Signal[ConflictFinding | bool]):
    """Whether context and model, or passages, contradict each other, by a `ConflictDetector`."""

    name = SignalName.CONFLICT.value

    def __init__(self, policy: PolicyFields, detector: ConflictDetector) -> None:
        self._examines = isinstance(detector, ConflictExaminer)
        self._detector: Any = detector
        self.checks_deadline = checks_its_deadline(detector)
        self._between = policy.conflict_between
        self._shows_views = policy.on_conflict == "show_both"
        if not (policy.check_conflict and policy.may_follow):
            return
        name, among_passages = type(detector).__name__, policy.conflict_between != "memory"
        if (among_passages or self._shows_views) and not self._examines:
            raise PolicyError(
                "the policy needs a conflict detector that tells which answers there are, "
                f"and a {name} has no examine and aexamine",
                hint="pass conflict_detector=PassageConflict(…), for instance",
            )
        if among_passages and not getattr(detector, "compares_passages", True):
            raise PolicyError(
                f"a {name} does not compare passages with each other, as the policy asks",
                hint="pass conflict_detector=PassageConflict(…)",
            )

    def measure(self, request: Request) -> Any:
        """What the detector finds about one question."""
        find = self._detector.examine if self._examines else self._detector.detect
        return find(request.question, request.closed_book_answer, request.passages)

    async def ameasure(self, request: Request) -> Any:
        """As `measure`, without blocking the event loop."""
        find = self._detector.aexamine if self._examines else self._detector.adetect
        return await find(request.question, request.closed_book_answer, request.passages)

    def check(self, value: Any, request: Request) -> ConflictFinding | bool:
        """The finding with its answers as clean text, or the flag."""
        if not self._examines:
            return self._flag(value)
        if not isinstance(value, ConflictFinding):
            raise SignalValueError(self.name, f"the detector returned {type(value).__name__}")
        views = []
        count = len(request.passages)
        for view in value.views:
            if not isinstance(view, View) or not isinstance(view.answer, str):
                raise SignalValueError(self.name, "the detector returned a view without an answer")
            if not all(isinstance(index, int) and 0 <= index < count for index in view.passages):
                raise SignalValueError(self.name, f"a view of a passage beyond the {count} given")
            views.append(replace(view, answer=clean_text(view.answer)))
        found = replace(value, conflict=self._flag(value.conflict), views=tuple(views))
        if self._shows_views and self.level(found) and not any(v.answer.strip() for v in views):
            raise SignalValueError(self.name, "a conflict without the answers that are to be shown")
        return found

    def level(self, value: ConflictFinding | bool) -> bool:
        """Whether there is a conflict of the kind that the policy looks for."""
        return value if isinstance(value, bool) else value.counts(self._between)

    def decision_fields(self, value: ConflictFinding | bool, request: Request) -> dict[str, Any]:
        """The views, with the positions of their passages among those given."""
        return {} if isinstance(value, bool) else {"views": value.at(request.positions).views}

    def _flag(self, value: Any) -> bool:
        flag = plain(value)
        if not isinstance(flag, bool):
            raise SignalValueError(self.name, f"the detector returned {type(flag).__name__}")
        return flag
