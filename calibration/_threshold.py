"""The smallest threshold that keeps a pass rate under a bound, with a guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ._binomial import binomial_p_value, errors_allowed


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """A threshold and the evidence for it.

    Attributes:
        threshold: pass from this score on (inclusive); None when nothing qualifies.
        errors: questions at or above it that should not pass.
        n: questions the certificate rests on.
        p_value: of "the true pass rate is above the bound"; 1.0 without evidence.
    """

    threshold: float | None
    errors: int
    n: int
    p_value: float


def choose_threshold(
    must_not_pass: Sequence[float],
    *,
    risk: float,
    delta: float,
    may_pass: Sequence[float] = (),
) -> ThresholdChoice:
    """The laxest threshold whose pass rate is at most `risk`, with confidence 1 - `delta`.

    With k the most errors that the exact binomial tail allows among n questions,
    the threshold lies above the (k+1)-th highest score. The pass rate falls as
    the threshold rises, so this equals fixed-sequence testing of every threshold
    from the strictest on, and choosing it from the data costs nothing: the true
    pass rate at an order statistic is Beta(k+1, n-k), whose tail above `risk` is
    that same binomial tail.

    Args:
        must_not_pass: one finite score per independent question that must not pass.
        risk: bound on the true pass rate, in (0, 1).
        delta: probability that the bound fails by bad luck in the draw, in (0, 1).
        may_pass: other scores, used only to place the threshold in the middle of
            the free gap, away from both neighbours.

    Source: Angelopoulos et al. 2021, Learn then Test; Wilks 1941 for tolerance limits.

    Example:
        >>> choose_threshold([0.1] * 21 + [0.5], risk=0.1, delta=0.1, may_pass=[0.9]).threshold
        0.7
        >>> choose_threshold([0.1] * 10, risk=0.1, delta=0.1).threshold is None
        True
    """
    if not all(map(math.isfinite, (*must_not_pass, *may_pass))):
        raise ValueError("scores must be finite")
    n = len(must_not_pass)
    allowed = errors_allowed(n, risk, delta)
    if allowed is None:
        return ThresholdChoice(None, 0, n, binomial_p_value(0, n, risk))
    ranked = sorted(must_not_pass, reverse=True)
    below = ranked[allowed]
    higher = [score for score in (*must_not_pass, *may_pass) if score > below]
    # The middle of the gap, so that the last bit of a score never decides; where there is
    # nothing above, the next number up.
    above = min(higher, default=math.nextafter(below, math.inf))
    # Halved first: the sum of two huge scores would be infinite.
    threshold = below / 2 + above / 2
    if not below < threshold <= above:
        threshold = above
    if math.isinf(threshold):
        # The (k+1)-th highest score is the largest float: nothing can lie above it.
        return ThresholdChoice(None, 0, n, 1.0)
    errors = sum(score >= threshold for score in must_not_pass)
    return ThresholdChoice(threshold, errors, n, binomial_p_value(errors, n, risk))
