"""Fitting the logistic curve from raw scores to probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..guard import Calibrator, IdentityCalibrator, PlattCalibrator


def fit_platt(positives: Sequence[float], negatives: Sequence[float]) -> Calibrator:
    """Logistic regression of "positive" on the score, with Platt's smoothed targets.

    The targets (N₊+1)/(N₊+2) and 1/(N₋+2) keep the curve finite where the scores
    separate the two kinds perfectly. A score that does not rise with the label
    cannot be calibrated without turning its order round: then, and where either
    kind is missing, the identity is returned.

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
    # On a common scale, so that the nearly vanishing penalty means the same for any scorer.
    centre, spread = float(scores.mean()), float(scores.std())
    if spread == 0.0:
        return IdentityCalibrator()
    scaled = (scores - centre) / spread
    # A soft target is one case of each label, weighted.
    model: Any = LogisticRegression(C=1e4, max_iter=1000).fit(
        np.concatenate([scaled, scaled])[:, None],
        np.concatenate([np.ones_like(scores), np.zeros_like(scores)]),
        sample_weight=np.concatenate([targets, 1 - targets]),
    )
    slope = float(model.coef_[0, 0]) / spread
    if slope <= 0:
        return IdentityCalibrator()
    return PlattCalibrator(a=slope, b=float(model.intercept_[0]) - slope * centre)
