"""Attacks on certificates: choosing among calibrations, and editing what was certified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak, fit_policy
from knowgate.calibration.risk.fit import PolicyBinding
from knowgate.guard import Guarantee, InputError, Policy, Route
from knowgate.offline_eval.policies import Calibrated, calibrate_records
from knowgate.offline_eval.policies.records import CalibrationSet

from .outcome import Outcome

Numbers = NDArray[np.float64]

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
    draws = 2000 if full else 200
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
    # Each calibration takes seconds; the documentation has these figures from more draws.
    draws = 60 if full else 20
    for groups, each in ((30, 20), (100, 10)) if full else ((30, 20),):
        for rho in (0.0, 0.3, 0.7, 1.0) if full else (0.3, 1.0):
            broken = selective_by_group(groups, each, rho, draws)
            what = f"{groups} documents of {each} questions, correlation {rho:g}"
            yield Outcome(f"wrong answers of {what}: breaks its bound", draws, broken, most(draws))
    for kind in ("clustered", "duplicated", "tied", "noisy") if full else ():
        yield Outcome(
            f"a leak of {kind} records breaks its bound",
            draws,
            unkind_leaks(kind, draws),
            most(draws),
        )
    for passages, each in ((30, 1), (40, 1), (80, 1), (300, 1), (30, 5)) if full else ():
        draws = 60 if passages < 300 else 20
        for kind, missed in missed_intervals(passages, each, draws).items():
            name = f"the 95 % interval of {kind}, {passages} passages of {each}, misses the truth"
            yield Outcome(name, draws, missed, most(draws, 0.07))


def most(draws: int, share: float = DELTA, deviations: float = 2.0) -> int:
    """That share, and what a simulation of so many draws may be off by."""
    return int(draws * share + deviations * np.sqrt(draws * share * (1 - share)))


def selective_by_group(groups: int, each: int, rho: float, draws: int, *, seed: int = 0) -> int:
    """Calibrate wrong answers on documents whose questions go alike, by the public path.

    Relevance says nothing and answers are wrong a little more often than the bound allows, so that
    every certificate is false.

    Args:
        groups: documents.
        each: questions of each.
        rho: latent correlation of two questions on one document.
        draws: samples.
        seed: of the draws.

    Returns:
        On how many samples something was certified.
    """
    from scipy.special import ndtri

    rng, broken = np.random.default_rng([seed, groups, each]), 0
    for _ in range(draws):
        alike = rng.normal(size=(groups, 1)) * rho**0.5
        wrong = alike + (1 - rho) ** 0.5 * rng.normal(size=(groups, each)) < ndtri(RISK + 1e-6)
        relevance = rng.random((groups, each))
        records = tuple(
            CalibrationRecord(
                f"q{i}-{j}", float(relevance[i, j]), None, not wrong[i, j], None, group=f"d{i}"
            )
            for i, j in np.ndindex(groups, each)
        )
        found = calibrate_records(CalibrationSet(records, "drawn"), RISK, delta=DELTA)
        broken += found.policy.guarantee is not None and found.policy.guarantee.certified
    return broken


def unkind_leaks(kind: str, draws: int, *, passages: int = 30, seed: int = 0) -> int:
    """Calibrate a leak by the public path on records that a checker would not like.

    Args:
        kind: `clustered`, `duplicated` (each three times), `tied` (five values) or `noisy` (what is
            measured is off, a tenth fails, and a fifth of the sources is not retrieved).
        draws: samples.
        passages: with four questions each.
        seed: of the draws.

    Returns:
        On how many samples more than the bound passes the threshold.
    """
    rng, broken = np.random.default_rng([seed, passages]), 0
    truth = _unkind(kind, 200_000, np.random.default_rng(1))[1].ravel()
    for _ in range(draws):
        policy = _leak_policy(kind, *_unkind(kind, passages, rng), rng)
        broken += float((truth >= _lowest_passing(policy, 10.0)).mean()) > RISK
    return broken


def _unkind(kind: str, passages: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Relevance with the source in place and left out, of four questions on each passage."""
    shared = rng.normal(size=(passages, 1))
    in_kb, left_out = (
        0.7**0.5 * shared + 0.3**0.5 * rng.normal(size=(passages, 4)) for _ in range(2)
    )
    in_kb = in_kb + 2.0
    if kind == "tied":
        return np.round(in_kb), np.round(left_out)
    if kind == "noisy":
        noise = rng.standard_t(2, size=(2, passages, 4))
        return in_kb + noise[0], left_out + noise[1]
    return in_kb, left_out


