"""Records as columns, and the routes and losses of many operating points at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...guard import ConflictBetween, Route
from .._calibration_record import CalibrationRecord
from ._loss import LossTable
from ._path import PathPoint

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
ROUTE_CODES = (Route.ABSTAIN, Route.FOLLOW_CONTEXT, Route.ANSWER)
_ABSTAIN, _FOLLOW, _ANSWER = range(3)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Columns of shape (records,); a signal that failed is NaN.

    Attributes:
        relevance: in [0, 1] or NaN.
        confidence: likewise.
        conflict: 1.0, 0.0, or NaN where it was not measured.
        context_right: False where it is not known.
        closed_book_right: likewise.
    """

    relevance: Floats
    confidence: Floats
    conflict: Floats
    context_right: Bools
    closed_book_right: Bools

    @classmethod
    def of(cls, records: Sequence[CalibrationRecord]) -> Evidence:
        """The columns of `records`, in their order."""
        return cls(
            relevance=_column([r.relevance for r in records]),
            confidence=_column([r.confidence for r in records]),
            conflict=_column([r.conflict for r in records]),
            context_right=np.asarray([r.context_right is True for r in records], dtype=np.bool_),
            closed_book_right=np.asarray(
                [r.closed_book_right is True for r in records], dtype=np.bool_
            ),
        )

    def __len__(self) -> int:
        return len(self.relevance)


def route_codes(
    evidence: Evidence,
    points: Sequence[PathPoint],
    *,
    conflict_between: ConflictBetween = "memory",
) -> NDArray[np.int8]:
    """Indices into `ROUTE_CODES`, exactly as policies with these thresholds route.

    Args:
        evidence: n records.
        points: thresholds of p policies.
        conflict_between: as in `Policy`: a conflict with memory counts only where memory
            is confident.

    Returns:
        Shape (p, n).
    """
    may_follow = np.asarray([point.relevance is not None for point in points])[:, None]
    # Comparisons with NaN are False, so a failed signal passes no threshold.
    follow = evidence.relevance >= _thresholds([point.relevance for point in points])
    confident = evidence.confidence >= _thresholds([point.confidence for point in points])
    answer = ~follow & confident & (~np.isnan(evidence.relevance) | ~may_follow)
    checks = np.asarray([point.on_conflict == "abstain" for point in points])[:, None]
    if checks.any():
        stopped = evidence.conflict != 0.0  # NaN: it failed, and the guard abstains
        if conflict_between == "memory":
            stopped = stopped & confident
        if conflict_between != "passages":
            stopped = stopped | np.isnan(evidence.confidence)
        codes = np.where(follow, np.where(checks & stopped, _ABSTAIN, _FOLLOW), _ABSTAIN)
    else:
        codes = np.where(follow, _FOLLOW, _ABSTAIN)
    return np.asarray(np.where(answer, _ANSWER, codes), dtype=np.int8)


def _thresholds(values: Sequence[float | None]) -> Floats:
    return np.asarray([math.inf if value is None else value for value in values])[:, None]


def let_through_wrongly(evidence: Evidence, codes: NDArray[np.int8]) -> Bools:
    """Whether each record is let through to a wrong answer, the shape of `codes`."""
    return np.asarray(
        ((codes == _FOLLOW) & ~evidence.context_right)
        | ((codes == _ANSWER) & ~evidence.closed_book_right)
    )


def answerable(evidence: Evidence, points: Sequence[PathPoint]) -> Bools:
    """Whether a route that each point leaves open would have been right, shape (p, n)."""
    may_follow = np.asarray([point.relevance is not None for point in points])[:, None]
    may_answer = np.asarray([point.confidence is not None for point in points])[:, None]
    return np.asarray(
        (may_follow & evidence.context_right) | (may_answer & evidence.closed_book_right)
    )


def costs(
    evidence: Evidence, codes: NDArray[np.int8], points: Sequence[PathPoint], losses: LossTable
) -> Floats:
    """Cost of each record in [0, 1], the shape of `codes`."""
    found = np.zeros(codes.shape, dtype=np.float64)
    found[(codes == _FOLLOW) & ~evidence.context_right] = losses.wrong_follow
    found[(codes == _ANSWER) & ~evidence.closed_book_right] = losses.wrong_answer
    found[(codes == _ABSTAIN) & answerable(evidence, points)] = losses.false_abstention
    return found


def _column(values: Sequence[float | bool | None]) -> Floats:
    return np.asarray([math.nan if v is None else float(v) for v in values], dtype=np.float64)
