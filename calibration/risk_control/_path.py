"""Operating points of the router, and paths of them from strict to lax."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

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


def diagonal_path(steps: int = 49, *, answer: bool = True) -> tuple[PathPoint, ...]:
    """Equal thresholds for both signals, from strict to lax: right where both are calibrated.

    Args:
        steps: points, evenly spaced within (0, 1).
        answer: False closes the route from memory.

    Example:
        >>> [point.relevance for point in diagonal_path(3)]
        [0.75, 0.5, 0.25]
    """
    if steps < 1:
        raise ValueError(f"there must be a step, not {steps}")
    places = [1.0 - step / (steps + 1) for step in range(1, steps + 1)]
    return tuple(PathPoint(t, t if answer else None) for t in places)


def grid_path(relevance: Sequence[float], confidence: Sequence[float]) -> tuple[PathPoint, ...]:
    """All pairs of the thresholds, those with the larger sum first.

    Meant for comparing procedures; a path learned on separate data is sharper.

    Example:
        >>> [(p.relevance, p.confidence) for p in grid_path([0.2, 0.8], [0.5])]
        [(0.8, 0.5), (0.2, 0.5)]
    """
    pairs = [(r, p) for r in relevance for p in confidence]
    pairs.sort(key=lambda pair: (-math.fsum(pair), -pair[0]))
    return as_path(pairs)
