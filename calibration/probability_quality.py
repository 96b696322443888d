"""How far probabilities are what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .statistics import Floats, Interval, Numbers, Outcomes, equal_mass_bins, stated_cases


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

    @classmethod
    def of(
        cls, probabilities: Numbers, outcomes: Outcomes, *, bins: int = 10
    ) -> ReliabilityDiagram:
        """Stated probability and observed share over bins of equal mass.

        Bins hold (as nearly as possible) equally many cases; cases of equal probability stay
        in one bin, so there may be fewer bins than asked for. The intervals take each case as
        an independent trial: pass one case per question.

        Args:
            probabilities: in [0, 1].
            outcomes: whether each case came true, as many.
            bins: at least 1; never more than there are cases.

        Raises:
            ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
                neither true nor false, or an argument is out of range.

        Source: Wilson intervals as in `Interval.wilson`; bins as in Nguyen & O'Connor 2015,
        Posterior calibration.

        Example:
            >>> diagram = ReliabilityDiagram.of([0.25, 0.25, 0.75], [False, True, True], bins=2)
            >>> [(b.mean_probability, b.share.value, b.n) for b in diagram.bins]
            [(0.25, 0.5, 2), (0.75, 1.0, 1)]
        """
        stated, came_true = _rising(probabilities, outcomes)
        found = []
        for part in equal_mass_bins(stated, bins):
            inside, size = stated[part], part.stop - part.start
            share = Interval.wilson(int(came_true[part].sum()), size)
            low, high = float(inside[0]), float(inside[-1])
            # Rounding must not push a mean of equal numbers off them.
            mean = min(high, max(low, float(inside.mean())))
            found.append(ReliabilityBin(low, high, mean, share, size))
        return cls(tuple(found), len(stated))

    @staticmethod
    def expected_error(
        probabilities: Numbers, outcomes: Outcomes, *, bins: int = 10
    ) -> float | None:
        """Mean gap between stated probability and observed share, over bins of equal mass.

        Cases are sorted by probability and cut into bins of (as nearly as possible) equal size,
        each weighted by its size. Cases of equal probability share their mean outcome, so that
        the order in which they come never matters. With few cases per bin the gap is above zero
        even for perfect probabilities; `ReliabilityDiagram.debiased_error` is not so biased.

        Args:
            probabilities: in [0, 1].
            outcomes: whether each case came true, as many.
            bins: at least 1; never more than there are cases.

        Returns:
            A gap in [0, 1]; None without cases.

        Raises:
            ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
                neither true nor false, or `bins` is below 1.

        Source: Naeini et al. 2015, Obtaining well calibrated probabilities using Bayesian
        binning; equal mass as in Nguyen & O'Connor 2015, Posterior calibration.

        Example:
            >>> stated, right = [0.25, 0.25, 0.75, 0.75], [False, False, True, True]
            >>> ReliabilityDiagram.expected_error(stated, right, bins=2)
            0.25
        """
        if bins < 1:
            raise ValueError(f"there must be a bin, not {bins}")
        stated, came_true = stated_cases(probabilities, outcomes)
        if not len(stated):
            return None
        _, level, count = np.unique(stated, return_inverse=True, return_counts=True)
        shared = (np.bincount(level, weights=came_true) / count)[level]
        order = np.argsort(stated, kind="stable")
        gaps = [
            abs(float(stated[part].mean() - shared[part].mean())) * len(part)
            for part in np.array_split(order, min(bins, len(order)))
        ]
        return sum(gaps) / len(stated)

    @staticmethod
    def debiased_error(
        probabilities: Numbers, outcomes: Outcomes, *, bins: int = 10
    ) -> float | None:
        """Root of the mean squared gap, less what chance alone adds to it.

        In a bin of m cases with observed share s, chance adds about s(1 - s)/(m - 1) to the
        squared gap between stated probability and observed share; that much is taken off. A
        bin of a single case says nothing of its chance and adds nothing. A sum below zero is
        no calibration error that can be seen: 0.

        Bins hold (as nearly as possible) equally many cases; cases of equal probability stay
        in one bin, so there may be fewer bins.

        Args:
            probabilities: in [0, 1].
            outcomes: whether each case came true, as many.
            bins: at least 1; never more than there are cases.

        Returns:
            A gap in [0, 1]; None without cases, or where no bin has two.

        Raises:
            ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
                neither true nor false, or `bins` is below 1.

        Source: Kumar, Liang & Ma 2019, Verified uncertainty calibration.

        Example:
            >>> ReliabilityDiagram.debiased_error([0.5] * 4, [True, True, True, False])
            0.0
            >>> ReliabilityDiagram.debiased_error([0.5] * 4, [True] * 4)
            0.5
        """
        stated, came_true = _rising(probabilities, outcomes)
        cut = [part for part in equal_mass_bins(stated, bins) if part.stop - part.start > 1]
        if not cut:
            return None
        squared = 0.0
        for part in cut:
            size = part.stop - part.start
            share = float(came_true[part].mean())
            gap = float(stated[part].mean()) - share
            squared += size / len(stated) * (gap * gap - share * (1 - share) / (size - 1))
        return math.sqrt(max(0.0, squared))

    @staticmethod
    def brier_score(probabilities: Numbers, outcomes: Outcomes) -> float | None:
        """Mean of (probability - outcome)²: 0 at best; .25 for saying one half throughout.

        It rewards both calibration and telling cases apart.

        Returns:
            A number in [0, 1]; None without cases.

        Raises:
            ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
                neither true nor false.

        Source: Brier 1950, Verification of forecasts expressed in terms of probability.

        Example:
            >>> ReliabilityDiagram.brier_score([1.0, 0.5], [True, False])
            0.125
        """
        stated, came_true = stated_cases(probabilities, outcomes)
        return float(np.mean((stated - came_true) ** 2)) if len(stated) else None


def _rising(probabilities: Numbers, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Checked cases by rising probability."""
    stated, came_true = stated_cases(probabilities, outcomes)
    order = np.argsort(stated, kind="stable")
    return stated[order], came_true[order]
