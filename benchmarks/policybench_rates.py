"""Shares with intervals, for replies of which several belong to one question.

Within one run file each question has one reply, and the interval is Wilson's. Over several run
files the questions are what was drawn: they are resampled with all of their replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration import Interval

RESAMPLES, SEED = 4_000, 0
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """One reply as it is counted.

    Attributes:
        question: its question, which is what is drawn.
        hits: 1 where it has the property, or a difference of two such.
        of: 1 where it is among those that could have it.
    """

    question: str
    hits: int
    of: int = 1


def share(found: Sequence[Counted], *, pooled: bool) -> Interval:
    """The share of `hits` among `of`, with a 95 % interval.

    Args:
        found: replies.
        pooled: several replies per question: bootstrap over questions instead of Wilson.

    Returns:
        `n` is the number of replies that count; None throughout where there are none.
    """
    if pooled:
        return clustered(found)
    return Interval.wilson(sum(one.hits for one in found), sum(one.of for one in found))


def clustered(found: Sequence[Counted]) -> Interval:
    """Percentile bootstrap over questions of the sum of hits over the sum of `of`.

    Where every question says the same (none, or all) nothing varies under resampling; the
    ends are then Wilson's for as many trials as there are questions.
    """
    index: dict[str, int] = {}
    rows = [index.setdefault(one.question, len(index)) for one in found if one.of]
    if not rows:
        return Interval()
    counted = [one for one in found if one.of]
    hits, of = np.zeros(len(index)), np.zeros(len(index))
    np.add.at(hits, rows, [one.hits for one in counted])
    np.add.at(of, rows, [one.of for one in counted])
    value = float(hits.sum() / of.sum())
    if value in (0.0, 1.0):
        ends = Interval.wilson(round(value * len(index)), len(index))
        return Interval(value, ends.low, ends.high, len(counted))
    weights = resamples(len(index))
    low, high = np.quantile((weights @ hits) / (weights @ of), [0.025, 0.975])
    return Interval(value, float(low), float(high), len(counted))


@lru_cache(maxsize=8)
def resamples(size: int) -> Floats:
    """How often each of `size` questions is drawn, of shape (RESAMPLES, size)."""
    rng = np.random.default_rng(SEED)
    return rng.multinomial(size, np.full(size, 1 / size), size=RESAMPLES).astype(np.float64)


def shown(found: Interval, *, sign: bool = False) -> str:
    """As `.123 [.100, .150]`; a dash where nothing was observed.

    Example:
        >>> shown(Interval(0.25, 0.1, 0.5, 8))
        '.250 [.100, .500]'
    """
    if found.value is None or found.low is None or found.high is None:
        return "–"
    return f"{_short(found.value, sign)} [{_short(found.low, sign)}, {_short(found.high, sign)}]"


def _short(value: float, sign: bool) -> str:
    text = f"{abs(value):.3f}".removeprefix("0")
    mark = "−" if value < 0 else "+" if sign else ""
    return f"{mark}{text}"
