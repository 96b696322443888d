"""The Venn–Abers table against its definition, a peer, and on degenerate scores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from knowgate.calibration.calibrators import fit_venn_abers


def _by_definition(scores: list[float], outcomes: list[bool], score: float) -> float:
    """Two isotonic regressions, each with one case more."""
    low, high = (
        IsotonicRegression()
        .fit([*scores, score], [*map(float, outcomes), float(added)])
        .predict([score])[0]
        for added in (False, True)
    )
    return float(high / (1 - low + high))


def test_it_is_the_definition_at_scores_between_them_and_beyond() -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 40))
        scores = (rng.integers(0, 14, n) / 10).tolist()
        outcomes = [True, False, *(rng.random(n - 2) < np.asarray(scores[2:])).tolist()]
        distinct = sorted(set(scores))
        between = [(a + b) / 2 for a, b in itertools.pairwise(distinct)]

        found = fit_venn_abers(scores, outcomes)

        for score in [*distinct, *between, distinct[0] - 1, distinct[-1] + 1]:
            assert found.apply(score) == pytest.approx(
                _by_definition(scores, outcomes, score), abs=1e-12
            )


def test_it_agrees_with_the_peer() -> None:
    # venn-abers 1.5.4, VennAbers().fit(cal, y).predict_proba(test)[0][:, 1].
    scores = [(17 * i * i + 5 * i) % 101 / 100 for i in range(40)]
    outcomes = [score + 7 * i % 10 / 10 > 0.95 for i, score in enumerate(scores)]
    peer = {
        0.0: 0.090909090909,
        0.055: 0.111111111111,
        0.13: 0.166666666667,
        0.2: 0.333333333333,
        0.333: 0.495412844037,
        0.41: 0.545454545455,
        0.5: 0.72,
        0.58: 0.75,
        0.66: 0.75,
        0.75: 0.818181818182,
        0.81: 0.833333333333,
        0.905: 0.875,
        1.0: 0.941176470588,
    }

    found = fit_venn_abers(scores, outcomes)

    assert {score: found.apply(score) for score in peer} == pytest.approx(peer, abs=1e-11)
