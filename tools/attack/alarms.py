"""Alarms of drift, abstention and risk where nothing has changed, by the public path.

Policies are calibrated on drawn records, and live decisions are drawn from the same distributions:
whatever is called drift is a false alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.monitoring import DecisionMonitor
from knowgate.calibration.monitoring.drift import DriftReport
from knowgate.calibration.risk import Leak
from knowgate.guard import Decision, Policy, Reason, Route
from knowgate.offline_eval.policies import calibrate_records
from knowgate.offline_eval.policies.records import CalibrationSet

from .certificates import DELTA, most
from .outcome import Outcome

Numbers = NDArray[np.float64]

_ALPHA = 0.05
_QUESTIONS, _LIVE = 300, 1000
_RISK = 0.2


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Draw calibrations and traffic of each kind, and count false alarms."""
    del folder
    draws = 40 if full else 8
    cases = [(kind, 0.3) for kind in KINDS] + [("plain", 0.0), ("plain", 1.0)]
    for kind, share in cases if full else cases[:1]:
        name = f"{kind} values, {share:.0%} with their answer: called drift"
        found = false_drift(kind, share, draws)
        # Three deviations: of seven such rows one exceeds two by chance, one run in four.
        yield Outcome(name, draws, found, most(draws, _ALPHA, deviations=3.0))
    draws = 400 if full else 60
    yield Outcome(
        "replies that are wrong as often as promised: alarm of the risk",
        draws,
        false_risk(draws),
        most(draws, DELTA),
    )


def _plain(rng: np.random.Generator, size: int) -> tuple[Numbers, Numbers]:
    return rng.normal(2.0, 1.0, size), rng.normal(0.0, 1.0, size)


def _tied(rng: np.random.Generator, size: int) -> tuple[Numbers, Numbers]:
    there, missing = _plain(rng, size)
    return np.round(there), np.round(missing)


def _constant(rng: np.random.Generator, size: int) -> tuple[Numbers, Numbers]:
    """Nine of ten values are the same, as where nothing is retrieved."""
    there, missing = _plain(rng, size)
    return there, np.where(rng.random(size) < 0.9, -3.0, missing)


def _heavy(rng: np.random.Generator, size: int) -> tuple[Numbers, Numbers]:
    return 2.0 + rng.standard_t(1, size), rng.standard_t(1, size)


def _alike(rng: np.random.Generator, size: int) -> tuple[Numbers, Numbers]:
    """Relevance says nothing: any share explains the live values."""
    return rng.normal(size=size), rng.normal(size=size)


KINDS: dict[str, Callable[[np.random.Generator, int], tuple[Numbers, Numbers]]] = {
    "plain": _plain,
    "tied": _tied,
    "constant": _constant,
    "heavy-tailed": _heavy,
    "uninformative": _alike,
}


def false_drift(kind: str, share: float, draws: int, *, seed: int = 0) -> int:
    """Calibrate, then judge live decisions; of `share` the answer is in the knowledge base.

    Returns:
        On how many samples drift is seen.
    """
    rng, seen = np.random.default_rng([seed, int(100 * share)]), 0
    for number in range(draws):
        policy = _policy(*KINDS[kind](rng, _QUESTIONS))
        there, missing = KINDS[kind](rng, _LIVE)
        live = np.where(rng.random(_LIVE) < share, there, missing)
        report = DriftReport.of(policy, _decisions(policy, live), alpha=_ALPHA, seed=number)
        seen += any(one.verdict in ("drifted", "slight drift") for one in report.signals)
    return seen


def _policy(there: Numbers, missing: Numbers) -> Policy:
    records = [
        record
        for number, values in enumerate(zip(there.tolist(), missing.tolist(), strict=True))
        for record in CalibrationRecord.leave_one_out_pair(f"q{number}", *values)
    ]
    measured = CalibrationSet(tuple(records), "drawn", leaves_out=True)
    return calibrate_records(measured, Leak(_RISK), delta=DELTA).policy


def _decisions(policy: Policy, live: Numbers) -> Iterator[Decision]:
    for raw in live.tolist():
        relevance = policy.relevance_calibrator.apply(raw)
        route = policy.route(relevance, None)
        follows = route is Route.FOLLOW_CONTEXT
        reason = Reason.SUFFICIENT_CONTEXT if follows else Reason.INSUFFICIENT_CONTEXT
        yield Decision(route=route, reason=reason, relevance=relevance)


def false_risk(draws: int, *, replies: int = 2000, seed: int = 0) -> int:
    """Report replies that are wrong as often as the bound allows, and no more.

    Returns:
        On how many samples the risk is ever called too high.
    """
    rng, seen = np.random.default_rng(seed), 0
    policy = _policy(*_plain(rng, _QUESTIONS))
    for _ in range(draws):
        monitor = DecisionMonitor(policy, risk=_RISK, delta=DELTA, metrics=False)
        for right in (rng.random(replies) >= _RISK).tolist():
            monitor.feedback(Route.FOLLOW_CONTEXT, right)
        seen += monitor.report().risks["all"].alarm
    return seen
