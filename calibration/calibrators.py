"""Venn–Abers prediction, reduced to one non-decreasing step table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..guard.errors import optional_import
from ..guard.policy import IdentityCalibrator
from ..guard.routing import Calibrator, PlattCalibrator, StepCalibrator, TemperatureCalibrator
from .statistics import Floats, Numbers, Outcomes, middles, scored_cases, stated_cases, units_of

Indices = NDArray[np.int64]


def deal_to_folds(unit: Indices, outcomes: Floats, folds: int, seed: int) -> Indices:
    """The fold of each case: groups whole, folds of like size, true outcomes spread out.

    Groups are shuffled by `seed`, those with most true outcomes first (then the largest),
    and each is dealt to the fold that has fewest cases so far.

    Args:
        unit: group of each case, 0 … g - 1.
        outcomes: 0.0 or 1.0 per case.
        folds: at most g.
        seed: of the shuffle.

    Example:
        >>> unit = np.array([0, 0, 1, 1, 2, 3])
        >>> deal_to_folds(unit, np.array([1.0, 0, 1, 0, 0, 0]), 2, 0).tolist()
        [0, 0, 1, 1, 0, 1]
    """
    sizes = np.bincount(unit)
    trues = np.bincount(unit, weights=outcomes)
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    order = shuffled[np.lexsort((-sizes[shuffled], -trues[shuffled]))]
    filled, dealt = np.zeros(folds, dtype=np.int64), np.zeros(len(sizes), dtype=np.int64)
    for group in order.tolist():
        dealt[group] = fold = filled.argmin()
        filled[fold] += sizes[group]
    found: Indices = dealt[unit]
    return found


def clustered_standard_error(values: Floats, unit: Indices) -> float:
    """Standard error of the mean of `values`, cases of one group being one draw.

    Args:
        values: one per case.
        unit: group of each case, 0 … g - 1, with g at least 2.

    Example:
        >>> clustered_standard_error(np.array([0.0, 2.0]), np.array([0, 1]))
        1.0
    """
    sizes = np.bincount(unit)
    off = np.bincount(unit, weights=values) - values.mean() * sizes
    count = len(sizes)
    return float(np.sqrt(count / (count - 1) * np.sum(off**2)) / len(values))


def fit_platt(positives: Sequence[float], negatives: Sequence[float]) -> Calibrator:
    """Logistic regression of "positive" on the score, with Platt's smoothed targets.

    The loss and the end of the search are those of scikit-learn with C = 10⁴.

    The targets (N₊+1)/(N₊+2) and 1/(N₋+2) keep the curve finite where the scores
    separate the two kinds perfectly. A score that does not rise with the label
    cannot be calibrated without turning its order round: then, where either kind
    is missing, and where floats cannot hold the curve, the identity is returned.

    Args:
        positives: finite raw scores of positive cases.
        negatives: finite raw scores of negative cases.

    Source: Platt 1999, Probabilistic outputs for support vector machines.
    """
    if not len(positives) or not len(negatives):
        return IdentityCalibrator()
    high = (len(positives) + 1) / (len(positives) + 2)
    low = 1 / (len(negatives) + 2)
    scores = np.concatenate([np.asarray(side, dtype=np.float64) for side in (positives, negatives)])
    targets = np.repeat([high, low], [len(positives), len(negatives)])
    lowest, width = float(scores.min()), float(scores.max()) - float(scores.min())
    if width == 0.0 or not math.isfinite(width):
        return IdentityCalibrator()
    # By way of [0, 1], where neither the mean nor the squares can overflow or vanish.
    intercept, slopes = logistic_regression(
        ((scores - lowest) / width)[:, None], targets, penalty=1e-4, within=(1e-4, 1.4e-14)
    )
    a = float(slopes[0]) / width
    b = intercept - a * lowest
    if not (0.0 < a < math.inf and math.isfinite(b)):
        return IdentityCalibrator()
    return PlattCalibrator(a=a, b=b)


def logistic_regression(
    features: Floats,
    targets: Floats,
    *,
    penalty: float,
    weights: Floats | None = None,
    towards: Floats | None = None,
    rising: bool = False,
    within: tuple[float, float] = (1e-8, 1e-14),
) -> tuple[float, Floats]:
    """Intercept and slopes of targets on features, which may be soft.

    Args:
        features: shape (n, d).
        targets: in [0, 1], shape (n,).
        penalty: on half the square of each slope of a feature that is scaled to deviation 1.
        weights: of the cases; None for 1 each.
        towards: slopes that the penalty draws to; None for 0.
        rising: no slope is below 0.
        within: gradient and change of the loss at which the search ends.
    """
    optional_import("scipy")
    from scipy.optimize import minimize
    from scipy.special import expit

    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread < 1e-12] = 1.0
    scaled, count = (features - centre) / spread, len(targets)
    counted = np.ones(count) if weights is None else weights
    drawn = np.zeros(len(centre)) if towards is None else towards * spread

    def loss(line: Floats) -> tuple[float, Floats]:
        odds, away = line[0] + scaled @ line[1:], line[1:] - drawn
        value = counted @ (np.logaddexp(0.0, odds) - targets * odds) + penalty * away @ away / 2
        error = counted * (expit(odds) - targets)
        gradient = np.concatenate([[error.sum()], scaled.T @ error + penalty * away])
        return float(value) / count, gradient / count

    found: Any = minimize(
        loss,
        np.concatenate([[0.0], drawn]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None), *[(0.0 if rising else None, None)] * len(centre)],
        options={"maxiter": 1000, "maxls": 50, "gtol": within[0], "ftol": within[1]},
    )
    slopes: Floats = found.x[1:] / spread
    return float(found.x[0] - slopes @ centre), slopes


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
    distinct, trues, counts = _by_level(scores, outcomes)
    if trues.sum() in (0, counts.sum()):
        return IdentityCalibrator()
    optional_import("sklearn")
    from sklearn.isotonic import isotonic_regression

    fitted = np.asarray(isotonic_regression(trues / counts, sample_weight=counts), dtype=np.float64)
    values, first = np.unique(fitted, return_index=True)
    edges = middles(distinct[first[1:] - 1], distinct[first[1:]])
    cases = np.add.reduceat(counts, first)
    softened = values.copy()
    if values[0] <= 0.0:
        softened[0] = min(1 / (cases[0] + 2), values[1])
    if values[-1] >= 1.0:
        softened[-1] = max((cases[-1] + 1) / (cases[-1] + 2), values[-2])
    # A softened outermost step may have met its neighbour.
    rises = np.diff(softened) > 0.0
    steps = softened[np.append(True, rises)]
    return StepCalibrator(edges=tuple(edges[rises].tolist()), values=tuple(steps.tolist()))


def _by_level(scores: Numbers, outcomes: Outcomes) -> tuple[Floats, Indices, Indices]:
    """The distinct scores, rising; and of each how many cases came true, of how many."""
    numbers, came_true = scored_cases(scores, outcomes)
    distinct, level, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return distinct, np.bincount(level, weights=came_true).astype(np.int64), counts


def fit_temperature(probabilities: Numbers, outcomes: Outcomes) -> Calibrator:
    """The temperature by which log-odds are divided, by maximum likelihood.

    As in `fit_platt` the targets are (N₊+1)/(N₊+2) and 1/(N₋+2), so that the temperature
    stays above zero where the probabilities separate the two kinds perfectly; with many
    cases this is the plain likelihood. Probabilities of exactly 0 and 1 keep their value
    at any temperature and so have no say in it.

    Args:
        probabilities: in [0, 1].
        outcomes: whether each case came true, as many.

    Returns:
        A temperature; the identity where either outcome is missing, where every
        probability is 0, .5 or 1, and where the probabilities do not rise with the
        outcome, which no temperature above zero can correct.

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
            neither true nor false.

    Source: Guo et al. 2017, On calibration of modern neural networks; the targets are
    Platt's (1999).

    Example:
        >>> round(fit_temperature([0.99] * 10, [True] * 8 + [False] * 2).apply(0.99), 2)
        0.77
    """
    stated, came_true = stated_cases(probabilities, outcomes)
    positives = float(came_true.sum())
    negatives = len(came_true) - positives
    inside = (stated > 0.0) & (stated < 1.0)
    if not positives or not negatives or not inside.any():
        return IdentityCalibrator()
    targets = np.where(came_true, (positives + 1) / (positives + 2), 1 / (negatives + 2))[inside]
    log_odds = np.log(stated[inside]) - np.log1p(-stated[inside])
    largest = float(np.abs(log_odds).max())
    if largest == 0.0:
        return IdentityCalibrator()
    unit = log_odds / largest

    def slope(sharpness: float) -> float:
        """Of the loss, which is convex: it rises through zero at most once."""
        return float(np.dot(0.5 + 0.5 * np.tanh(sharpness * unit / 2) - targets, unit))

    # A slope that rounding could have made is none.
    if slope(0.0) >= -1e-12 * len(unit):
        return IdentityCalibrator()
    optional_import("scipy")
    from scipy.optimize import brentq

    upper = 1.0
    while slope(upper) < 0.0:
        upper *= 2
    sharpness = brentq(slope, 0.0, upper, xtol=1e-300, rtol=1e-12)
    return TemperatureCalibrator(temperature=largest / float(sharpness))


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
    distinct, level_trues, counts = _by_level(scores, outcomes)
    sizes, trues = counts.tolist(), level_trues.tolist()
    if sum(trues) in (0, sum(sizes)):
        return IdentityCalibrator()
    if_true = _with_a_true_case(sizes, trues)
    # Turned round and with the outcomes swapped, a false case is a true one.
    falses = (counts - level_trues).tolist()
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
    (a, b), (c, d), (x, y) = first, second, third
    return (c - a) * (y - b) - (d - b) * (x - a)


# Below so many independent units, differences between kinds are chance: none is measured.
FEWEST_UNITS = 20
_CLIP = 1e-6


def _fit_platt(scores: Floats, outcomes: Floats) -> Calibrator:
    came_true = outcomes > 0.0
    return fit_platt(scores[came_true].tolist(), scores[~came_true].tolist())


# The simplest first: one number fitted, two, then tables.
_FITS: dict[str, Callable[[Floats, Floats], Calibrator]] = {
    "temperature": fit_temperature,
    "platt": _fit_platt,
    "isotonic": fit_isotonic,
    "venn_abers": fit_venn_abers,
}
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class CalibratorChoice:
    """The calibrator to use and how the kinds compared.

    Attributes:
        calibrator: of the chosen kind, fitted on all the data.
        kind: `identity`, `temperature`, `platt`, `isotonic` or `venn_abers`; `identity` too
            where the chosen kind finds nothing to fit.
        losses: mean log loss (nats) of each kind on folds that it was not fitted on; empty
            where nothing was measured.
        n: independent units (groups, or cases without groups).
        folds: parts of the cross-validation; 0 where there was none.
        reason: why this kind, in words.
    """

    calibrator: Calibrator
    kind: str
    losses: dict[str, float]
    n: int
    folds: int
    reason: str

    @classmethod
    def among(
        cls,
        scores: Numbers,
        outcomes: Outcomes,
        *,
        groups: Sequence[str] | None = None,
        seed: int = 0,
    ) -> CalibratorChoice:
        """The simplest kind whose cross-validated log loss is as good as the best, by chance.

        Every kind is fitted on all folds but one and judged on that one; a group never lies in
        two folds. The kind of smallest mean log loss sets the mark. The choice is the simplest
        kind (temperature, Platt, isotonic, Venn–Abers, in this order) whose loss is
        above it by no more than one standard error of the difference, taken pairwise over
        groups. Then it is fitted on all the data.

        Log loss is measured with probabilities held within [1e-6, 1 - 1e-6]. The temperature
        takes scores as probabilities: where a score lies outside [0, 1] it is left out.

        With fewer than 20 groups, or an outcome that only one group has, nothing can be
        compared: then the choice is Platt. Where an outcome is missing altogether the calibrator
        is the identity.

        Args:
            scores: finite raw scores or probabilities.
            outcomes: whether each case came true, as many.
            groups: cases of one group are no independent evidence; by default each is its own.
            seed: of the deal of groups to folds.

        Raises:
            ValueError: lengths differ, a score is NaN or infinite, or an outcome is neither true
                nor false.

        Source: the one-standard-error rule is from Breiman et al. 1984, Classification and
        regression trees.

        Example:
            >>> choice = CalibratorChoice.among([0.1, 0.9], [False, True])
            >>> choice.kind, choice.folds, choice.losses
            ('platt', 0, {})
        """
        numbers, came_true = scored_cases(scores, outcomes)
        unit = units_of(groups, len(numbers))
        n = int(unit.max(initial=-1)) + 1
        kind, losses, folds = "platt", dict[str, float](), 0
        reason = _why_nothing_is_compared(unit, came_true, n)
        if not reason:
            stated = bool(((numbers >= 0.0) & (numbers <= 1.0)).all())
            # The simplest first.
            suiting = [name for name in _FITS if stated or name != "temperature"]
            fold = deal_to_folds(unit, came_true, min(_FOLDS, n), seed)
            folds = int(fold.max()) + 1
            held_out = {
                name: _log_losses(_FITS[name], numbers, came_true, fold) for name in suiting
            }
            losses = {name: float(values.mean()) for name, values in held_out.items()}
            best = min(suiting, key=losses.__getitem__)
            for kind in suiting:
                error = clustered_standard_error(held_out[kind] - held_out[best], unit)
                if losses[kind] <= losses[best] + error:
                    break
            reason = "its log loss on held-out folds is smallest"
            if kind != best:
                reason = f"it is simpler than {best}, whose log loss is not smaller beyond chance"
        calibrator = _FITS[kind](numbers, came_true)
        if isinstance(calibrator, IdentityCalibrator):
            kind = "identity"
        return cls(calibrator, kind, losses, n, folds, reason)


def _why_nothing_is_compared(unit: NDArray[np.int64], outcomes: Floats, n: int) -> str:
    """Empty where there is enough to compare kinds."""
    if n < FEWEST_UNITS:
        return f"too few to compare kinds: {n} independent units of {FEWEST_UNITS}"
    for outcome, name in ((1.0, "true"), (0.0, "false")):
        having = len(np.unique(unit[outcomes == outcome]))
        if having < 2:
            return f"too few to compare kinds: {having} of {n} units with a {name} outcome"
    return ""


def _log_losses(
    fit: Callable[[Floats, Floats], Calibrator],
    scores: Floats,
    outcomes: Floats,
    fold: NDArray[np.int64],
) -> Floats:
    """Of each case, by a calibrator that saw none of the case's fold."""
    stated = np.zeros_like(scores)
    for part in np.unique(fold):
        held_out = fold == part
        calibrator = fit(scores[~held_out], outcomes[~held_out])
        stated[held_out] = [calibrator.apply(score) for score in scores[held_out].tolist()]
    given = np.clip(np.where(outcomes > 0.0, stated, 1 - stated), _CLIP, 1 - _CLIP)
    return np.asarray(-np.log(given))
