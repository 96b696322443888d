"""What a monitor has to say, for people and for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from prometheus_client.core import GaugeMetricFamily
from pydantic_core import to_jsonable_python

from ...guard.files import table_beside
from .. import Interval
from ._streams import Direction, RateChange, RateChangeDetector, RiskMonitor
from .drift import SIGNALS, DriftReport

_LOG_TEN = math.log(10)


@dataclass(frozen=True, slots=True)
class AbstentionState:
    """How often the guard abstains, and whether that has changed.

    Attributes:
        rate: over the same decisions as the drift, with Wilson's 95 % interval.
        baseline: the range of rates that counts as unchanged; None while it is learned.
        log10_evidence: direction → evidence of a change; an alarm where their mean
            reaches `run_length`.
        run_length: decisions between false alarms, on average at least.
        change: the alarm, None where there is none.
    """

    rate: Interval
    baseline: tuple[float, float] | None
    log10_evidence: Mapping[Direction, float]
    run_length: float
    change: RateChange | None

    @classmethod
    def of(
        cls, rate: Interval, detector: RateChangeDetector | None, run_length: float
    ) -> AbstentionState:
        """What `detector` says now; None while its baseline is learned."""
        if detector is None:
            return cls(rate, None, {}, run_length, None)
        directions = get_args(Direction)
        evidence = {name: detector.log_evidence(name) / _LOG_TEN for name in directions}
        return cls(rate, (detector.low, detector.high), evidence, run_length, detector.alarm)


@dataclass(frozen=True, slots=True)
class MonitorReport:
    """Everything a monitor knows.

    Attributes:
        decisions: observed so far.
        window: decisions of a block.
        complete: whether drift and abstention rate speak of a whole block, the last
            one; if not, of the first decisions, of which there are fewer.
        drift: per signal, against calibration.
        abstention: rate and change.
        risks: `all` and the routes that let through → monitor as of then; empty where no risk
            is watched.
    """

    decisions: int
    window: int
    complete: bool
    drift: DriftReport
    abstention: AbstentionState
    risks: Mapping[str, RiskMonitor] = field(default_factory=dict)

    @property
    def risk_rise(self) -> RateChange | None:
        """The first of the risks' alarms of a rise; None where there is none."""
        rises = (state.rise for state in self.risks.values())
        return next((rise.alarm for rise in rises if rise and rise.alarm), None)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Kinds: `relevance_drift`, `confidence_drift`, `abstention`, `risk`, `risk_rise`.

        For the policy of a cascade also `asked_drift`.

        `risk` and `risk_rise` are of what the guarantee speaks of: all routes together, or each.
        """
        found = [
            f"{signal.signal}_drift"
            for signal in self.drift.signals
            if self.complete and signal.verdict == "drifted"
        ]
        if self.abstention.change is not None:
            found.append("abstention")
        if any(state.alarm and state.promised for state in self.risks.values()):
            found.append("risk")
        if self.risk_rise is not None:
            found.append("risk_rise")
        return tuple(found)

    @property
    def words(self) -> str:
        """The report as lines of text."""
        lines = [signal.words for signal in self.drift.signals]
        lines.append(_abstention_words(self.abstention))
        lines += [
            _risk_words(route, state)
            for route, state in self.risks.items()
            if route == "all" or state.estimate.n
        ]
        lines += [
            f"ALARM: the {_risk_name(route)} has risen above its bound, probably after label "
            f"{state.rise.alarm.began_after} (seen at {state.rise.alarm.seen_at})."
            for route, state in self.risks.items()
            if state.rise and state.rise.alarm
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        found: dict[str, Any] = to_jsonable_python(replace(self, risks={}))
        names = ("risk", "delta", "estimate", "labels", "alarm", "alarmed_at", "promised")
        further = {
            "alarms": self.alarms,
            "drift": self.drift.to_dict(),
            "risks": {
                route: {
                    **{name: getattr(state, name) for name in names},
                    "log10_evidence": state.log_evidence / _LOG_TEN,
                    "rise": state.rise and state.rise.alarm,
                }
                for route, state in self.risks.items()
            },
            "risk_rise": self.risk_rise,
        }
        return {**found, **to_jsonable_python(further)}


def _abstention_words(state: AbstentionState) -> str:
    rate = state.rate
    if rate.value is None or rate.low is None or rate.high is None:
        return "abstention: no decisions yet."
    words = f"abstention: {rate.value:.1%} ({rate.low:.1%} to {rate.high:.1%})"
    if state.baseline is None:
        return words + "; no baseline yet."
    low, high = state.baseline
    words += f", baseline {low:.1%} to {high:.1%}; "
    if state.change is None:
        return words + "no change seen."
    went = "risen" if state.change.direction == "up" else "fallen"
    return words + (
        f"it has {went}, probably after decision {state.change.began_after} (seen at "
        f"{state.change.seen_at})."
    )


def _risk_name(route: str) -> str:
    return "risk" if route == "all" else f"risk of {route}"


def _risk_words(route: str, state: RiskMonitor) -> str:
    name = _risk_name(route)
    estimate = state.estimate
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return f"{name}: no feedback yet."
    bound = f"the bound of {state.risk:.1%}"
    verdict = f"neither above nor below {bound} for certain."
    if state.alarm:
        verdict = f"ALARM: {bound} is exceeded."
    elif estimate.high <= state.risk:
        verdict = f"{bound} is kept."
    return (
        f"{name}: {estimate.value:.1%} wrong of {estimate.n} "
        f"({estimate.low:.1%} to {estimate.high:.1%}, valid at all times); {verdict}"
    )


ALARMS = (*(f"{signal}_drift" for signal in SIGNALS), "abstention", "risk", "risk_rise")
_FAMILIES: dict[str, dict[str, Any]] = table_beside(__file__, "metrics.toml")


def metric_families(report: MonitorReport | None = None) -> dict[str, GaugeMetricFamily]:
    """The gauges of a report by their names, none with samples without one.

    What is undefined has no sample.
    """
    families = {
        name: GaugeMetricFamily(name, one["words"], labels=one["labels"])
        for name, one in _FAMILIES.items()
    }
    if report is None:
        return families
    for signal in report.drift.signals:
        if signal.psi is not None and signal.ks is not None:
            estimate, without = [signal.signal, "estimate"], signal.psi.without_drift
            _add(families["knowgate_drift_psi"], estimate, signal.psi.value)
            _add(families["knowgate_drift_ks"], estimate, signal.ks.value)
            _add(families["knowgate_drift_psi_without_drift"], [signal.signal], without)
        _add(families["knowgate_drift_p_value"], [signal.signal], signal.p_value)
        _add(families["knowgate_drift_values"], [signal.signal], signal.n)
    _add_interval(families["knowgate_abstention_rate"], [], report.abstention.rate)
    for direction, evidence in report.abstention.log10_evidence.items():
        _add(families["knowgate_abstention_change_evidence_log10"], [direction], evidence)
    for route, state in report.risks.items():
        _add_interval(families["knowgate_risk"], [route], state.estimate)
        _add(families["knowgate_risk_target"], [route], state.risk)
        _add(families["knowgate_risk_labels"], [route], state.labels)
        _add(families["knowgate_risk_evidence_log10"], [route], state.log_evidence / _LOG_TEN)
        _add(families["knowgate_risk_alarm"], [route], float(state.alarm))
    # Of a cascade also whether its costly scorer is asked as often.
    for kind in dict.fromkeys((*ALARMS, *(f"{s.signal}_drift" for s in report.drift.signals))):
        _add(families["knowgate_alarm"], [kind], float(kind in report.alarms))
    return families


def _add(family: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _add_interval(family: GaugeMetricFamily, labels: list[str], interval: Interval) -> None:
    ends = {"low": interval.low, "estimate": interval.value, "high": interval.high}
    for bound, value in ends.items():
        _add(family, [*labels, bound], value)
