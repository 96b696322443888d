"""How well a score tells two kinds of cases apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ._intervals import UNDEFINED, Interval

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

    Args:
        questions: per question its positive and its negative scores.
        confidence: coverage in (0, 1).
        resamples: bootstrap draws.
        seed: of the draws.

    Returns:
        The interval; `n` counts questions. Undefined where either kind is missing.
        Where the two kinds do not overlap, every resample has the same AUROC and the
        interval has no width: that shows the limits of resampling, not certainty.

    Raises:
        ValueError: a score is NaN, or an argument is out of range.
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
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(value, float(low), float(high), len(questions))


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
