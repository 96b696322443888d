"""How well a score tells two kinds of cases apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ._intervals import UNDEFINED, Interval, wilson_interval

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
        return UNDEFINED
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
    low = wilson_interval(below, n, confidence).low
    return Interval(value, low, wilson_interval(above, n, confidence).high, n)


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
