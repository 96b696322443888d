"""Choosing among calibrations and editing what was certified get nobody past the bound."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tools.attack.certificates import ATTEMPTS, DELTA, SCORERS, attacks, best_of, best_scorer

DRAWS = 200


@pytest.mark.slow
def test_the_best_of_twenty_calibrations_keeps_its_promise_where_they_are_counted() -> None:
    noise = 2 * math.sqrt(DELTA * (1 - DELTA) / DRAWS)

    assert best_of(1, DRAWS, counted=False) / DRAWS <= DELTA + noise
    # What counting is for: choosing freely among splits breaks the bound far too often.
    assert best_of(ATTEMPTS, DRAWS, counted=False) / DRAWS > 0.3
    assert best_of(ATTEMPTS, DRAWS, counted=True) / DRAWS <= DELTA + noise


@pytest.mark.slow
def test_scorers_that_do_not_share_delta_break_the_bound() -> None:
    # Those that share it are among the attacks below.
    assert best_scorer(SCORERS, 40, shared=False) / 40 > 1.5 * DELTA


@pytest.mark.slow
def test_the_attacks_hold(tmp_path: Path) -> None:
    for outcome in attacks(tmp_path, False):
        assert outcome.held, outcome
