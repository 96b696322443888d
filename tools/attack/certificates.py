"""Attacks on certificates: choosing among calibrations, and editing what was certified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak, PolicyBinding, fit_policy
from knowgate.guard import Guarantee, InputError, Policy, Route

from .outcome import Outcome

RISK, DELTA = 0.2, 0.1
ATTEMPTS = 20
SCORERS = 5
_PASSAGES = 60
_QUESTIONS = 300
_SHARE_TESTED = 0.6
_THRESHOLDS = np.linspace(0.99, 0.01, 99)


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Make all attacks of this module."""
    del folder
    draws = 2000 if full else 400
    for attempts, counted in ((1, True), (ATTEMPTS, True)):
        broken = best_of(attempts, draws, counted=counted)
        # δ, and what a simulation of so many draws may be off by.
        wanted = int(draws * DELTA + 2 * np.sqrt(draws * DELTA * (1 - DELTA)))
        yield Outcome(
            f"the best of {attempts} calibrations breaks its bound", draws, broken, wanted
        )
    for candidates in (1, SCORERS):
        broken = best_scorer(candidates, draws // 4, shared=True)
        yield Outcome(
            f"the laxest of {candidates} scorers calibrated together breaks its bound",
            draws // 4,
            broken,
            int(draws / 4 * DELTA + 2 * np.sqrt(draws / 4 * DELTA * (1 - DELTA))),
        )
    yield edits(full=full)


def best_scorer(candidates: int, draws: int, *, shared: bool, seed: int = 0) -> int:
    """Calibrate several scorers on one sample, and keep the one with the laxest threshold.

    Scorers are alike, and say nothing. Their values of a question whose source was left out are
    uniform, so that the share that passes a threshold t is 1 − t.

    Args:
        candidates: scorers.
        draws: samples.
        shared: whether they share δ, as `knowgate calibrate --or-run` makes them; otherwise each
            is tested at δ.
        seed: of the draws.

    Returns:
        On how many samples the kept threshold lets more pass than the bound allows.
    """
    from scipy.special import ndtr

    rng = np.random.default_rng(seed)
    binding = PolicyBinding(candidates=candidates if shared else 1)
    broken = 0
    for _ in range(draws):
        common, own = rng.normal(size=_PASSAGES), rng.normal(size=(candidates, _PASSAGES))
        kept = 1.0
        for values in ndtr((common + 2 * own) / 5**0.5).tolist():
            records = [
                record
                for i, value in enumerate(values)
                for record in CalibrationRecord.leave_one_out_pair(f"q{i}", 1.0, value)
            ]
            policy = fit_policy(records, Leak(RISK), delta=DELTA, binding=binding).policy
            kept = min(kept, _lowest_passing(policy))
        broken += 1.0 - kept > RISK
    return broken


def _lowest_passing(policy: Policy) -> float:
    """The lowest value in [0, 1] that passes; 1.0 where none does."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        passes = policy.route(policy.relevance_calibrator.apply(middle), None)
        low, high = (low, middle) if passes is Route.FOLLOW_CONTEXT else (middle, high)
    return high


def best_of(attempts: int, draws: int, *, counted: bool, seed: int = 0) -> int:
    """Calibrate one sample again and again by other splits, and keep the laxest threshold.

    Relevance says nothing, and answers are wrong a little more often than the bound allows, so
    that every certificate is false. Each attempt tests a fixed path of thresholds on a random
    part of the sample, as calibration does with a part of the questions.

    Args:
        attempts: on each sample.
        draws: samples.
        counted: whether attempts share δ, as `knowgate calibrate` makes them; otherwise each is
            tested at δ.
        seed: of the draws.

    Returns:
        On how many samples some attempt was certified.
    """
    rng = np.random.default_rng(seed)
    broken = 0
    for _ in range(draws):
        relevance = rng.random(_QUESTIONS)
        wrong = rng.random(_QUESTIONS) < RISK + 1e-6
        kept = 1.0
        for attempt in range(1, attempts + 1):
            part = rng.random(_QUESTIONS) < _SHARE_TESTED
            level = Guarantee.level_of(DELTA, attempt if counted else None)
            kept = min(kept, _laxest(relevance[part], wrong[part], level))
        broken += kept < 1.0
    return broken


def _laxest(relevance: NDArray[np.float64], wrong: NDArray[np.bool_], level: float) -> float:
    """The laxest threshold that fixed-sequence testing certifies; 1.0 where none is."""
    from scipy.special import bdtr

    order = np.argsort(-relevance)
    passing = np.searchsorted(-relevance[order], -_THRESHOLDS, side="right")
    errors = np.concatenate([[0], np.cumsum(wrong[order])])[passing]
    p_values = np.where(passing > 0, bdtr(errors, passing, RISK), 1.0)
    # Testing begins where enough are let through to certify anything.
    enough = passing > np.log(level) / np.log1p(-RISK)
    tested = _THRESHOLDS[enough][: int(np.argmin(np.append(p_values[enough] <= level, False)))]
    return float(tested[-1]) if len(tested) else 1.0


def edits(*, full: bool) -> Outcome:
    """Change every number of a certified policy, one after another, and load it."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(200 if full else 60, 2)) + np.asarray([2.0, 0.0])
    records = [
        record
        for i, (there, missing) in enumerate(scores.tolist())
        for record in CalibrationRecord.leave_one_out_pair(f"q{i}", there, missing)
    ]
    policy = fit_policy(records, Leak(RISK), delta=DELTA).policy
    stored = json.loads(policy.to_json())
    tried, through = 0, []
    for path in _numbers(stored):
        changed = json.loads(policy.to_json())
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = place[path[-1]] * 0.9 if place[path[-1]] else 0.1
        tried += 1
        try:
            found = Policy.parse(changed, where="policy.json")
        except InputError:
            continue
        if found != policy:
            through.append("/".join(map(str, path)))
    return Outcome(
        "a number of a certified policy is edited", tried, len(through), 0, tuple(through)
    )


def _numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _numbers(inner, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path
