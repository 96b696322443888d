"""Two systems on the same questions: does one differ from the other?

Answers to the same question are no independent samples; what decides is the questions on
which the two differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ..guard.errors import optional_import

SMALLEST_PROBABILITY = 1e-9

Floats = NDArray[np.float64]
# One number per case.
Numbers = Sequence[float] | Floats
# Per case whether it came true; arrays hold 0.0 and 1.0.
Outcomes = Sequence[bool] | Floats


def binomial_p_value(errors: int, n: int, risk: float) -> float:
    """P-value of "the true risk is above `risk`" after `errors` in `n` questions.

    For 0/1 losses this tail is exact and never looser than Hoeffding–Bentkus.
    `n` counts independent questions, never passages or case variants.

    Returns 1.0 when `n` is 0: no evidence certifies nothing.

    Source: Bates et al. 2021, Distribution-free, risk-controlling prediction sets;
    Angelopoulos et al. 2021, Learn then Test.

    Example:
        >>> round(binomial_p_value(0, 22, 0.1), 4)
        0.0985
    """
    _require_probability(risk=risk)
    if not 0 <= errors <= n:
        raise ValueError(f"{errors} errors of {n} questions")
    if n == 0:
        return 1.0
    optional_import("scipy")
    from scipy.special import bdtr

    return float(bdtr(errors, n, risk))


def errors_allowed(n: int, risk: float, delta: float) -> int | None:
    """Most errors in `n` questions that still certify `risk` at confidence 1 - `delta`.

    Returns None when not even an error-free run of `n` questions certifies it.

    Example:
        >>> errors_allowed(100, 0.1, 0.1), errors_allowed(10, 0.1, 0.1)
        (5, None)
    """
    _require_probability(risk=risk, delta=delta)
    found = int(errors_allowed_each(np.asarray([n]), risk, delta)[0])
    return found if found >= 0 else None


@lru_cache(maxsize=256)
def errors_allowed_up_to(most: int, risk: float, delta: float) -> NDArray[np.int64]:
    """Most errors that certify, by the number of questions 0 … `most`; -1 where none do."""
    return errors_allowed_each(np.arange(most + 1), risk, delta)


def errors_allowed_each(n: NDArray[np.int64], risk: float, delta: float) -> NDArray[np.int64]:
    """As `errors_allowed_up_to`, for these numbers of questions, at any level above 0."""
    optional_import("scipy")
    from scipy.special import bdtr
    from scipy.stats import binom

    # The quantile is the first k with cdf(k) >= delta; one below is the last certain one,
    # unless the tail hits delta exactly.
    first = np.asarray(binom.ppf(delta, n, risk)).astype(np.int64)
    allowed = np.where(bdtr(first, n, risk) <= delta, first, first - 1)
    return np.where(n == 0, -1, allowed).astype(np.int64)


@lru_cache
def questions_needed(risk: float, delta: float) -> int:
    """Questions from which on an error-free run certifies `risk` at confidence 1 - `delta`.

    Example:
        >>> questions_needed(0.1, 0.1), questions_needed(0.05, 0.1)
        (22, 45)
    """
    _require_probability(risk=risk, delta=delta)
    needed = max(1, math.ceil(math.log(delta) / math.log1p(-risk) - 1e-9))
    # Where the tail hits delta exactly, the test itself has the last word.
    while binomial_p_value(0, needed, risk) > delta:
        needed += 1
    return needed


def _require_probability(**values: float) -> None:
    for name, value in values.items():
        # Below that no number of questions helps, and above it nothing is left to certify.
        if not SMALLEST_PROBABILITY <= value <= 1 - SMALLEST_PROBABILITY:
            raise ValueError(f"{name} must be between 0 and 1, not {value}")


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval; `Interval()` where nothing was observed.

    Nominal 90 % bootstrap intervals covered the truth in 88 to 92 % of simulated samples of
    200 and 1,000 cases for `ReliabilityDiagram.brier_score` and in 80 to 90 % for
    `ReliabilityDiagram.debiased_error`. Those of `ReliabilityDiagram.expected_error` lie too
    high where probabilities are nearly right (down to 0 %): resampling adds chance to chance.

    Attributes:
        value: the estimate, None where nothing was observed.
        low: lower end, None likewise.
        high: upper end, None likewise.
        n: independent units (questions) it rests on.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0

    def to_dict(self) -> dict[str, float | int | None]:
        """The four fields, as reports store them."""
        return asdict(self)

    def complement(self) -> Interval:
        """The interval of what a share leaves over.

        Example:
            >>> Interval(0.25, 0.125, 0.5, 9).complement()
            Interval(value=0.75, low=0.5, high=0.875, n=9)
        """
        value, low, high = (
            None if end is None else 1.0 - end for end in (self.value, self.high, self.low)
        )
        return Interval(value, low, high, self.n)

    def around(self, value: float) -> Interval:
        """Put another estimate in this interval, which is widened to hold it.

        Example:
            >>> Interval(0.5, 0.4, 0.6, 9).around(0.7)
            Interval(value=0.7, low=0.4, high=0.7, n=9)
        """
        if self.low is None or self.high is None:
            return Interval(value, None, None, self.n)
        return Interval(value, min(self.low, value), max(self.high, value), self.n)

    @classmethod
    def wilson(cls, successes: int, n: int, confidence: float = 0.95) -> Interval:
        """Wilson score interval of a proportion.

        Args:
            successes: between 0 and n.
            n: independent trials; with 0 the interval is undefined (None), never 0.0.
            confidence: coverage in (0, 1).

        Source: Wilson 1927, Probable inference, the law of succession.

        Example:
            >>> rate = Interval.wilson(9, 10)
            >>> rate.value, round(rate.low, 3), round(rate.high, 3)
            (0.9, 0.596, 0.982)
        """
        if not 0 <= successes <= n:
            raise ValueError(f"{successes} successes of {n} trials")
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
        if n == 0:
            return cls()
        z = NormalDist().inv_cdf(0.5 + confidence / 2)
        share = successes / n
        scale = 1 + z * z / n
        centre = (share + z * z / (2 * n)) / scale
        half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        # Rounding must not push an end past the estimate or off the scale.
        low = 0.0 if successes == 0 else max(0.0, centre - half)
        high = 1.0 if successes == n else min(1.0, centre + half)
        return cls(share, min(low, share), max(high, share), n)

    @classmethod
    def bootstrap(
        cls,
        statistic: Statistic,
        probabilities: Numbers,
        outcomes: Sequence[float] | Sequence[bool] | Floats,
        *,
        groups: Sequence[str] | None = None,
        resamples: int = 1000,
        seed: int = 0,
        level: float = 0.95,
    ) -> Interval:
        """A statistic with its percentile bootstrap interval over independent units.

        The units are groups where they are given (say, all case variants of one question, or
        all questions of one document), else the cases. Units are drawn with replacement and
        keep all their cases. Draws where the statistic is None are left out. The interval
        always holds the value. Where every draw gives the same value, it is the
        Wilson interval of value·n successes in n units for a value in [0, 1], else undefined.

        Args:
            statistic: such as `ReliabilityDiagram.brier_score`; a lambda fixes further arguments.
            probabilities: its first argument, one per case.
            outcomes: its second argument, one per case.
            groups: the unit of each case.
            resamples: draws, at least 1.
            seed: of the draws.
            level: coverage in (0, 1).

        Returns:
            The interval; `n` counts units. Undefined where the statistic is.

        Raises:
            ValueError: lengths differ, or an argument is out of range.

        Source: Efron & Tibshirani 1993, An introduction to the bootstrap, chapter 13.

        Example:
            >>> from knowgate.calibration import ReliabilityDiagram
            >>> brier = ReliabilityDiagram.brier_score
            >>> found = Interval.bootstrap(brier, [0.2, 0.8, 0.6], [False, True, False])
            >>> round(found.value, 3), found.n
            (0.147, 3)
        """
        if not 0.0 < level < 1.0 or resamples < 1:
            raise ValueError("level must be in (0, 1), and there must be a resample")
        first, second = equally_many(probabilities, outcomes, "cases", "outcomes")
        unit = units_of(groups, len(first))
        ends = np.cumsum(np.bincount(unit))[:-1]
        members = np.split(np.argsort(unit, kind="stable"), ends)
        value = statistic(first, second)
        if value is None or not len(first):
            return cls()
        rng, drawn = np.random.default_rng(seed), []
        for _ in range(resamples):
            picked = rng.integers(0, len(members), len(members))
            cases = picked if groups is None else np.concatenate([members[i] for i in picked])
            drawn.append(statistic(first[cases], second[cases]))
        draws = np.asarray(drawn, dtype=np.float64)  # NaN where undefined
        return cls.of_draws(value, draws, len(members), confidence=level)

    @classmethod
    def paired_difference(
        cls,
        first: Sequence[bool] | Numbers,
        second: Sequence[bool] | Numbers,
        *,
        groups: Sequence[Hashable] | None = None,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Interval:
        """Mean of `first` minus mean of `second`, with a paired percentile bootstrap interval.

        Whole groups are drawn, the same for both: what makes a question hard for both cancels.

        Where all draws agree, resampling says nothing about chance and a width of zero would
        claim certainty: the interval is then as wide on either side as that of a share of 0.

        Args:
            first: one value per pair, a share or a truth value.
            second: of the same pairs.
            groups: what each pair belongs to, say a question; None: each pair for itself.
            resamples: draws, at least 1.
            seed: of the draws.

        Returns:
            The difference; `n` counts groups. Undefined without pairs.

        Raises:
            ValueError: lengths differ, or an argument is out of range.

        Source: Efron & Tibshirani 1993, An introduction to the bootstrap, chapter 13.

        Example:
            >>> found = Interval.paired_difference([1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0])
            >>> found.value, found.low, found.high
            (0.5, 0.16666666666666666, 0.8333333333333334)
        """
        above = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
        if len(first) != len(second) or (groups is not None and len(groups) != len(first)):
            raise ValueError("pairs and groups must be equally many")
        if not len(above):
            return cls()
        owner = np.arange(len(above)) if groups is None else numbered(groups)
        sums = np.bincount(owner, weights=above).astype(np.float64)
        sizes = np.bincount(owner)
        require_draws(resamples)
        rng, drawn = np.random.default_rng(seed), []
        for start in range(0, resamples, _CHUNK):
            picked = rng.integers(0, len(sums), (min(_CHUNK, resamples - start), len(sums)))
            drawn.append(sums[picked].sum(axis=1) / sizes[picked].sum(axis=1))
        draws = np.concatenate(drawn)
        return cls.of_draws(float(above.mean()), draws, len(sums), difference=True)

    @classmethod
    def of_draws(
        cls,
        value: float,
        draws: Floats,
        n: int,
        *,
        confidence: float = 0.95,
        difference: bool = False,
    ) -> Interval:
        """Give an estimate the percentile interval of its bootstrap draws, which holds it.

        Where all draws agree, resampling says nothing about chance and a width of zero would
        claim certainty: then it is the Wilson interval of the value's count among n questions,
        for a difference as wide on either side as that of a share of 0; undefined for a value
        outside [0, 1].

        Args:
            value: the estimate; NaN where nothing was observed.
            draws: of the same number; NaN where a draw held no case.
            n: questions it rests on.
            confidence: coverage in (0, 1).
            difference: the value is a difference of two shares.
        """
        if n == 0 or math.isnan(value):
            return cls()
        seen, tail = draws[~np.isnan(draws)], (1 - confidence) / 2
        low, high = np.quantile(seen, [tail, 1 - tail]) if len(seen) else (value, value)
        if low < high:
            return cls(value, float(low), float(high), n).around(value)
        if difference:
            width = cls.wilson(0, n, confidence).high or 0.0
            return cls(value, max(-1.0, value - width), min(1.0, value + width), n)
        if not 0.0 <= value <= 1.0:
            return cls(value, None, None, n)
        # Exactly full counts must not slip past the next whole number by rounding.
        near = round(value * n, 9)
        below, above = math.floor(near), math.ceil(near)
        return cls(
            value, cls.wilson(below, n, confidence).low, cls.wilson(above, n, confidence).high, n
        )


# A number of probabilities and outcomes, or of confidences and losses; None = undefined.
Statistic = Callable[[Floats, Floats], float | None]


def numbered(keys: Iterable[Hashable]) -> NDArray[np.intp]:
    """The number of each key, in the order in which they first come.

    Example:
        >>> numbered("abca").tolist()
        [0, 1, 2, 0]
    """
    numbers: dict[Hashable, int] = {}
    return np.asarray([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)


def units_of(groups: Sequence[str] | None, cases: int) -> NDArray[np.int64]:
    """The number of each case's group, in the order of their names; None: each case for itself.

    Raises:
        ValueError: there is not one group per case.
    """
    if groups is not None and len(groups) != cases:
        raise ValueError(f"{cases} cases, {len(groups)} groups")
    names = np.arange(cases) if groups is None else np.asarray([str(group) for group in groups])
    return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.int64)


# From here on the exact distribution and its approximation agree in four digits.
_EXACT_UP_TO = 1000
_CHUNK = 100


def mcnemar_p_value(first_only: int, second_only: int) -> float:
    """P-value of "both succeed equally often", from the pairs in which one succeeds alone.

    The two-sided binomial tail up to 1,000 such pairs, beyond chi-squared with continuity
    correction.

    Args:
        first_only: pairs in which the first succeeds and the second does not.
        second_only: the other way round.

    Returns:
        In [0, 1]; 1.0 where there is no such pair: no evidence shows no difference.

    Raises:
        ValueError: a count is negative.

    Source: McNemar 1947, Note on the sampling error of the difference between correlated
    proportions or percentages; Edwards 1948 for the correction.

    Example:
        >>> round(mcnemar_p_value(1, 8), 4)
        0.0391
    """
    if first_only < 0 or second_only < 0:
        raise ValueError(f"negative count of pairs: {first_only}, {second_only}")
    pairs = first_only + second_only
    if not pairs:
        return 1.0
    optional_import("scipy")
    from scipy.stats import binomtest, chi2

    if pairs <= _EXACT_UP_TO:
        return float(binomtest(first_only, pairs).pvalue)

    excess = max(0, abs(first_only - second_only) - 1)
    return float(chi2.sf(excess**2 / pairs, 1))


def require_draws(resamples: int) -> None:
    """Reject a bootstrap without draws.

    Raises:
        ValueError: there are none.
    """
    if resamples < 1:
        raise ValueError(f"there must be a resample, not {resamples}")


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """P-values made larger, so that comparing each with one level errs in the family once.

    At level δ those adjusted values that are at most δ are what Holm's step-down procedure
    rejects: the chance that any of the family is rejected falsely is at most δ, however
    the tests depend on each other.

    Args:
        p_values: of all tests of the family, each in [0, 1].

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.

    Example:
        >>> holm_adjusted([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    if any(math.isnan(value) or not 0.0 <= value <= 1.0 for value in p_values):
        raise ValueError("a p-value is out of [0, 1]")
    given, count = np.asarray(p_values, dtype=np.float64), len(p_values)
    order = np.argsort(given, kind="stable")
    larger = np.maximum.accumulate(np.arange(count, 0, -1) * given[order])
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(1.0, larger)
    return list(map(float, adjusted))


def middles(below: Floats, above: Floats) -> Floats:
    """The middle of each gap, or its upper end where floats have nothing in between.

    So the last bit of a score never decides.

    Example:
        >>> middles(np.array([0.0, 1.0]), np.array([1.0, 3.0])).tolist()
        [0.5, 2.0]
    """
    # Halved first: the sum of two huge scores would be infinite.
    middle = below / 2 + above / 2
    return np.where((below < middle) & (middle <= above), middle, above)


def scored_cases(scores: Numbers, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Finite scores and their outcomes as 0.0 and 1.0.

    Raises:
        ValueError: lengths differ, a score is NaN or infinite, an outcome is neither true
            nor false.
    """
    numbers, came_true = _with_outcomes(scores, outcomes, "scores")
    if not np.isfinite(numbers).all():
        raise ValueError("scores must be finite")
    return numbers, came_true


def stated_cases(probabilities: Numbers, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Probabilities and their outcomes as 0.0 and 1.0.

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
            neither true nor false.
    """
    stated, came_true = _with_outcomes(probabilities, outcomes, "probabilities")
    if not ((stated >= 0.0) & (stated <= 1.0)).all():
        raise ValueError("probabilities must be between 0 and 1")
    return stated, came_true


def equal_mass_bins(ascending: Floats, bins: int) -> list[slice]:
    """Sorted numbers cut into bins of (as nearly as possible) equal size.

    Equal numbers are never parted: a cut among them moves up to the last of them. So
    there may be fewer than `bins`, and none is empty.

    Raises:
        ValueError: `bins` is below 1.

    Example:
        >>> [(b.start, b.stop) for b in equal_mass_bins(np.array([0.1, 0.2, 0.2, 0.3]), 2)]
        [(0, 3), (3, 4)]
    """
    if bins < 1:
        raise ValueError(f"there must be a bin, not {bins}")
    if not len(ascending):
        return []
    parts = np.array_split(ascending, min(bins, len(ascending)))
    ends = np.unique(np.searchsorted(ascending, [part[-1] for part in parts], side="right"))
    starts = [0, *ends[:-1].tolist()]
    return [slice(start, stop) for start, stop in zip(starts, ends.tolist(), strict=True)]


def equally_many(
    first: Numbers, second: Sequence[float] | Sequence[bool] | Floats, *names: str
) -> tuple[Floats, Floats]:
    """Two numbers of each case as arrays; an error names what there are more of.

    Raises:
        ValueError: lengths differ.
    """
    one, other = (np.asarray(side, dtype=np.float64) for side in (first, second))
    if one.shape != other.shape or one.ndim != 1:
        told = f"{one.size} {names[0]} for {other.size} {names[1]}"
        raise ValueError(told if one.size != other.size else f"{told}, in other shapes")
    return one, other


def _with_outcomes(numbers: Numbers, outcomes: Outcomes, name: str) -> tuple[Floats, Floats]:
    values, came_true = equally_many(numbers, outcomes, name, "outcomes")
    if not np.isin(came_true, (0.0, 1.0)).all():
        raise ValueError("outcomes must be true or false")
    return values, came_true


def resampled_totals(counts: Floats, *, resamples: int, seed: int) -> Floats:
    """Sum counts over all questions, then over each bootstrap draw of questions.

    A question is drawn with all of its cases: they share its wording, so they are no
    independent evidence. All methods that are measured on the same questions, in the same
    order, share the draws, which makes differences between them paired.

    Args:
        counts: shape (questions, columns).
        resamples: number of draws, at least 1.
        seed: random seed.

    Returns:
        Shape (1 + resamples, columns): what was seen, then the draws.
    """
    drawn = [part @ counts for part in resampled(len(counts), resamples, seed)]
    return np.concatenate([counts.sum(axis=0)[None], *drawn])


def resampled(count: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each of `count` questions is drawn, a hundred draws at a time.

    Each part has the shape (draws, questions).
    """
    weights = _weights(count, resamples, seed)
    for start in range(0, len(weights), _CHUNK):
        yield weights[start : start + _CHUNK].astype(np.float64)


# A report has many intervals over the same questions.
@lru_cache(maxsize=4)
def _weights(count: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each draw holds each question; shape (resamples, count)."""
    rng = np.random.default_rng(seed)
    # Small integers: thousands of questions times a thousand draws stay in memory.
    require_draws(resamples)
    weights = np.zeros((resamples, count), dtype=np.uint16)
    for start in range(0, resamples if count else 0, _CHUNK):
        draws = min(_CHUNK, resamples - start)
        picked = rng.integers(0, count, size=(draws, count))
        picked += np.arange(draws)[:, None] * count
        counted = np.bincount(picked.ravel(), minlength=draws * count)
        weights[start : start + draws] = counted.reshape(draws, count)
    weights.setflags(write=False)
    return weights
