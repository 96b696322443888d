"""Intervals for rates: every number that is reported comes with one."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval.

    Attributes:
        value: the estimate, None where nothing was observed.
        low: lower end, None likewise.
        high: upper end, None likewise.
        n: independent units (questions) it rests on.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    def to_dict(self) -> dict[str, float | int | None]:
        """The four fields, as reports store them."""
        return asdict(self)


UNDEFINED = Interval(None, None, None, 0)


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion.

    Args:
        successes: between 0 and n.
        n: independent trials; with 0 the interval is undefined (None), never 0.0.
        confidence: coverage in (0, 1).

    Source: Wilson 1927, Probable inference, the law of succession.

    Example:
        >>> rate = wilson_interval(9, 10)
        >>> rate.value, round(rate.low, 3), round(rate.high, 3)
        (0.9, 0.596, 0.982)
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
    if n == 0:
        return UNDEFINED
    from scipy.stats import norm

    z = float(norm.ppf(0.5 + confidence / 2))
    share = successes / n
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # Rounding must not push an end past the estimate or off the scale.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(share, min(low, share), max(high, share), n)
