"""Operating points of the router, and paths of them from strict to lax."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ConflictRule = Literal["ignore", "abstain"]


@dataclass(frozen=True, slots=True)
class PathPoint:
    """Thresholds of the three routes.

    Attributes:
        relevance: follow the context from this relevance on; None: never.
        confidence: where the context does not pass, answer from memory from this
            confidence on; None: never.
        on_conflict: what a measured conflict does to a context that passes: nothing
            (`ignore`; conflict then need not be measured), or the guard abstains.
    """

    relevance: float | None
    confidence: float | None
    on_conflict: ConflictRule = "ignore"

    def __post_init__(self) -> None:
        for name in ("relevance", "confidence"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must be within [0, 1] or None, not {value}")
        if self.on_conflict not in ("ignore", "abstain"):
            raise ValueError(f"on_conflict must be 'ignore' or 'abstain', not {self.on_conflict!r}")

    @classmethod
    def grid(cls, relevance: Sequence[float], confidence: Sequence[float]) -> tuple[PathPoint, ...]:
        """All pairs of the thresholds, those with the larger sum first.

        Meant for comparing procedures; a path learned on separate data is sharper.

        Example:
            >>> [(p.relevance, p.confidence) for p in PathPoint.grid([0.2, 0.8], [0.5])]
            [(0.8, 0.5), (0.2, 0.5)]
        """
        pairs = [(r, p) for r in relevance for p in confidence]
        pairs.sort(key=lambda pair: (-math.fsum(pair), -pair[0]))
        return as_path(pairs)


Point = PathPoint | tuple[float | None, float | None]


def as_path(points: Iterable[Point]) -> tuple[PathPoint, ...]:
    """A path from points or bare (relevance, confidence) pairs.

    Raises:
        ValueError: no point, or one out of range.
    """
    found = tuple(point if isinstance(point, PathPoint) else _point(point) for point in points)
    if not found:
        raise ValueError("a path must have at least one point")
    return found


def _point(pair: object) -> PathPoint:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(f"a point is a PathPoint or a (relevance, confidence) pair, not {pair!r}")
    return PathPoint(pair[0], pair[1])


Floats = NDArray[np.float64]
_EDGE = 0.005
# A prior worth about one question: few data keep to "the signal is what it says".
_SLOPE_PRIOR, _SHIFT_PRIOR = 1.0, 0.3
_FLATTEST = 0.02


@dataclass(frozen=True, slots=True)
class CorrectnessModel:
    """P(right | signal s) = sigmoid(slope · logit(s) + shift); the signal itself by default."""

    slope: float = 1.0
    shift: float = 0.0

    def probability(self, signal: Floats) -> Floats:
        """Of being right, same shape; NaN (a failed signal) gives 0."""
        found = _sigmoid(self.slope * log_odds(signal) + self.shift)
        return np.where(np.isnan(signal), 0.0, found)

    def threshold(self, probability: float) -> float:
        """The signal from which on the probability of being right is at least this."""
        odds = math.log(probability / (1.0 - probability))
        place = (odds - self.shift) / self.slope
        found = 1.0 / (1.0 + math.exp(-min(40.0, max(-40.0, place))))
        # Beyond the clipped ends the model is flat: there the whole end passes, or none of it.
        if found > 1.0 - _EDGE:
            return 1.0
        return 0.0 if found < _EDGE else found


def fit_correctness(signal: Floats, right: Floats, weights: Floats) -> CorrectnessModel:
    """The two numbers that fit best, or the signal as it is where they gain too little.

    Gains are judged by Akaike's criterion, so that a signal which is calibrated already
    is left alone and noise in few questions does not bend it.

    Args:
        signal: in [0, 1] or NaN, shape (n,); NaN has no say.
        right: 1.0 or 0.0, shape (n,).
        weights: at least 0, shape (n,).
    """
    usable = ~np.isnan(signal) & (weights > 0.0)
    x, y, w = log_odds(signal[usable]), right[usable], weights[usable]
    if len(x) < 2:
        return CorrectnessModel()
    slope, shift = _newton(x, y, w)
    if _loss(x, y, w, slope, shift) + 2.0 >= _loss(x, y, w, 1.0, 0.0):
        return CorrectnessModel()
    if slope < _FLATTEST:
        # A signal that says nothing, or the contrary: nearly flat, at the right height.
        share = float((w @ y + 0.5) / (w.sum() + 1.0))
        centre = float((w @ x) / w.sum())
        return CorrectnessModel(_FLATTEST, float(np.log(share / (1 - share))) - _FLATTEST * centre)
    return CorrectnessModel(slope, shift)


def log_odds(probability: Floats) -> Floats:
    """Natural-log odds, of probabilities pulled away from 0 and 1."""
    inside = np.clip(probability, _EDGE, 1.0 - _EDGE)
    return np.asarray(np.log(inside / (1.0 - inside)))


def _newton(x: Floats, y: Floats, w: Floats) -> tuple[float, float]:
    """Penalised maximum likelihood by damped Newton steps."""
    place = np.asarray([1.0, 0.0])
    objective = _penalised(x, y, w, place)
    for _ in range(30):
        p = _sigmoid(place[0] * x + place[1])
        v = w * p * (1.0 - p)
        residual = w * (p - y)
        gradient = np.asarray(
            [
                residual @ x + _SLOPE_PRIOR * (place[0] - 1.0),
                residual.sum() + _SHIFT_PRIOR * place[1],
            ]
        )
        hessian = np.asarray([[v @ (x * x) + _SLOPE_PRIOR, v @ x], [v @ x, v.sum() + _SHIFT_PRIOR]])
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-6 and _penalised(x, y, w, place - size * step) > objective:
            size /= 2.0
        place = place - size * step
        before, objective = objective, _penalised(x, y, w, place)
        if before - objective < 1e-8:
            break
    return float(place[0]), float(place[1])


def _penalised(x: Floats, y: Floats, w: Floats, place: Floats) -> float:
    prior = _SLOPE_PRIOR * (place[0] - 1.0) ** 2 + _SHIFT_PRIOR * place[1] ** 2
    return _loss(x, y, w, float(place[0]), float(place[1])) + float(prior) / 2.0


def _loss(x: Floats, y: Floats, w: Floats, slope: float, shift: float) -> float:
    z = slope * x + shift
    return float(w @ (np.logaddexp(0.0, z) - y * z))


def _sigmoid(z: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z, -500.0, 500.0))))
