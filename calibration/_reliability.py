"""Stated probability against observed share, bin by bin: the data of a reliability diagram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._case_arrays import Numbers, Outcomes, equal_mass_bins, stated_cases
from ._intervals import Interval, wilson_interval


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Cases of similar stated probability.

    Attributes:
        low: smallest probability among them.
        high: largest probability among them.
        mean_probability: what was stated on average.
        share: the share that came true, with its Wilson interval.
        n: cases, at least 1.
    """

    low: float
    high: float
    mean_probability: float
    share: Interval
    n: int


@dataclass(frozen=True, slots=True)
class ReliabilityDiagram:
    """Bins in ascending order of probability; perfect probabilities lie on the diagonal.

    Attributes:
        bins: never empty ones; none at all without cases.
        n: cases.
    """

    bins: tuple[ReliabilityBin, ...]
    n: int


def reliability_diagram(
    probabilities: Numbers, outcomes: Outcomes, *, bins: int = 10, level: float = 0.95
) -> ReliabilityDiagram:
    """Stated probability and observed share over bins of equal mass.

    Bins hold (as nearly as possible) equally many cases; cases of equal probability stay
    in one bin, so there may be fewer bins than asked for. The intervals take each case as
    an independent trial: pass one case per question.

    Args:
        probabilities: in [0, 1].
        outcomes: whether each case came true, as many.
        bins: at least 1; never more than there are cases.
        level: coverage of the intervals, in (0, 1).

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
            neither true nor false, or an argument is out of range.

    Source: Wilson intervals as in `wilson_interval`; bins as in Nguyen & O'Connor 2015,
    Posterior calibration.

    Example:
        >>> diagram = reliability_diagram([0.25, 0.25, 0.75], [False, True, True], bins=2)
        >>> [(b.mean_probability, b.share.value, b.n) for b in diagram.bins]
        [(0.25, 0.5, 2), (0.75, 1.0, 1)]
    """
    stated, came_true = stated_cases(probabilities, outcomes)
    order = np.argsort(stated, kind="stable")
    stated, came_true = stated[order], came_true[order]
    found = []
    for part in equal_mass_bins(stated, bins):
        inside, size = stated[part], part.stop - part.start
        share = wilson_interval(int(came_true[part].sum()), size, level)
        low, high = float(inside[0]), float(inside[-1])
        # Rounding must not push a mean of equal numbers off them.
        mean = min(high, max(low, float(inside.mean())))
        found.append(ReliabilityBin(low, high, mean, share, size))
    return ReliabilityDiagram(tuple(found), len(stated))
