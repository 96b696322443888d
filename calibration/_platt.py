"""Fitting the logistic curve from raw scores to probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..guard import Calibrator, IdentityCalibrator, PlattCalibrator


def fit_platt(positives: Sequence[float], negatives: Sequence[float]) -> Calibrator:
    """Logistic regression of "positive" on the score, with Platt's smoothed targets.

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
    from sklearn.linear_model import LogisticRegression

    high = (len(positives) + 1) / (len(positives) + 2)
    low = 1 / (len(negatives) + 2)
    scores = np.asarray([*positives, *negatives], dtype=np.float64)
    targets = np.asarray([high] * len(positives) + [low] * len(negatives))
    lowest, width = float(scores.min()), float(scores.max()) - float(scores.min())
    if width == 0.0 or not math.isfinite(width):
        return IdentityCalibrator()
    # On a common scale, so that the nearly vanishing penalty means the same for any scorer. By
    # way of [0, 1], where neither the mean nor the squares can overflow or vanish.
    unit = (scores - lowest) / width
    centre, spread = float(unit.mean()), float(unit.std())
    scaled = (unit - centre) / spread
    # A soft target is one case of each label, weighted.
    model: Any = LogisticRegression(C=1e4, max_iter=1000).fit(
        np.concatenate([scaled, scaled])[:, None],
        np.concatenate([np.ones_like(scores), np.zeros_like(scores)]),
        sample_weight=np.concatenate([targets, 1 - targets]),
    )
    slope = float(model.coef_[0, 0]) / spread
    a = slope / width
    b = float(model.intercept_[0]) - slope * centre - a * lowest
    if not (0.0 < a < math.inf and math.isfinite(b)):
        return IdentityCalibrator()
    return PlattCalibrator(a=a, b=b)
