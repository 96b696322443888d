"""Several scorers on the same cases: how far is one better than another, and is it chance?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._arrays import Floats
from ._question_resamples import QuestionResamples
from ._selective_metrics import ROUNDING, OperatingPoint, SelectiveCurve, weighted_auroc
from ._statistics import Interval


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
        >>> found.auroc("a").value, found.auroc_difference("a", "b").value
        (1.0, 0.5)
    """

    positives: Mapping[str, Sequence[float]]
    negatives: Mapping[str, Sequence[float]]
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]]
    resamples: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.positives.keys() != self.negatives.keys():
            raise ValueError("positives and negatives are of different scorers")
        sides = zip((self.positives, self.negatives), self.clusters, strict=True)
        for name, values, owners in (
            (name, values, owners) for scores, owners in sides for name, values in scores.items()
        ):
            if len(values) != len(owners):
                raise ValueError(f"{name}: {len(values)} scores for {len(owners)} cases")
            if np.isnan(np.asarray(values, dtype=np.float64)).any():
                raise ValueError(f"{name}: scores must not be NaN")

    @property
    def count(self) -> int:
        """Number of clusters."""
        return self._draws.count

    def auroc(self, scorer: str) -> Interval:
        """Probability that a positive scores above a negative, with its 95 % interval."""
        value = SelectiveCurve.auroc(self.positives[scorer], self.negatives[scorer])
        if value is None:
            return Interval()
        return QuestionResamples.share_interval(value, self._aurocs[scorer], self.count)

    def auroc_difference(self, first: str, second: str, *, confidence: float = 0.95) -> Interval:
        """AUROC of the first scorer minus that of the second, paired.

        Args:
            first: a scorer.
            second: another.
            confidence: of the interval, in (0, 1). For intervals that hold together use
                1 − 0.05 / (number of pairs).
        """
        one, other = (
            SelectiveCurve.auroc(self.positives[name], self.negatives[name])
            for name in (first, second)
        )
        if one is None or other is None:
            return Interval()
        draws = self._aurocs[first] - self._aurocs[second]
        return QuestionResamples.difference_interval(
            one - other, draws, self.count, confidence=confidence
        )

    def false_abstention(self, scorer: str, leak: float) -> Interval:
        """Share of positives abstained from where at most `leak` of the negatives pass.

        The threshold is chosen anew in each draw, see `OperatingPoint.false_abstention`.
        """
        value = OperatingPoint.false_abstention(
            self.positives[scorer], self.negatives[scorer], leak
        )
        if value is None:
            return Interval()
        draws = self._false_abstentions(scorer, leak)
        return QuestionResamples.share_interval(value, draws, self.count)

    def false_abstention_difference(
        self, first: str, second: str, leak: float, *, confidence: float = 0.95
    ) -> Interval:
        """False abstention of the first scorer minus that of the second, paired."""
        one, other = (
            OperatingPoint.false_abstention(self.positives[name], self.negatives[name], leak)
            for name in (first, second)
        )
        if one is None or other is None:
            return Interval()
        draws = self._false_abstentions(first, leak) - self._false_abstentions(second, leak)
        return QuestionResamples.difference_interval(
            one - other, draws, self.count, confidence=confidence
        )

    @cached_property
    def _draws(self) -> QuestionResamples:
        keys = list(dict.fromkeys([*self.clusters[0], *self.clusters[1]]))
        return QuestionResamples(keys, resamples=self.resamples, seed=self.seed)

    @cached_property
    def _aurocs(self) -> dict[str, Floats]:
        """Per scorer the AUROC of each draw; NaN where a draw has no case of a kind."""
        found: dict[str, list[Floats]] = {name: [] for name in self.positives}
        for weights in self._weights():
            for name in self.positives:
                found[name].append(weighted_auroc(*self._scores(name), *weights))
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def _false_abstentions(self, scorer: str, leak: float) -> Floats:
        """The false abstention of each draw; NaN where a draw has no case of a kind."""
        if (scorer, leak) not in self._kept:
            parts = [
                _false_abstentions(*self._scores(scorer), *weights, leak)
                for weights in self._weights()
            ]
            self._kept[scorer, leak] = np.concatenate(parts)
        return self._kept[scorer, leak]

    @cached_property
    def _kept(self) -> dict[tuple[str, float], Floats]:
        return {}

    def _scores(self, scorer: str) -> tuple[Floats, Floats]:
        good, bad = self.positives[scorer], self.negatives[scorer]
        return np.asarray(good, dtype=np.float64), np.asarray(bad, dtype=np.float64)

    def _weights(self) -> Iterator[tuple[Floats, Floats]]:
        """How often each positive and each negative is drawn, some draws at a time."""
        columns = [
            np.asarray([self._draws.position(owner) for owner in owners], dtype=np.intp)
            for owners in self.clusters
        ]
        for part in self._draws.parts():
            yield part[:, columns[0]], part[:, columns[1]]


def _false_abstentions(
    good: Floats, bad: Floats, good_weights: Floats, bad_weights: Floats, leak: float
) -> Floats:
    """`OperatingPoint.false_abstention` of each draw; NaN where one has no case of a kind."""
    order = np.argsort(-bad, kind="stable")
    passing = np.cumsum(bad_weights[:, order], axis=1)
    allowed = np.floor(leak * passing[:, -1] + ROUNDING)
    # The best negative that must not pass; the threshold is the next score above it.
    first = np.sum(passing <= allowed[:, None], axis=1)
    bar = np.append(bad[order], -np.inf)[first]
    ranked = np.argsort(good, kind="stable")
    below = np.searchsorted(good[ranked], bar, side="right")
    summed = np.cumsum(good_weights[:, ranked], axis=1)
    padded = np.concatenate([np.zeros((len(summed), 1)), summed], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Floats = padded[np.arange(len(padded)), below] / summed[:, -1]
    return np.where(passing[:, -1] > 0, shares, np.nan)
