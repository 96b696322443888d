"""Test "more than α pass" by each passage's share of questions that pass.

Likewise "more than α are wrong", by each group's share of what is let through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]


def whole(loss: float) -> int:
    """Round a loss up to whole questions; sums such as .1 + .2 do not cost a whole one."""
    return math.ceil(loss - 1e-9)


def binomial_tail(errors: int, n: int, risk: float) -> float:
    """P(Bin(n, risk) ≤ errors): the exact p-value of so many errors; 1.0 where `n` is 0.

    Example:
        >>> round(binomial_tail(5, 100, 0.1), 4)
        0.0576
    """
    import numpy as np

    if not n or errors >= n:
        return 1.0
    k = np.arange(errors, dtype=np.float64)
    # Logarithms of the chances of 0, 1, … errors, so that no term is lost.
    steps = np.log((n - k) / (k + 1.0)) + (math.log(risk) - math.log1p(-risk))
    terms = n * math.log1p(-risk) + np.append(0.0, np.cumsum(steps))
    return min(1.0, float(np.exp(terms).sum()))


def hoeffding_bentkus(loss: float, n: int, risk: float) -> float:
    """P-value of the mean of losses in [0, 1]; 1.0 where `n` is 0.

    Source: Bates et al. 2021, Distribution-free, risk-controlling prediction sets.

    Example:
        >>> round(hoeffding_bentkus(2.0, 100, 0.1), 4)
        0.0053
    """
    if not n:
        return 1.0
    mean = min(loss / n, risk)
    entropy = sum(
        seen * math.log(seen / bound)
        for seen, bound in ((mean, risk), (1.0 - mean, 1.0 - risk))
        if seen > 0.0
    )
    bentkus = math.e * binomial_tail(min(n, whole(loss)), n, risk)
    return min(1.0, bentkus, math.exp(-n * max(0.0, entropy)))


# Shares above 0 that are told apart at most, and parts that a whole passage is counted in.
_MAX_LEVELS, _WHOLE = 20, 48
# The stake λ that weights come from, times √(passages · α (1 − α)), and its largest part of what
# would lose everything. Chosen by simulation: hardly a loss where the questions of a passage all
# go alike, most of the gain where they do not (`benchmarks/leak_certificate.py`).
_STAKE, _LARGEST_STAKE = 1.6, 0.95


@dataclass(frozen=True, slots=True)
class LeakTest:
    """A test that a passage's share of passing questions has a mean above a bound.

    A passage of which a share s passes counts w(s), between 0 and 1, and P is the largest chance
    of so small a total among independent passages whose mean shares are at or above the bound.
    The weight is the loss of a gambler who stakes λ against the bound, as a part of what a
    whole passage costs him: log((1 + λα) / (1 + λ(α − s))) / log((1 + λα) / (1 − λ(1 − α))). So
    two passages that half pass count less than one that passes: that tells more of a mean.

    For a given total the chance is linear in the distribution of each passage, so it is largest
    where each has two shares a ≤ α < b only. Passages that pass as a whole or not at all are
    counted over all numbers of them. For the others, taken from the most to the least spread, it
    is bounded by the chance of one who sees the total as it grows and goes on to less spread
    ones when it suits him. Where shares are 0 or 1 only the test is the exact binomial tail.

    Attributes:
        MOST_STEPS: of a computation that ends in some tenths of a second. Beyond, Hoeffding and
            Bentkus' bound on the mean share takes its place: it certifies nearly as much, since
            there are many passages.
        passages: independent ones, each with a question.
        bound: α on the mean share, in (0, 1).
        levels: shares that are told apart, ascending from 0 to 1; another counts as the next.
        weights: of each level, in parts of a whole passage, which is the last.

    Source: Hoeffding 1956, On the distribution of the number of successes in independent
    trials, for two-point extremes; Waudby-Smith & Ramdas 2024, Estimating means of bounded
    random variables by betting, for the stake.

    Example:
        >>> test = LeakTest.of([2] * 27, 0.2)
        >>> test.levels, test.weights
        ((0.0, 0.5, 1.0), (0, 18, 48))
        >>> [round(test.p_values(total)[total].item(), 4) for total in (0, 18, 48, 96)]
        [0.0024, 0.0032, 0.0187, 0.0718]
    """

    MOST_STEPS: ClassVar = 40_000_000

    passages: int
    bound: float
    levels: tuple[float, ...]
    weights: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Iterable[int], bound: float) -> LeakTest:
        """Choose the test by the questions of each passage, at least 1, and the bound."""
        given = [int(size) for size in sizes]
        return cls._of_parts(len(given), {1, *given}, bound)

    @classmethod
    def of_groups(cls, groups: int, largest: int, bound: float) -> LeakTest:
        """Choose the test of groups of which any number of questions may count.

        Args:
            groups: independent ones, each with a question that counts.
            largest: most questions that a group has.
            bound: α on the mean share.

        Example:
            >>> LeakTest.of_groups(27, 2, 0.2) == LeakTest.of([2] * 27, 0.2)
            True
        """
        return cls._of_parts(groups, range(1, min(largest, _MAX_LEVELS + 1) + 1), bound)

    @classmethod
    def _of_parts(cls, passages: int, parts: Iterable[int], bound: float) -> LeakTest:
        # One passage of more questions than that alone has too many shares.
        sizes = {max(1, min(size, _MAX_LEVELS + 1)) for size in parts}
        levels = sorted({part / size for size in sizes for part in range(size + 1)})
        if len(levels) > _MAX_LEVELS + 1:
            levels = [part / _MAX_LEVELS for part in range(_MAX_LEVELS + 1)]
        spread = math.sqrt(bound * (1.0 - bound) * max(1, passages))
        stake = min(_STAKE / spread, _LARGEST_STAKE / (1.0 - bound))
        losses = [math.log1p(stake * bound) - math.log1p(stake * (bound - s)) for s in levels]
        weights = [math.ceil(_WHOLE * loss / losses[-1] - 1e-9) for loss in losses]
        return cls(passages, bound, tuple(levels), tuple(weights))

    @property
    def takes_long(self) -> bool:
        """Whether p-values up to the bound take more steps than `MOST_STEPS`."""
        rows = int(self.bound * self.passages) + 1
        whole = self.weights[-1]
        steps = len(self._pairs()) * (rows * whole + 2000) + rows * rows * whole // 8
        return self.passages * steps > self.MOST_STEPS

    def totals(self, shares: Floats) -> Counts:
        """Weight of all passages, of shares of shape (…, passages)."""
        import numpy as np

        # A share that rounding puts a little above a level is at that level.
        places = np.searchsorted(self.levels, shares - 1e-9)
        return np.asarray(np.asarray(self.weights)[places].sum(axis=-1), dtype=np.int64)

    def total_of(self, counts: Sequence[tuple[int, int, int]]) -> int:
        """Weight of all passages, of `(questions, of those that pass, how many such passages)`."""
        import numpy as np

        shares = np.asarray([[passing / size] for size, passing, _ in counts])
        return int(self.totals(shares) @ np.asarray([count for _, _, count in counts]))

    def p_value_of(self, counts: Sequence[tuple[int, int, int]]) -> float:
        """P-value of counts as in `total_of`; 1.0 where their mean share is above the bound."""
        if any(passing > size or not size for size, passing, _ in counts):
            return 1.0  # no passage has such counts
        total = math.fsum(count * passing / size for size, passing, count in counts)
        if total > self.bound * self.passages:
            return 1.0
        if self.takes_long:
            return hoeffding_bentkus(total, self.passages, self.bound)
        return float(self.p_values(self.total_of(counts))[-1])

    def p_values(self, most: int) -> Floats:
        """P-values of the totals 0, …, `most`, ascending."""
        import numpy as np

        whole = self.weights[-1]
        rows = most // whole + 1
        # Chances of 0, 1, … whole passages among 0, 1, … of those that go all one way.
        chances = np.zeros((self.passages + 1, rows))
        chances[0, 0] = 1.0
        for n in range(self.passages):
            chances[n + 1] = chances[n] * (1.0 - self.bound)
            chances[n + 1, 1:] += chances[n, :-1] * self.bound
        before = np.subtract.outer(np.arange(rows), np.arange(rows))
        found = np.zeros((rows, whole))
        for others, worst in enumerate(self._worst_of_others(rows * whole)):
            wholes = np.where(before >= 0, chances[self.passages - others][before], 0.0)
            np.maximum(found, wholes @ worst.reshape(rows, whole), out=found)
        return np.asarray(np.minimum(1.0, found.ravel()[: most + 1]))

    def _worst_of_others(self, totals: int) -> Iterator[Floats]:
        """Largest chances of at most 0, 1, … in all, for 0, 1, … passages with other shares."""
        import numpy as np

        yield np.ones(totals)
        whole, pairs = self.weights[-1], self._pairs()
        # By the most spread pair that may still be taken; nothing remains below 0.
        remaining = np.zeros((len(pairs) + 1, whole + totals))
        remaining[:-1, whole:] = 1.0
        for _ in range(self.passages):
            for row in range(len(pairs) - 1, -1, -1):
                low, high, chance = pairs[row]
                now = remaining[row]
                after = now[whole - low : len(now) - low] * (1.0 - chance)
                after += now[whole - high : len(now) - high] * chance
                np.maximum(after, remaining[row + 1, whole:], out=now[whole:])
            yield remaining[0, whole:]

    def _pairs(self) -> list[tuple[int, int, float]]:
        """Weights of two shares and the chance of the larger, where the mean is the bound.

        From the most to the least spread; that of 0 and 1 is left out.
        """
        known = list(zip(self.levels, self.weights, strict=True))
        pairs = [
            ((self.bound - a) * (b - self.bound), low, high, (self.bound - a) / (b - a))
            for a, low in known
            for b, high in known
            if a <= self.bound < b and (a, b) != (0.0, 1.0)
        ]
        pairs.sort(key=lambda pair: -pair[0])
        return [pair[1:] for pair in pairs]
