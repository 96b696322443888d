"""Bands of a cheap confidence value that settle a question by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ._statistics import binomial_p_value


@dataclass(frozen=True, slots=True)
class CascadeBands:
    """Bands of a `Cascade`, with the evidence for them.

    Attributes:
        accept: cheap value from which on a question is settled as known; None: no value
            is safe enough.
        reject: cheap value up to which it is settled as not known; None likewise.
        accepted: questions in the upper band.
        accepted_wrongly: those among them whose label is False.
        rejected: questions in the lower band.
        rejected_wrongly: those among them whose label is True.
        n: questions altogether.
    """

    accept: float | None
    reject: float | None
    accepted: int
    accepted_wrongly: int
    rejected: int
    rejected_wrongly: int
    n: int

    @property
    def between(self) -> float:
        """Share of questions that are left to the costly estimator."""
        return 1.0 - (self.accepted + self.rejected) / self.n


def fit_cascade_bands(
    cheap_scores: Sequence[float],
    labels: Sequence[bool],
    *,
    accept_risk: float = 0.05,
    reject_risk: float = 0.05,
    delta: float = 0.1,
    steps: int = 50,
) -> CascadeBands:
    """The widest bands of a cheap value whose error rates are certified.

    Each band is widened, from the outer end of the scale inwards along a grid that does
    not look at the labels, as long as the exact binomial test rejects "more than `risk`
    of the questions in this band are settled wrongly". Each end holds with probability
    1 − `delta` on questions like these; both do with 1 − 2 `delta`.

    Args:
        cheap_scores: the cheap estimator's values in [0, 1], one per question.
        labels: whether the costly estimator decides "known" on the question; or whether
            the answer is right, for bands that answer for themselves.
        accept_risk: share of wrongly accepted among accepted questions, in (0, 1).
        reject_risk: share of wrongly rejected among rejected questions, in (0, 1).
        delta: probability in (0, 1) that a band breaks its bound by bad luck.
        steps: points of the grid, at quantiles of the scores.

    Returns:
        The bands; they never overlap: where both could hold a value, they meet halfway.

    Raises:
        ValueError: lists of different length or empty, scores outside [0, 1] or NaN, or
            an argument out of range.

    Source: fixed-sequence testing, Angelopoulos et al. 2021 (Learn then Test).

    Example:
        >>> scores = [0.1] * 60 + [0.5] * 60 + [0.9] * 60
        >>> bands = fit_cascade_bands(scores, [False] * 90 + [True] * 90)
        >>> bands.accept, bands.reject, round(bands.between, 2)
        (0.9, 0.1, 0.33)
    """
    if len(cheap_scores) != len(labels) or not len(labels):
        raise ValueError("there must be one label per score, and at least one")
    if not all(0.0 <= score <= 1.0 for score in cheap_scores):
        raise ValueError("scores must be between 0 and 1")
    if steps < 1:
        raise ValueError("steps must be at least 1")
    scores, known = [float(score) for score in cheap_scores], [bool(label) for label in labels]
    # The scale turned over, the accepting band is a rejecting one.
    turned = _certified([-s for s in scores], [not k for k in known], accept_risk, delta, steps)
    # A band that holds everything ends at the lowest value that can be its end, above 0.
    lowest = min((score for score in scores if score > 0.0), default=None)
    accepting = [] if lowest is None else [max(-end, lowest) for end in turned]
    rejecting = [end for end in _certified(scores, known, reject_risk, delta, steps) if end < 1.0]
    accept, reject = _apart(accepting, rejecting)
    taken = [k for s, k in zip(scores, known, strict=True) if accept is not None and s >= accept]
    left = [k for s, k in zip(scores, known, strict=True) if reject is not None and s <= reject]
    return CascadeBands(
        accept, reject, len(taken), taken.count(False), len(left), left.count(True), len(known)
    )


def _apart(accepting: list[float], rejecting: list[float]) -> tuple[float | None, float | None]:
    """The widest certified ends; where the bands would overlap they meet halfway."""
    if not accepting or not rejecting:
        return min(accepting, default=None), max(rejecting, default=None)
    halfway = (min(accepting) + max(rejecting)) / 2
    if min(accepting) > max(rejecting):
        return min(accepting), max(rejecting)
    # The tighter ends were all certified on the way to the widest one.
    accept = min((end for end in accepting if end >= halfway), default=max(accepting))
    return accept, max((end for end in rejecting if end < accept), default=None)


def _certified(
    scores: list[float], wrong: list[bool], risk: float, delta: float, steps: int
) -> list[float]:
    """Ends of a band of low scores that pass, each with all lower ends that can be tested."""
    ranked = sorted(zip(scores, wrong, strict=True))
    found: list[float] = []
    places = sorted({math.ceil(len(ranked) * step / steps) - 1 for step in range(1, steps + 1)})
    for end in dict.fromkeys(ranked[place][0] for place in places):
        inside = [mistaken for score, mistaken in ranked if score <= end]
        if binomial_p_value(sum(inside), len(inside), risk) <= delta:
            found.append(end)
        elif found or binomial_p_value(0, len(inside), risk) <= delta:
            # Ends too narrow to pass even without an error are no tests, and skipped.
            break
    return found
