"""Fitting the best non-decreasing step table from raw scores to probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..guard import Calibrator, IdentityCalibrator, StepCalibrator
from ._case_arrays import Floats, Numbers, Outcomes, scored_cases


def fit_isotonic(scores: Numbers, outcomes: Outcomes) -> Calibrator:
    """Isotonic regression of the outcome on the score, as a step table.

    At every training score the table gives the prediction of scikit-learn's
    `IsotonicRegression`, except that no step is 0 or 1, which a handful of cases cannot
    show: 0 of n becomes 1/(n+2) and n of n becomes (n+1)/(n+2), Laplace's rule, though
    never past the neighbouring step. Between two training scores of different value the
    step lies in the middle of the gap, so that the last bit of a score never decides;
    scikit-learn interpolates there. Outside the training scores the outermost value holds.

    Args:
        scores: finite raw scores.
        outcomes: whether each case came true, as many.

    Returns:
        A step table; one step, the share that came true, where the score does not rise
        with the outcome. The identity where either outcome is missing.

    Raises:
        ValueError: lengths differ, a score is NaN or infinite, an outcome is neither true
            nor false.

    Source: Zadrozny & Elkan 2002, Transforming classifier scores into accurate multiclass
    probability estimates.

    Example:
        >>> table = fit_isotonic([1.0, 2.0, 3.0, 4.0], [False, True, False, True])
        >>> [round(table.apply(score), 3) for score in (1.4, 1.5, 3.0, 9.0)]
        [0.333, 0.5, 0.5, 0.667]
    """
    numbers, came_true = scored_cases(scores, outcomes)
    if not len(numbers) or came_true.min() == came_true.max():
        return IdentityCalibrator()
    from sklearn.isotonic import isotonic_regression

    distinct, level, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    shares = np.bincount(level, weights=came_true) / counts
    fitted = np.asarray(isotonic_regression(shares, sample_weight=counts), dtype=np.float64)
    values, first = np.unique(fitted, return_index=True)
    edges = tuple(_middle(distinct[i - 1], distinct[i]) for i in first[1:].tolist())
    cases = np.add.reduceat(counts, first)
    return _merged(edges, _without_certainty(values, cases))


def _middle(below: float, above: float) -> float:
    # Halved first: the sum of two huge scores would be infinite.
    middle = float(below) / 2 + float(above) / 2
    return middle if below < middle <= above else float(above)


def _without_certainty(values: Floats, cases: NDArray[np.int_]) -> Floats:
    softened = values.copy()
    if values[0] <= 0.0:
        softened[0] = min(1 / (cases[0] + 2), values[1])
    if values[-1] >= 1.0:
        softened[-1] = max((cases[-1] + 1) / (cases[-1] + 2), values[-2])
    if len(values) == 2 and values[0] <= 0.0 and values[1] >= 1.0:
        # Perfectly apart: neither side's neighbour is a bound but the other's Laplace share.
        softened[:] = 1 / (cases[0] + 2), (cases[1] + 1) / (cases[1] + 2)
    return softened


def _merged(edges: tuple[float, ...], values: Floats) -> StepCalibrator:
    # A softened outermost step may have met its neighbour.
    kept = [i for i in range(len(edges)) if values[i + 1] > values[i]]
    return StepCalibrator(
        edges=tuple(edges[i] for i in kept),
        values=(float(values[0]), *(float(values[i + 1]) for i in kept)),
    )
