"""Fitting the temperature that makes stated probabilities as sure as they may be."""

from __future__ import annotations

import numpy as np

from ..guard import Calibrator, IdentityCalibrator, TemperatureCalibrator
from ._case_arrays import Numbers, Outcomes, stated_cases


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
        outcome, which no temperature above zero can mend.

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
    from scipy.optimize import brentq

    upper = 1.0
    while slope(upper) < 0.0:
        upper *= 2
    sharpness = brentq(slope, 0.0, upper, xtol=1e-300, rtol=1e-12)
    return TemperatureCalibrator(temperature=largest / float(sharpness))
