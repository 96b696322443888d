"""Values into the bins of a policy's histograms, and a policy's histograms from its questions."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeGuard

from ...guard import Histogram, Policy, Route, SignalName, Signals, decide_route

_EDGES = tuple(i / 20 for i in range(21))


class MeasuredSignals(Protocol):
    """Calibrated signals of one question; a `CalibrationRecord` and a `Decision` have them."""

    @property
    def relevance(self) -> float | None:
        """In [0, 1], None where it was not measured."""

    @property
    def confidence(self) -> float | None:
        """In [0, 1], None likewise."""

    @property
    def conflict(self) -> bool | None:
        """Whether answers differ, None likewise."""


def is_measured(value: float | None) -> TypeGuard[float]:
    """Whether there is a value: NaN and infinity stand for a signal that failed."""
    return value is not None and math.isfinite(value)


def bin_of(edges: Sequence[float], value: float) -> int:
    """Index of the bin that holds `value`; what lies outside counts in the outermost bins.

    Example:
        >>> [bin_of((0.0, 0.5, 1.0), value) for value in (-1.0, 0.0, 0.5, 1.0)]
        [0, 0, 1, 1]
    """
    return min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)


def binned(edges: Sequence[float], values: Iterable[float]) -> tuple[int, ...]:
    """How many of `values` fall into each bin."""
    counts = [0] * (len(edges) - 1)
    for value in values:
        counts[bin_of(edges, value)] += 1
    return tuple(counts)


def calibration_histograms(
    policy: Policy, questions: Iterable[MeasuredSignals]
) -> dict[str, Histogram]:
    """What live traffic is compared with: the histograms to keep in `policy`.

    Args:
        policy: thresholds and allowed routes as they will serve.
        questions: the calibration questions, one entry each, as they would arrive live.

    Returns:
        `relevance` and `confidence` of all questions that have them; `confidence.asked` of
        those for which a guard under `policy` measures confidence at all, which is what
        it can be compared with later; `abstained`: two bins, questions that pass
        and questions that are abstained from.
    """
    measured = list(questions)
    relevance = [q.relevance for q in measured if is_measured(q.relevance)]
    confidence = [q.confidence for q in measured if is_measured(q.confidence)]
    asked: list[float] = []
    abstained: list[float] = []
    for question in measured:
        value, abstains = _replayed(policy, question)
        if value is not None:
            asked.append(value)
        abstained.append(float(abstains))
    named = {"relevance": relevance, "confidence": confidence, "confidence.asked": asked}
    found = {
        name: Histogram(edges=_EDGES, counts=binned(_EDGES, values))
        for name, values in named.items()
        if values
    }
    if abstained:
        found["abstained"] = Histogram(
            edges=(0.0, 0.5, 1.0), counts=binned((0.0, 0.5, 1.0), abstained)
        )
    return found


def _replayed(policy: Policy, question: MeasuredSignals) -> tuple[float | None, bool]:
    """The confidence that a guard would have asked for, if any, and whether it would abstain."""
    relevance, confidence = question.relevance, question.confidence
    if not policy.check_conflict:
        return _replayed_without_conflict(policy, _finite(relevance), _finite(confidence))
    signals = Signals.replay(policy, relevance, confidence, question.conflict)
    asked = None if SignalName.CONFIDENCE in signals.failed else signals.confidence
    return asked, decide_route(policy, signals).route is Route.ABSTAIN


def _replayed_without_conflict(
    policy: Policy, relevance: float | None, confidence: float | None
) -> tuple[float | None, bool]:
    """The common case, ten times as fast as a replay; a test holds it equal."""
    if policy.may_follow:
        if relevance is None:
            return None, True
        assert policy.relevance_threshold is not None
        if relevance >= policy.relevance_threshold:
            return None, False
    if not policy.may_answer or confidence is None:
        return None, True
    assert policy.confidence_threshold is not None
    return confidence, confidence < policy.confidence_threshold


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