def _leak_policy(kind: str, in_kb: Numbers, left_out: Numbers, rng: np.random.Generator) -> Policy:
    records: list[CalibrationRecord] = []
    for i, j in np.ndindex(left_out.shape):
        there: float | None = float(in_kb[i, j])
        missing: float | None = float(left_out[i, j])
        if kind == "noisy":
            there = there if rng.random() < 0.8 else None
            missing = missing if rng.random() < 0.9 else None
        for copy in range(3 if kind == "duplicated" else 1):
            name = f"q{i}-{j}-{copy}"
            records += CalibrationRecord.leave_one_out_pair(name, there, missing, group=f"p{i}")
    return _calibrated(records).policy


def _calibrated(records: list[CalibrationRecord]) -> Calibrated:
    measured = CalibrationSet(tuple(records), "drawn", leaves_out=True)
    return calibrate_records(measured, Leak(RISK), delta=DELTA)


def missed_intervals(passages: int, each: int, draws: int, *, seed: int = 0) -> dict[str, int]:
    """Calibrate a leak, and compare its reported rates with those of the policy it wrote.

    Scores of answerable questions are two standard deviations higher than those of left-out ones,
    with a correlation of .5 within a passage.

    Args:
        passages: of the calibration.
        each: questions of each passage.
        draws: samples.
        seed: of the draws.

    Returns:
        By rate, on how many samples its interval does not hold the true one.
    """
    from scipy.special import ndtr

    rng = np.random.default_rng([seed, passages, each])
    missed = {"false abstention": 0, "left-out abstention": 0}
    for _ in range(draws):
        shared = rng.normal(size=(passages, each)) + (
            rng.normal(size=(passages, 1)) if each > 1 else 0
        )
        in_kb, left_out = (
            (shared / (2 if each > 1 else 1) ** 0.5 + rng.normal(size=shared.shape)) / 2**0.5
            for _ in range(2)
        )
        records = [
            record
            for i, j in np.ndindex(passages, each)
            for record in CalibrationRecord.leave_one_out_pair(
                f"q{i}-{j}", float(in_kb[i, j]) + 2.0, float(left_out[i, j]), group=f"p{i}"
            )
        ]
        found = _calibrated(records)
        rates, raw = found.leak_rates, _lowest_passing(found.policy, 10.0)
        assert rates is not None
        truths = (rates.false_abstention, ndtr(raw - 2.0)), (rates.left_out_abstention, ndtr(raw))
        for name, (interval, truth) in zip(missed, truths, strict=True):
            assert interval.low is not None
            assert interval.high is not None
            missed[name] += not interval.low <= truth <= interval.high
    return missed


def best_scorer(candidates: int, draws: int, *, shared: bool, seed: int = 0) -> int:
    """Calibrate several scorers on one sample, and keep the one with the laxest threshold.

    Scorers are alike, and say nothing. Their values of a question whose source was left out are
    uniform, so that the share that passes a threshold t is 1 − t.

    Args:
        candidates: scorers.
        draws: samples.
        shared: whether they share δ, as `knowgate calibrate` with several runs makes them;
            otherwise each is tested at δ.
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


def _lowest_passing(policy: Policy, most: float = 1.0) -> float:
    """The lowest value up to `most` that passes, from its negative on; `most` where none does."""
    low, high = -most, most
    for _ in range(60):
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


def certified(*, full: bool) -> Policy:
    """A policy with a guarantee on a leak."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(200 if full else 60, 2)) + np.asarray([2.0, 0.0])
    records = [
        record
        for i, (there, missing) in enumerate(scores.tolist())
        for record in CalibrationRecord.leave_one_out_pair(f"q{i}", there, missing)
    ]
    return fit_policy(records, Leak(RISK), delta=DELTA).policy


def edits(*, full: bool) -> Outcome:
    """Change every number of a certified policy, one after another, and load it."""
    policy = certified(full=full)
    stored = json.loads(policy.to_json())
    tried, through = 0, []
    for path in numbers(stored):
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


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where numbers stand in JSON, as keys and places."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from numbers(inner, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path
