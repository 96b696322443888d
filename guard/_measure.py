"""Fulfilling one need: call the signal, check what it returned, type the failure."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._contracts import Confidence, ConfidenceEstimator, ConflictDetector, RelevanceScorer
from ._deadline import AllWorkersBusyError, DeadlineExceededError, TaskBrokeOffError
from ._errors import (
    KnowgateError,
    LanguageModelTimeoutError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalValueError,
)
from ._flow import Failure, Need, Outcome
from ._passages import clean_text
from ._routes import SignalName

logger = logging.getLogger("knowgate.guard")


@dataclass(frozen=True, slots=True)
class Instruments:
    """The parts that measure; a part that is missing fails its signal."""

    scorer: RelevanceScorer | None
    estimator: ConfidenceEstimator | None
    conflict: ConflictDetector | None

    def task(self, need: Need) -> Callable[[], Outcome]:
        """A blocking call that measures `need`."""
        if need.signal is SignalName.RELEVANCE and self.scorer is not None:
            scorer = self.scorer
            return lambda: checked_scores(
                scorer.score(need.question, need.passages), len(need.passages)
            )
        if need.signal is SignalName.CONFIDENCE and self.estimator is not None:
            estimator = self.estimator
            return lambda: checked_confidence(estimator.estimate(need.question))
        if need.signal is SignalName.CONFLICT and self.conflict is not None:
            detector = self.conflict
            return lambda: checked_conflict(
                detector.detect(need.question, need.closed_book_answer, need.passages)
            )
        raise SignalError(need.signal, "nothing was given to measure it with")

    def native(self, need: Need) -> Awaitable[Outcome] | None:
        """A coroutine that measures `need`, or None where only a blocking call can."""
        if need.signal is SignalName.CONFIDENCE and self.estimator is not None:
            return self._confidence(self.estimator, need)
        if need.signal is SignalName.CONFLICT and self.conflict is not None:
            return self._conflict(self.conflict, need)
        return None

    @staticmethod
    async def _confidence(estimator: ConfidenceEstimator, need: Need) -> Outcome:
        return checked_confidence(await estimator.aestimate(need.question))

    @staticmethod
    async def _conflict(detector: ConflictDetector, need: Need) -> Outcome:
        return checked_conflict(
            await detector.adetect(need.question, need.closed_book_answer, need.passages)
        )


def checked_scores(scores: Any, count: int) -> list[float]:
    """The scores as finite floats.

    Raises:
        SignalValueError: wrong number of scores, not numbers, NaN or infinite.
    """
    try:
        values = [_number(score) for score in scores]
    except (TypeError, ValueError, OverflowError):
        raise SignalValueError("relevance", "the scorer did not return numbers") from None
    if len(values) != count:
        raise SignalValueError("relevance", f"{len(values)} scores for {count} passages")
    if not all(math.isfinite(value) for value in values):
        raise SignalValueError("relevance", "the scorer returned NaN or infinity")
    return values


def _number(score: Any) -> float:
    # float() would read the text "0.5", take True for 1, and flatten a column of one.
    if isinstance(score, str | bytes | bool) or getattr(score, "ndim", 0) != 0:
        raise TypeError
    return float(score)


def checked_confidence(confidence: Any) -> Confidence:
    """The confidence, its value a float within [0, 1], its answer clean text.

    Raises:
        SignalValueError: another type, NaN, or off the scale.
    """
    if not isinstance(confidence, Confidence):
        raise SignalValueError("confidence", f"the estimator returned {type(confidence).__name__}")
    value: Any = _plain(confidence.value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise SignalValueError("confidence", "the value is not within [0, 1]")
    answer: Any = confidence.answer
    if not isinstance(answer, str):
        raise SignalValueError("confidence", f"the answer is a {type(answer).__name__}, not text")
    return replace(confidence, value=float(value), answer=clean_text(answer))


def checked_conflict(conflict: Any) -> bool:
    """The conflict flag.

    Raises:
        SignalValueError: not a bool.
    """
    conflict = _plain(conflict)
    if not isinstance(conflict, bool):
        raise SignalValueError("conflict", f"the detector returned {type(conflict).__name__}")
    return conflict


def _plain(value: Any) -> Any:
    # Arithmetic on numpy and torch numbers gives scalars of their own kind, which are as good.
    return value.item() if getattr(value, "ndim", None) == 0 else value


def failure_of(signal: SignalName, error: BaseException) -> Failure:
    """The typed failure for whatever a signal raised; logged without its text."""
    typed: KnowgateError
    if isinstance(error, DeadlineExceededError):
        typed = SignalTimeoutError(signal, "not done by its deadline")
    elif isinstance(error, AllWorkersBusyError):
        typed = SignalOverloadError(signal, "too many earlier calls are still under way")
    elif isinstance(error, KnowgateError):
        typed = error
    elif isinstance(error, TaskBrokeOffError):
        typed = SignalError(signal, f"ended with {type(error.__cause__).__name__}")
        typed.__cause__ = error.__cause__
    else:
        # The message of a foreign error may quote the question: only its type is kept.
        typed = SignalError(signal, f"raised {type(error).__name__}")
        typed.__cause__ = error
    logger.warning("%s signal failed: %s", signal.value, type(typed.__cause__ or typed).__name__)
    return Failure(typed)


ERROR_KINDS = ("timeout", "overload", "value", "language_model", "missing", "other")


def error_kind(error: KnowgateError) -> str:
    """One of `ERROR_KINDS`: a metric label with few values."""
    from ._errors import LanguageModelError, MissingDependencyError

    if isinstance(error, SignalTimeoutError | LanguageModelTimeoutError):
        return "timeout"
    if isinstance(error, SignalOverloadError):
        return "overload"
    if isinstance(error, SignalValueError):
        return "value"
    if isinstance(error, LanguageModelError):
        return "language_model"
    if isinstance(error, MissingDependencyError):
        return "missing"
    return "other"


def group_pairs(needs: Sequence[Need]) -> list[tuple[str, str]]:
    """All (question, passage) pairs of several relevance needs, in order."""
    return [(need.question, passage) for need in needs for passage in need.passages]


def split_scores(scores: Sequence[float], needs: Sequence[Need]) -> list[Sequence[float]]:
    """The inverse of `group_pairs` for the scores of its pairs."""
    parts: list[Sequence[float]] = []
    start = 0
    for need in needs:
        parts.append(scores[start : start + len(need.passages)])
        start += len(need.passages)
    return parts
