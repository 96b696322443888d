"""What each group of questions counts at one point of a path, and the test of their shares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...guard.policy import Guarantee
from .._statistics import errors_allowed, questions_needed
from ._tests import hoeffding_bentkus_p_values

Floats = NDArray[np.float64]
# A group's mean cost is told in so many parts, rounded up.
_COST_PARTS = 20


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Of one bound at one point: how the questions that count went, group by group.

    A group of which no question counts says nothing. Each other one counts once, by its share of
    questions that went wrong, whatever its size: shares of different groups are independent, those
    of its questions need not be. The chance of so small shares is that of `LeakTest`.

    Attributes:
        counts: `(questions that count, of those that went wrong, how many such groups)`; of a
            cost `(20, twentieths of the mean cost, how many)`.
        largest: most questions that a group has, counted or not.
    """

    counts: tuple[tuple[int, int, int], ...]
    largest: int

    @property
    def groups(self) -> int:
        """Groups with a question that counts."""
        return sum(count for _, _, count in self.counts)

    @property
    def total(self) -> float:
        """Sum of the groups' shares."""
        return math.fsum(count * wrong / size for size, wrong, count in self.counts)

    @classmethod
    def of(
        cls,
        groups: NDArray[np.intp],
        counted: NDArray[np.bool_],
        losses: Floats,
        *,
        cost: bool = False,
    ) -> list[GroupCounts]:
        """Count the questions of each group at each point.

        Args:
            groups: of each question, shape (n,).
            counted: which questions count, shape (points, n).
            losses: what went wrong among those, the same shape.
            cost: losses are shares of a question, and all questions count.

        Example:
            >>> which = np.ones((1, 3), dtype=bool)
            >>> GroupCounts.of(np.asarray([0, 0, 1]), which, np.asarray([[1.0, 0.0, 0.0]]))
            [GroupCounts(counts=((1, 0, 1), (2, 1, 1)), largest=2)]
        """
        number, largest = int(groups.max()) + 1, int(np.bincount(groups).max())
        found = []
        for which, loss in zip(counted, losses, strict=True):
            sizes = np.bincount(groups[which], minlength=number)
            wrong = np.bincount(groups, weights=loss * which, minlength=number).astype(np.float64)
            if cost:
                wrong = _COST_PARTS * wrong / np.maximum(sizes, 1)
                sizes = np.where(sizes > 0, _COST_PARTS, 0)
            parts = np.ceil(wrong - 1e-9).astype(np.int64)
            pairs = Counter(zip(sizes.tolist(), parts.tolist(), strict=True))
            counts = tuple(
                (size, part, count) for (size, part), count in sorted(pairs.items()) if size
            )
            found.append(cls(counts, max(largest, _COST_PARTS) if cost else largest))
        return found

    @staticmethod
    def p_values(points: Sequence[GroupCounts], bound: float, delta: float) -> Floats:
        """P-values of "the groups' mean share is above `bound`", along a path that is tested.

        The exact test up to the first point that fails at level `delta`, Hoeffding and Bentkus'
        bound, which is cheap, at those that come after it or have too few groups to pass.
        """
        found, failed = np.ones(len(points)), False
        for place, point in enumerate(points):
            if failed or point.groups < questions_needed(bound, delta):
                found[place] = point.bound_on_mean(bound)
            else:
                found[place] = point.p_value(bound, delta)
                failed = found[place] > delta
        return found

    def bound_on_mean(self, bound: float) -> float:
        """Hoeffding and Bentkus' p-value of "the mean share is above `bound`": falls with it."""
        total = np.asarray([self.total])
        return float(hoeffding_bentkus_p_values(total, self.groups, bound)[0])

    def p_value(self, bound: float, delta: float) -> float:
        """Compute the p-value; one well above `delta` may be given as 1.

        Example:
            >>> round(GroupCounts(((2, 0, 26), (2, 1, 1)), 2).p_value(0.2, 0.1), 4)
            0.0032
        """
        test = Guarantee.group_test(self.groups, self.largest, bound)
        if test.takes_long or self.total > bound * self.groups:
            return test.p_value_of(self.counts)
        known = _known_p_values(self.groups, self.largest, bound, delta)
        return float(known[min(test.total_of(self.counts), len(known) - 1)])


@lru_cache(maxsize=512)
def _known_p_values(groups: int, largest: int, bound: float, delta: float) -> Floats:
    """P-values of totals, up to those that are certainly above `delta`, and then 1.

    They are never smaller than where each group goes wrong as a whole or not at all.
    """
    test = Guarantee.group_test(groups, largest, bound)
    most = (2 + (errors_allowed(groups, bound, delta) or 0)) * test.weights[-1]
    return np.append(test.p_values(most), 1.0)
