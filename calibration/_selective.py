"""Risk against coverage as a threshold moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One threshold and what it would do.

    Attributes:
        threshold: pass from this score on (inclusive).
        coverage: share of cases that may pass and do.
        risk: share of cases that must not pass and do.
    """

    threshold: float
    coverage: float
    risk: float


def risk_coverage_curve(
    may_pass: Sequence[float], must_not_pass: Sequence[float]
) -> list[OperatingPoint]:
    """Operating points at every distinct score, the strictest first.

    Empty where either kind is missing.

    Raises:
        ValueError: a score is NaN.

    Example:
        >>> [(p.coverage, p.risk) for p in risk_coverage_curve([0.9, 0.4], [0.5])]
        [(0.5, 0.0), (0.5, 1.0), (1.0, 1.0)]
    """
    if not len(may_pass) or not len(must_not_pass):
        return []
    good = np.sort(np.asarray(may_pass, dtype=np.float64))
    bad = np.sort(np.asarray(must_not_pass, dtype=np.float64))
    if np.isnan(good).any() or np.isnan(bad).any():
        raise ValueError("scores must not be NaN")
    thresholds = np.unique(np.concatenate([good, bad]))[::-1]
    coverage = 1 - np.searchsorted(good, thresholds, side="left") / len(good)
    risk = 1 - np.searchsorted(bad, thresholds, side="left") / len(bad)
    return [
        OperatingPoint(float(t), float(c), float(r))
        for t, c, r in zip(thresholds, coverage, risk, strict=True)
    ]
