"""Mean squared distance of stated probabilities from what came true."""

from __future__ import annotations

import numpy as np

from ._case_arrays import Numbers, Outcomes, stated_cases


def brier_score(probabilities: Numbers, outcomes: Outcomes) -> float | None:
    """Mean of (probability - outcome)²: 0 at best; .25 for saying one half throughout.

    It rewards both calibration and telling cases apart.

    Returns:
        A number in [0, 1]; None without cases.

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
            neither true nor false.

    Source: Brier 1950, Verification of forecasts expressed in terms of probability.

    Example:
        >>> brier_score([1.0, 0.5], [True, False])
        0.125
    """
    stated, came_true = stated_cases(probabilities, outcomes)
    return float(np.mean((stated - came_true) ** 2)) if len(stated) else None
