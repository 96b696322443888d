"""Bands within which a cheap value may settle a question."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knowgate.calibration import fit_cascade_bands
from knowgate.calibration.statistics import binomial_p_value


def test_bands_reach_as_far_as_the_errors_allow() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=2000)
    labels = rng.uniform(size=2000) < 1 / (1 + np.exp(-15 * (scores - 0.5)))
    bands = fit_cascade_bands(scores.tolist(), labels.tolist())
    assert bands.accept is not None
    assert bands.reject is not None
    # The mean error above .562 is five per cent, and as much below .438.
    assert 0.562 < bands.accept < 0.75
    assert 0.25 < bands.reject < 0.438
    assert bands.accepted == int(np.sum(scores >= bands.accept))
    assert binomial_p_value(bands.accepted_wrongly, bands.accepted, 0.05) <= 0.1
    assert binomial_p_value(bands.rejected_wrongly, bands.rejected, 0.05) <= 0.1


def test_bands_that_would_overlap_meet_halfway() -> None:
    scores = [at / 400 for at in range(1, 400)]
    bands = fit_cascade_bands(scores, [s > 0.5 for s in scores], accept_risk=0.2, reject_risk=0.2)
    assert bands.accept is not None
    assert bands.reject is not None
    assert 0.45 < bands.reject < bands.accept < 0.55


@pytest.mark.slow
def test_the_bound_holds_as_often_as_promised() -> None:
    rng, broken = np.random.default_rng(3), 0
    for _ in range(200):
        scores = rng.uniform(size=400)
        labels = rng.uniform(size=400) < scores**0.5
        bands = fit_cascade_bands(scores.tolist(), labels.tolist(), accept_risk=0.1, delta=0.1)
        if bands.accept is not None:
            # Mean of 1 - √s over s in [accept, 1].
            accept = bands.accept
            true = 1 - (2 / 3) * (1 - accept**1.5) / (1 - accept)
            broken += true > 0.1
    assert broken <= 200 * 0.1 + 3 * math.sqrt(200 * 0.1 * 0.9)
