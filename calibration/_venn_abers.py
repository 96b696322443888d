"""Venn–Abers prediction, reduced to one non-decreasing step table."""

from __future__ import annotations

import math

import numpy as np

from ..guard import Calibrator, IdentityCalibrator, StepCalibrator
from ._case_arrays import Numbers, Outcomes, scored_cases

Point = tuple[int, int]


def fit_venn_abers(scores: Numbers, outcomes: Outcomes) -> Calibrator:
    """Inductive Venn–Abers probabilities, exact at every score.

    For a score s let p0 be the isotonic regression's value at s after a case (s, false) is
    added to the data, and p1 after a case (s, true). Of the pair, one is a calibrated
    probability whatever the distribution of the scores; the pair becomes the single
    probability p1/(1 - p0 + p1), the one that minimises the largest regret of log loss.

    Both are constant between two neighbouring training scores, so a table holds them
    exactly: one value at each training score and one for the open gap above it, equal
    neighbours merged. All slopes are ratios of counts, computed in whole numbers: the
    table never decreases, to the last bit. No value is ever 0 or 1.

    Args:
        scores: finite raw scores.
        outcomes: whether each case came true, as many.

    Returns:
        A step table; the identity where either outcome is missing.

    Raises:
        ValueError: lengths differ, a score is NaN or infinite, an outcome is neither true
            nor false.

    Source: Vovk, Petej & Fedorova 2015, Large-scale probabilistic predictors with and
    without guarantees of validity (the linear-time algorithm and the merged probability).

    Example:
        >>> fit_venn_abers([0.0, 1.0], [False, True]).apply(0.5)
        0.5
    """
    numbers, came_true = scored_cases(scores, outcomes)
    if not len(numbers) or came_true.min() == came_true.max():
        return IdentityCalibrator()
    distinct, level, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    sizes: list[int] = counts.tolist()
    trues = [int(t) for t in np.bincount(level, weights=came_true)]
    if_true = _with_a_true_case(sizes, trues)
    # Turned round and with the outcomes swapped, a false case is a true one.
    falses = [size - true for size, true in zip(sizes, trues, strict=True)]
    swapped = _with_a_true_case(sizes[::-1], falses[::-1])[::-1]
    if_false = [(width - height, width) for height, width in swapped]
    if_true.append((1, 1))

    edges: list[float] = []
    values = [_merged_probability((0, 1), if_true[0])]
    for index, score in enumerate(distinct.tolist()):
        gap = math.nextafter(score, math.inf)
        at = _merged_probability(if_false[index], if_true[index])
        above = _merged_probability(if_false[index], if_true[index + 1])
        for edge, value in ((score, at), (gap, above)):
            beyond = index + 1 < len(distinct) and edge >= distinct[index + 1]
            if value > values[-1] and not beyond and math.isfinite(edge):
                edges.append(edge)
                values.append(value)
    return StepCalibrator(edges=tuple(edges), values=tuple(values))


def _merged_probability(if_false: Point, if_true: Point) -> float:
    """p1/(1 - p0 + p1) of two ratios of whole numbers, rounded once."""
    (c, d), (a, b) = if_false, if_true
    return (a * d) / (b * (d - c) + a * d)


def _with_a_true_case(sizes: list[int], trues: list[int]) -> list[Point]:
    """Per level the isotonic value there, as (height, width), after one true case more there.

    The value is a slope of the greatest convex minorant of the cumulative sums P₀ … Pₖ.
    A case added at level i moves all points before Pᵢ by (-1, -1); a stack holds the
    corners of the minorant from the segment that ends at or spans Pᵢ on.
    """
    points: list[Point] = [(0, 0)]
    for size, true in zip(sizes, trues, strict=True):
        points.append((points[-1][0] + size, points[-1][1] + true))
    # From the right, so that the leftmost corner ends on top.
    stack: list[Point] = []
    for point in [*reversed(points), (-1, -1)]:
        _push_corner(stack, point)
    values: list[Point] = []
    for point in points[1:]:
        left, right = stack[-1], stack[-2]
        values.append((right[1] - left[1], right[0] - left[0]))
        # The next level has this point among those before it.
        moved = (point[0] - 1, point[1] - 1)
        if _cross(left, right, moved) >= 0:
            continue
        stack.pop()
        _push_corner(stack, moved)
    return values


def _push_corner(stack: list[Point], point: Point) -> None:
    """Add a point on the left, dropping corners that the minorant no longer touches."""
    while len(stack) > 1 and _cross(point, stack[-1], stack[-2]) <= 0:
        stack.pop()
    stack.append(point)


def _cross(first: Point, second: Point, third: Point) -> int:
    """Positive where the third point lies to the left of the way from first to second."""
    return (second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (
        third[0] - first[0]
    )
