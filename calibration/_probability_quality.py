"""How well a score tells two kinds of cases apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._arrays import Numbers, Outcomes, equal_mass_bins, stated_cases
from ._statistics import Interval

Scores = Sequence[float]


def auroc(positives: Scores, negatives: Scores) -> float | None:
    """Probability that a random positive scores above a random negative, ties half.

    Returns None where either kind is missing: no data is not 0.5.

    Raises:
        ValueError: a score is NaN, which is neither above nor below any other.

    Example:
        >>> auroc([0.9, 0.5], [0.5, 0.1])
        0.875
    """
    if not len(positives) or not len(negatives):
        return None
    weights = np.ones((1, len(positives)), dtype=np.float64), np.ones((1, len(negatives)))
    return float(_weighted_auroc(np.asarray(positives), np.asarray(negatives), *weights)[0])


def bootstrap_auroc(
    questions: Sequence[tuple[Scores, Scores]],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """AUROC with a percentile bootstrap interval over questions.

    Questions are resampled, not cases: the cases of one question share its
    wording, so they are no independent evidence.

    Where every resample gives the same value, as when the two kinds do not overlap at
    all, resampling says nothing about chance: a width of zero would claim certainty.
    The Wilson interval of n successes out of n questions (0 of n for an AUROC of 0)
    then stands in, as if each question were one trial: an honest order of magnitude,
    not an interval of the AUROC proper. A value in between, such as 0.5 where all
    scores tie, takes the ends of the two counts around value × n.

    Args:
        questions: per question its positive and its negative scores.
        confidence: coverage in (0, 1).
        resamples: bootstrap draws.
        seed: of the draws.

    Returns:
        The interval, never without width; `n` counts questions. Undefined where either
        kind is missing.

    Raises:
        ValueError: a score is NaN, or an argument is out of range.

    Example:
        >>> found = bootstrap_auroc([([0.9], [0.1])] * 10)
        >>> found.value, round(found.low, 3), found.high
        (1.0, 0.722, 1.0)
    """
    if not 0.0 < confidence < 1.0 or resamples < 1:
        raise ValueError("confidence must be in (0, 1), and there must be a resample")
    positives = np.asarray([s for p, _ in questions for s in p], dtype=np.float64)
    negatives = np.asarray([s for _, n in questions for s in n], dtype=np.float64)
    value = auroc(positives.tolist(), negatives.tolist())
    if value is None:
        return Interval()
    owner_p = np.repeat(np.arange(len(questions)), [len(p) for p, _ in questions])
    owner_n = np.repeat(np.arange(len(questions)), [len(n) for _, n in questions])
    rng = np.random.default_rng(seed)
    drawn: list[float] = []
    for start in range(0, resamples, 100):
        count = min(100, resamples - start)
        picks = rng.multinomial(len(questions), [1 / len(questions)] * len(questions), size=count)
        values = _weighted_auroc(positives, negatives, picks[:, owner_p], picks[:, owner_n])
        # A draw without any positive or negative has no AUROC and is left out.
        drawn.extend(values[np.isfinite(values)].tolist())
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]) if drawn else (value, value)
    if low == high:
        return _without_spread(value, len(questions), confidence)
    return Interval(value, float(low), float(high), len(questions))


def _without_spread(value: float, n: int, confidence: float) -> Interval:
    below, above = math.floor(value * n), math.ceil(value * n)
    low = Interval.wilson(below, n, confidence).low
    return Interval(value, low, Interval.wilson(above, n, confidence).high, n)


def _weighted_auroc(
    positives: NDArray[np.float64],
    negatives: NDArray[np.float64],
    positive_weights: NDArray[np.floating | np.integer],
    negative_weights: NDArray[np.floating | np.integer],
) -> NDArray[np.float64]:
    """AUROC per row of weights, shapes (draws, positives) and (draws, negatives)."""
    if np.isnan(positives).any() or np.isnan(negatives).any():
        raise ValueError("scores must not be NaN")
    order = np.argsort(negatives, kind="stable")
    ranked = negatives[order]
    below = np.searchsorted(ranked, positives, side="left")
    up_to = np.searchsorted(ranked, positives, side="right")
    cumulative = np.concatenate(
        [
            np.zeros((len(negative_weights), 1)),
            np.cumsum(negative_weights[:, order], axis=1, dtype=np.float64),
        ],
        axis=1,
    )
    beaten = (cumulative[:, below] + cumulative[:, up_to]) / 2
    total = positive_weights.sum(axis=1) * cumulative[:, -1]
    with np.errstate(invalid="ignore", divide="ignore"):
        result: NDArray[np.float64] = (beaten * positive_weights).sum(axis=1) / total
    return result


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
        cls, probabilities: Numbers, outcomes: Outcomes, *, bins: int = 10, level: float = 0.95
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

        Source: Wilson intervals as in `Interval.wilson`; bins as in Nguyen & O'Connor 2015,
        Posterior calibration.

        Example:
            >>> diagram = ReliabilityDiagram.of([0.25, 0.25, 0.75], [False, True, True], bins=2)
            >>> [(b.mean_probability, b.share.value, b.n) for b in diagram.bins]
            [(0.25, 0.5, 2), (0.75, 1.0, 1)]
        """
        stated, came_true = stated_cases(probabilities, outcomes)
        order = np.argsort(stated, kind="stable")
        stated, came_true = stated[order], came_true[order]
        found = []
        for part in equal_mass_bins(stated, bins):
            inside, size = stated[part], part.stop - part.start
            share = Interval.wilson(int(came_true[part].sum()), size, level)
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
        stated, came_true = stated_cases(probabilities, outcomes)
        order = np.argsort(stated, kind="stable")
        stated, came_true = stated[order], came_true[order]
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
