"""What answering only the surest cases costs: risk against coverage, and areas under it.

"Selective" is the usual word: cases of confidence at or above a threshold are accepted,
the others are not. The risk is the mean loss of the accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from .statistics import Floats, Interval, Numbers, equally_many, numbered, require_draws, resampled

# A product such as 0.29 · 100 falls short of the whole number that it means.
ROUNDING = 1e-9


# One loss per case, at least 0: whether it was wrong, or its cost.
Losses = Sequence[float] | Sequence[bool] | Floats


@dataclass(frozen=True, slots=True)
class SelectiveCurve:
    """Risk against coverage at every distinct confidence, the strictest first.

    Attributes:
        thresholds: accept from this confidence on (inclusive); strictly decreasing.
        coverages: share of all cases that is accepted; strictly increasing, up to 1.
        risks: mean loss of the accepted cases.
        n: cases.
    """

    thresholds: tuple[float, ...]
    coverages: tuple[float, ...]
    risks: tuple[float, ...]
    n: int

    @classmethod
    def of(cls, confidence: Numbers, losses: Losses) -> SelectiveCurve:
        """Coverage and selective risk at every threshold that tells cases apart.

        Cases of equal confidence are accepted together. Without cases the curve is empty.

        Raises:
            ValueError: lengths differ, a confidence is NaN, a loss is negative or not finite.

        Source: El-Yaniv & Wiener 2010, On the foundations of noise-free selective
        classification.

        Example:
            >>> curve = SelectiveCurve.of([0.9, 0.5, 0.5, 0.1], [0, 1, 0, 1])
            >>> curve.coverages, [round(risk, 3) for risk in curve.risks]
            ((0.25, 0.75, 1.0), [0.0, 0.333, 0.5])
        """
        ranked, summed = _ranked(confidence, losses)
        if not len(ranked):
            return cls((), (), (), 0)
        # The last case of every run of equal confidence.
        last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
        accepted = last + 1
        return cls(
            tuple(ranked[last].tolist()),
            tuple((accepted / len(ranked)).tolist()),
            tuple((summed[last] / accepted).tolist()),
            len(ranked),
        )

    @staticmethod
    def aurc(confidence: Numbers, losses: Losses) -> float | None:
        """Area under the risk-coverage curve: the mean risk over accepting 1, 2, … n cases.

        Cases of equal confidence are accepted in every order, and the mean over all orders is
        given: each counts with their mean loss. Lower is better; it depends on how often the
        cases are wrong at all, which `SelectiveCurve.excess_aurc` takes off.

        Returns:
            At least 0, at most the largest loss; None without cases.

        Raises:
            ValueError: lengths differ, a confidence is NaN, a loss is negative or not finite.

        Source: Geifman & El-Yaniv 2017, Selective classification for deep neural networks.

        Example:
            >>> SelectiveCurve.aurc([0.9, 0.8, 0.1], [False, False, True])
            0.1111111111111111
        """
        _, summed = _ranked(confidence, losses)
        return _mean_risk(summed) if len(summed) else None

    @staticmethod
    def excess_aurc(confidence: Numbers, losses: Losses) -> float | None:
        """AURC less that of a confidence that ranks every smaller loss before a larger one.

        0 when the ranking cannot be better: confidence then never puts a larger loss before or
        level with a smaller one. Costs that are fractions may leave a rounding error above it.

        Returns:
            At least 0; None without cases.

        Raises:
            ValueError: lengths differ, a confidence is NaN, a loss is negative or not finite.

        Source: Geifman, Uziel & El-Yaniv 2019, Bias-reduced uncertainty estimation for deep
        neural classifiers, with the empirical oracle in place of its approximation.

        Example:
            >>> SelectiveCurve.excess_aurc([0.9, 0.8, 0.1], [False, False, True])
            0.0
        """
        _, summed = _ranked(confidence, losses)
        if not len(summed):
            return None
        oracle = np.cumsum(np.sort(np.asarray(losses, dtype=np.float64)))
        # Rounding must not put anything below the best there is.
        return max(0.0, _mean_risk(summed) - _mean_risk(oracle))

    @staticmethod
    def augrc(confidence: Numbers, losses: Losses) -> float | None:
        """Area under the generalised risk-coverage curve, in [0, 1/2] for 0/1 losses.

        The generalised risk at a threshold is the mean over all cases of the loss where
        accepted: the joint probability of "wrong and accepted". Averaged over all coverages
        it is the risk of undetected failure. The area is taken by trapezoids from coverage 0,
        so that for 0/1 losses with error rate e it equals (1 - AUROC)·e·(1 - e) + e²/2, AUROC
        being that of confidence for right against wrong. Never above the AURC. Lower is better.

        Returns:
            At least 0, at most e - e²/2 for 0/1 losses; None without cases.

        Raises:
            ValueError: lengths differ, a confidence is NaN, a loss is negative or not finite.

        Source: Traub et al. 2024, Overcoming common flaws in the evaluation of selective
        classification systems.

        Example:
            >>> SelectiveCurve.augrc([0.9, 0.1], [False, True])
            0.125
        """
        _, summed = _ranked(confidence, losses)
        if not len(summed):
            return None
        return float((summed - np.diff(summed, prepend=0.0) / 2).mean() / len(summed))

    @classmethod
    def coverage_at_risk(cls, confidence: Numbers, losses: Losses, risk: float) -> float | None:
        """The largest share of cases that a threshold accepts at no more than this risk.

        What was seen in these cases, not a promise about others: the threshold is picked where
        the cases are good, so the risk of new cases is often higher. For an interval count
        "no threshold" as a coverage of 0, as bootstrap draws of None would be left out.

        Args:
            confidence: one per case.
            losses: one per case.
            risk: the largest mean loss of the accepted cases that will do.

        Returns:
            A share in (0, 1]; None where no threshold stays within the risk, and without cases.

        Raises:
            ValueError: lengths differ, a confidence is NaN, a loss is negative or not finite,
                or `risk` is negative or NaN.

        Example:
            >>> confidence, wrong = [0.9, 0.8, 0.7, 0.1], [False, False, True, True]
            >>> SelectiveCurve.coverage_at_risk(confidence, wrong, 0.4)
            0.75
        """
        if not risk >= 0.0:
            raise ValueError(f"risk must not be negative, nor {risk}")
        curve = SelectiveCurve.of(confidence, losses)
        within = [c for c, r in zip(curve.coverages, curve.risks, strict=True) if r <= risk]
        return max(within, default=None)

    @staticmethod
    def auroc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
        """Probability that a random positive scores above a random negative, ties half.

        Returns None where either kind is missing: no data is not 0.5.

        Raises:
            ValueError: a score is NaN, which is neither above nor below any other.

        Example:
            >>> SelectiveCurve.auroc([0.9, 0.5], [0.5, 0.1])
            0.875
        """
        return _of_all(_aurocs, positives, negatives)

    @staticmethod
    def false_abstention(
        positives: Sequence[float],
        negatives: Sequence[float],
        leak: float,
    ) -> float | None:
        """Share of positives abstained from where at most `leak` of the negatives pass.

        A case passes from the threshold on. The threshold is the most lenient one at which
        `leak · len(negatives)` negatives, rounded down, or fewer pass; a positive that ties with
        a negative passes only where that negative may pass too.

        Args:
            positives: scores of the cases that should pass.
            negatives: scores of the cases that should not.
            leak: share of negatives that may pass, in [0, 1].

        Returns:
            A share in [0, 1]; None where either kind is missing. Positives and negatives that
            cannot be told apart give about `1 - leak`.

        Raises:
            ValueError: a score is NaN, or `leak` is out of range.

        Example:
            >>> SelectiveCurve.false_abstention([0.9, 0.6, 0.4, 0.2], [0.5, 0.3, 0.1, 0.0], 0.25)
            0.25
        """
        return _of_all(_abstaining(leak), positives, negatives)

    @staticmethod
    def bootstrap_auroc(
        questions: Sequence[tuple[Sequence[float], Sequence[float]]],
        *,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Interval:
        """AUROC with a percentile bootstrap interval over questions.

        Questions are resampled, not cases, which share the wording of their question.

        Where every resample gives the same value, as when the two kinds do not overlap at
        all, resampling says nothing about chance: a width of zero would claim certainty.
        The Wilson interval of n successes out of n questions (0 of n for an AUROC of 0)
        then stands in, as if each question were one trial: an honest order of magnitude,
        not an interval of the AUROC proper. A value in between, such as 0.5 where all
        scores tie, takes the ends of the two counts around value × n.

        Args:
            questions: per question its positive and its negative scores.
            resamples: bootstrap draws.
            seed: of the draws.

        Returns:
            The interval, never without width; `n` counts questions. Undefined where either
            kind is missing.

        Raises:
            ValueError: a score is NaN, or an argument is out of range.

        Example:
            >>> found = SelectiveCurve.bootstrap_auroc([([0.9], [0.1])] * 10)
            >>> found.value, round(found.low, 3), found.high
            (1.0, 0.722, 1.0)
        """
        require_draws(resamples)
        positives = np.asarray([s for p, _ in questions for s in p], dtype=np.float64)
        negatives = np.asarray([s for _, n in questions for s in n], dtype=np.float64)
        value = SelectiveCurve.auroc(positives.tolist(), negatives.tolist())
        if value is None:
            return Interval()
        owner_p = np.repeat(np.arange(len(questions)), [len(p) for p, _ in questions])
        owner_n = np.repeat(np.arange(len(questions)), [len(n) for _, n in questions])
        rng = np.random.default_rng(seed)
        drawn: list[float] = []
        for start in range(0, resamples, 100):
            count = min(100, resamples - start)
            picks = rng.multinomial(
                len(questions), [1 / len(questions)] * len(questions), size=count
            )
            values = _aurocs(positives, negatives, picks[:, owner_p], picks[:, owner_n])
            drawn.extend(values.tolist())
        return Interval.of_draws(value, np.asarray(drawn), len(questions))


def _ranked(confidence: Numbers, losses: Losses) -> tuple[Floats, Floats]:
    """Confidences from high to low and the losses summed up in that order.

    Every case of a run of equal confidence counts with the run's mean loss, so that the
    order in which they come never matters.
    """
    sure, lost = equally_many(confidence, losses, "confidences", "losses")
    if np.isnan(sure).any():
        raise ValueError("confidence must not be NaN")
    if not (np.isfinite(lost) & (lost >= 0.0)).all():
        raise ValueError("losses must be finite and not negative")
    distinct, level, counts = np.unique(sure, return_inverse=True, return_counts=True)
    # Highest first. Sums at the ends of runs are those of the losses themselves: only within
    # a run is there anything to share out.
    sums = np.bincount(level, weights=lost)[::-1]
    counts = counts[::-1]
    before = np.repeat(np.cumsum(sums) - sums, counts)
    position = np.arange(1, len(sure) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
    summed = before + np.repeat(sums, counts) * position / np.repeat(counts, counts)
    return np.repeat(distinct[::-1], counts), summed


def _mean_risk(summed: Floats) -> float:
    return float((summed / np.arange(1, len(summed) + 1)).mean())


def _of_all(
    measure: Callable[..., Floats], positives: Sequence[float], negatives: Sequence[float]
) -> float | None:
    """A measure of draws, of all cases once; None where either kind is missing."""
    good, bad = (np.asarray(side, dtype=np.float64) for side in (positives, negatives))
    if np.isnan(good).any() or np.isnan(bad).any():
        raise ValueError("scores must not be NaN")
    if not len(good) or not len(bad):
        return None
    return float(measure(good, bad, np.ones((1, len(good))), np.ones((1, len(bad))))[0])


def _aurocs(
    positives: Floats,
    negatives: Floats,
    positive_weights: NDArray[np.floating | np.integer],
    negative_weights: NDArray[np.floating | np.integer],
) -> Floats:
    """AUROC per row of weights, shapes (draws, positives) and (draws, negatives)."""
    order = np.argsort(negatives, kind="stable")
    below, up_to = (
        np.searchsorted(negatives[order], positives, side=side) for side in ("left", "right")
    )
    cumulative = _cumulated(negative_weights[:, order])
    beaten = (cumulative[:, below] + cumulative[:, up_to]) / 2
    total = positive_weights.sum(axis=1) * cumulative[:, -1]
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = (beaten * positive_weights).sum(axis=1) / total
    return result


def _cumulated(weights: NDArray[np.floating | np.integer]) -> Floats:
    """Sums of the first 0, 1, … columns."""
    return np.pad(np.cumsum(weights, axis=1, dtype=np.float64), ((0, 0), (1, 0)))


@dataclass(frozen=True)
class PairedScores:
    """The scores of several scorers on the same cases, with a paired bootstrap over clusters.

    Every scorer is measured with the same draws, so that intervals of differences are paired.
    Cases of one cluster are drawn together: they are no independent evidence.

    Attributes:
        positives: per scorer a score for each case that should pass; -inf for one that the
            scorer failed on, which a guard abstains from.
        negatives: likewise for the cases that should not pass.
        clusters: of the positives and of the negatives, e.g. the source of each question.
        resamples: bootstrap draws.
        seed: of the draws.

    Example:
        >>> found = PairedScores(
        ...     {"a": [2.0, 3.0], "b": [0.0, 3.0]}, {"a": [1.0, 0.0], "b": [1.0, 2.0]},
        ...     ([0, 1], [0, 1]),
        ... )
        >>> found.auroc("a").value, found.difference("a", "b").value
        (1.0, 0.5)
    """

    positives: Mapping[str, Sequence[float]]
    negatives: Mapping[str, Sequence[float]]
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]]
    resamples: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        require_draws(self.resamples)
        if self.positives.keys() != self.negatives.keys():
            raise ValueError("positives and negatives are of different scorers")
        sides = (self.positives, self.negatives)
        for side, owners in zip(sides, self.clusters, strict=True):
            for name, values in side.items():
                if len(values) != len(owners):
                    told = f"{name}: {len(values)} scores for {len(owners)} cases"
                    raise ValueError(told)
                if np.isnan(np.asarray(values, np.float64)).any():
                    raise ValueError(f"{name}: scores must not be NaN")

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(self._owners.max(initial=-1)) + 1

    def auroc(self, scorer: str) -> Interval:
        """Probability that a positive scores above a negative, with its 95 % interval."""
        return Interval.of_draws(*self._measured(scorer), self.count)

    def false_abstention(self, scorer: str, leak: float) -> Interval:
        """Share of positives abstained from where at most `leak` of the negatives pass.

        The threshold is chosen anew in each draw, see `SelectiveCurve.false_abstention`.
        """
        return Interval.of_draws(*self._measured(scorer, leak), self.count)

    def difference(
        self, first: str, second: str, leak: float | None = None, *, confidence: float = 0.95
    ) -> Interval:
        """AUROC of the first scorer minus that of the second, paired; or their false abstention.

        Args:
            first: a scorer.
            second: another.
            leak: of the false abstentions to compare, in [0, 1]; None for AUROC.
            confidence: of the interval, in (0, 1). For intervals that hold together use
                1 − 0.05 / (number of pairs).
        """
        (one, draws), (other, less) = (self._measured(name, leak) for name in (first, second))
        return Interval.of_draws(
            one - other, draws - less, self.count, confidence=confidence, difference=True
        )

    def _measured(self, scorer: str, leak: float | None = None) -> tuple[float, Floats]:
        """AUROC or, at a leak, false abstention; and that of each draw.

        NaN where a case of a kind is missing.
        """
        if (scorer, leak) not in self._kept:
            sides = self.positives[scorer], self.negatives[scorer]
            measure = _aurocs if leak is None else _abstaining(leak)
            found = _of_all(measure, *sides)
            draws = [np.zeros(0)]
            if found is not None:
                good, bad = (np.asarray(side, dtype=np.float64) for side in sides)
                draws = [measure(good, bad, *both) for both in self._weights()]
            value = math.nan if found is None else found
            self._kept[scorer, leak] = value, np.concatenate(draws)
        return self._kept[scorer, leak]

    @cached_property
    def _kept(self) -> dict[tuple[str, float | None], tuple[float, Floats]]:
        return {}

    @cached_property
    def _owners(self) -> NDArray[np.intp]:
        return numbered([*self.clusters[0], *self.clusters[1]])

    def _weights(self) -> Iterator[tuple[Floats, Floats]]:
        """How often each positive and each negative is drawn, some draws at a time."""
        positives, negatives = np.split(self._owners, [len(self.clusters[0])])
        for part in resampled(self.count, self.resamples, self.seed):
            yield part[:, positives], part[:, negatives]


def _abstaining(leak: float) -> Callable[..., Floats]:
    """The measure `_false_abstentions` at this leak."""
    if not 0.0 <= leak <= 1.0:
        raise ValueError(f"leak must be between 0 and 1, not {leak}")
    return partial(_false_abstentions, leak)


def _false_abstentions(
    leak: float, good: Floats, bad: Floats, good_weights: Floats, bad_weights: Floats
) -> Floats:
    """`SelectiveCurve.false_abstention` of each draw; NaN where one has no case of a kind."""
    order = np.argsort(-bad, kind="stable")
    passing = np.cumsum(bad_weights[:, order], axis=1)
    allowed = np.floor(leak * passing[:, -1] + ROUNDING)
    # The best negative that must not pass; the threshold is the next score above it.
    first = np.sum(passing <= allowed[:, None], axis=1)
    bar = np.append(bad[order], -np.inf)[first]
    ranked = np.argsort(good, kind="stable")
    below = np.searchsorted(good[ranked], bar, side="right")
    summed = _cumulated(good_weights[:, ranked])
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Floats = summed[np.arange(len(summed)), below] / summed[:, -1]
    return np.where(passing[:, -1] > 0, shares, np.nan)
