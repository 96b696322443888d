"""Recording and alert rules for Prometheus, over the metrics of guard and monitor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...guard.errors import InputError

# Reasons of decisions that a failure led to. A veto `x` fails with the reason `x_failed`.
FAILED = 'reason=~".+_failed|signal_failed_follows_context"'
ABSTENTION_RATIO = "knowgate:abstention_ratio:rate30m"
# Of a cascade of scorers: questions that reach the costly one, and its failures among these.
_COSTLY_RATIO = "knowgate:costly_ratio:rate30m"
_COSTLY_FAILURES = "knowgate:costly_failure_ratio:rate30m"
# How far the share of questions that reach it may lie outside the calibrated shares.
_COSTLY_MARGIN = 0.1
_ASKED = 'stage!="cheap"'
_BY = "by (job, guard)"
# The last bucket of the histogram that latencies are read from.
_MOST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class AlertLimits:
    """When the alerts fire.

    Attributes:
        latency: seconds that a share of `latency_quantile` of all decisions may take, at most 30.
        latency_quantile: in (0, 1).
        abstention_jump: change of the abstention ratio against the day before, in (0, 1).
        error_share: share of decisions that may be due to failures, in (0, 1).
        least_decisions: in half an hour, fewer of which raise no alarm about a ratio.
        risks: `all` or a route → promised bound on the share of wrong replies.
        fingerprint: of the policy that should be served; empty for any.
        costly: for the policy of a cascade of scorers, the lowest and the highest share of
            calibration questions that the costly one was asked about; None for any other.

    Raises:
        InputError: a limit is out of its range.
    """

    latency: float = 1.0
    latency_quantile: float = 0.95
    abstention_jump: float = 0.2
    error_share: float = 0.05
    least_decisions: int = 50
    risks: Mapping[str, float] = field(default_factory=dict)
    fingerprint: str = ""
    costly: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("latency_quantile", "abstention_jump", "error_share"):
            if not 0 < getattr(self, name) < 1:
                raise InputError("is not within (0, 1)", where=f"--{name.replace('_', '-')}")
        if not 0 < self.latency <= _MOST_SECONDS:
            raise InputError(
                "is not within (0, 30] seconds",
                where="--latency",
                hint="the histogram of latencies ends at 30 seconds",
            )
        if self.least_decisions < 1:
            raise InputError("must be at least 1", where="--least-decisions")

    @property
    def percentile(self) -> str:
        """The quantile as in `p95`."""
        return f"p{100 * self.latency_quantile:g}"


@dataclass(frozen=True, slots=True)
class _Alert:
    """One alert rule.

    Attributes:
        expr: what holds while the alert is active.
        lasts: how long it must hold.
        severity: `critical`, `warning` or `info`.
        summary: one line; may hold Prometheus' placeholders.
        description: what to do.
    """

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    description: str


def rules_text(limits: AlertLimits) -> str:
    """The rules as a YAML file."""
    lines = [
        "# Recording and alert rules for knowgate, written by `knowgate dashboards`.",
        "# Load the file under `rule_files` of prometheus.yml; check it with",
        "# `promtool check rules`.",
        "groups:",
        "  - name: knowgate-recording",
        "    rules:",
    ]
    for name, expr in _recorded(limits).items():
        lines += [f"      - record: {name}", *_expr(expr)]
    lines += ["  - name: knowgate-alerts", "    rules:"]
    for alert in _alerts(limits):
        lines += [f"      - alert: {alert.name}", *_expr(alert.expr)]
        lines += [
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            # JSON strings are YAML strings.
            f"          summary: {json.dumps(alert.summary, ensure_ascii=False)}",
            f"          description: {json.dumps(alert.description, ensure_ascii=False)}",
        ]
    return "\n".join(lines) + "\n"


def _expr(expr: str) -> list[str]:
    return ["        expr: |-", *(f"          {line}" for line in expr.split("\n"))]


def recorded_names(limits: AlertLimits) -> list[str]:
    """The names of the series that the recording rules write."""
    return list(_recorded(limits))


def _ratio(matcher: str, window: str) -> str:
    """The share of decisions that match; no sample without decisions."""
    series = "knowgate_decisions_total"
    return _share_of(f"{series}{{{matcher}}}", series, window)


def _stages(matcher: str, among: str) -> str:
    """The share of decisions of a cascade by stage; no sample without such decisions."""
    series = "knowgate_relevance_stages_total"
    return _share_of(f"{series}{{{matcher}}}", f"{series}{{{among}}}", "30m")


def _share_of(part: str, whole: str, window: str) -> str:
    every = f"sum {_BY} (rate({whole}[{window}]))"
    return f"(sum {_BY} (rate({part}[{window}]))\n  or 0 * {every})\n  / ({every} > 0)"


def _recorded(limits: AlertLimits) -> dict[str, str]:
    return {
        "knowgate:decisions:rate5m": f"sum {_BY} (rate(knowgate_decisions_total[5m]))",
        "knowgate:abstention_ratio:rate5m": _ratio('route="abstain"', "5m"),
        ABSTENTION_RATIO: _ratio('route="abstain"', "30m"),
        # The day before the last hour: a jump is not part of what it is compared with.
        "knowgate:abstention_ratio:avg1d": f"avg_over_time({ABSTENTION_RATIO}[1d] offset 1h)",
        "knowgate:error_ratio:rate5m": _ratio(FAILED, "5m"),
        "knowgate:decision_seconds:quantile5m": (
            f"histogram_quantile({limits.latency_quantile:g}, sum by (job, guard, le) "
            '(rate(knowgate_stage_seconds_bucket{stage="total"}[5m])))'
        ),
        _COSTLY_RATIO: _stages(_ASKED, ""),
        _COSTLY_FAILURES: _stages('stage="fallback"', _ASKED),
    }


def _alerts(limits: AlertLimits) -> list[_Alert]:
    enough = f"sum {_BY} (increase(knowgate_decisions_total[30m])) >= {limits.least_decisions}"
    return [
        _Alert(
            "KnowgateAbstentionJump",
            f"abs({ABSTENTION_RATIO} - knowgate:abstention_ratio:avg1d) "
            f"> {limits.abstention_jump:g}\n  and {enough}",
            "10m",
            "warning",
            "Guard {{ $labels.guard }} abstains much more or less often than on the day before.",
            "The ratio changed by {{ $value | humanizePercentage }}. Look at the reasons of the "
            "abstentions, at knowgate_errors_total and at the index that is searched.",
        ),
        _Alert(
            "KnowgateErrorRouteShare",
            f"knowgate:error_ratio:rate5m > {limits.error_share:g}\n  and {enough}",
            "5m",
            "critical",
            "Decisions of guard {{ $labels.guard }} are due to failures.",
            "{{ $value | humanizePercentage }} of the decisions have a reason that a failed "
            "signal, veto or retrieval led to. knowgate_errors_total says which, and how.",
        ),
        _Alert(
            "KnowgateLatencyBudget",
            f"knowgate:decision_seconds:quantile5m > {limits.latency:g}\n  and {enough}",
            "10m",
            "warning",
            f"Guard {{{{ $labels.guard }}}} takes longer than its budget of {limits.latency:g} s.",
            f"{limits.percentile} of the decisions is {{{{ $value | humanizeDuration }}}}. Look at "
            "knowgate_stage_seconds by stage and at knowgate_queue_depth.",
        ),
        *_cascade_alerts(limits),
        *_monitor_alerts(limits),
        *_state_alerts(limits),
    ]


def _cascade_alerts(limits: AlertLimits) -> list[_Alert]:
    def enough(matcher: str) -> str:
        asked = f"increase(knowgate_relevance_stages_total{{{matcher}}}[30m])"
        return f"sum {_BY} ({asked}) >= {limits.least_decisions}"

    failed = _Alert(
        "KnowgateCostlyScorerFails",
        f"{_COSTLY_FAILURES} > {limits.error_share:g}\n  and {enough(_ASKED)}",
        "10m",
        "warning",
        "The costly scorer of guard {{ $labels.guard }} fails.",
        "{{ $value | humanizePercentage }} of the questions that it was asked about were decided "
        "by the fallback: the policy then follows the cheap scorer or abstains. Look at its "
        "service, its rate limits and its deadline.",
    )
    if limits.costly is None:
        return [failed]
    low, high = limits.costly
    least, most = max(0.0, low - _COSTLY_MARGIN), min(1.0, high + _COSTLY_MARGIN)
    return [
        failed,
        _Alert(
            "KnowgateCostlyScorerShare",
            f"({_COSTLY_RATIO} < {least:.4g} or {_COSTLY_RATIO} > {most:.4g})\n  and {enough('')}",
            "10m",
            "warning",
            "The costly scorer of guard {{ $labels.guard }} is asked more or less often than in "
            "calibration.",
            "It is asked about {{ $value | humanizePercentage }} of the questions; in calibration "
            f"it was {low:.0%} to {high:.0%}. Calls cost accordingly, and the questions may have "
            "drifted: see `knowgate drift`.",
        ),
    ]


def _monitor_alerts(limits: AlertLimits) -> list[_Alert]:
    crossed = ['knowgate_alarm{kind=~"risk|risk_rise"} == 1']
    crossed += [
        f'knowgate_risk{{route="{route}", bound="low"}} > {bound:g}'
        for route, bound in limits.risks.items()
    ]
    return [
        _Alert(
            "KnowgateDrift",
            'knowgate_alarm{kind=~"relevance_drift|confidence_drift|asked_drift"} == 1',
            "5m",
            "warning",
            "Live traffic no longer looks like the calibration questions ({{ $labels.kind }}).",
            "The guarantee holds for questions like those of the calibration. Find out what "
            "changed, then run `knowgate recalibrate` on newer questions.",
        ),
        _Alert(
            "KnowgateAbstentionChanged",
            'knowgate_alarm{kind="abstention"} == 1',
            "0s",
            "warning",
            "The monitor found a change of the abstention rate against its baseline.",
            "Look at drift and failures first. `monitor.reset(risk=False)` ends the alarm after "
            "its cause was fixed.",
        ),
        _Alert(
            "KnowgateRiskBoundCrossed",
            "\n  or ".join(crossed),
            "0s",
            "critical",
            "More replies are wrong than the policy promises.",
            "Serve by a stricter policy or in shadow mode at once, then recalibrate.",
        ),
        _Alert(
            "KnowgateMonitorFails",
            "delta(knowgate_monitor_failures[15m]) > 0",
            "0s",
            "warning",
            "The monitor cannot make its report.",
            "Alarms about drift and risk are missing until it can; the log names the error.",
        ),
    ]


def _state_alerts(limits: AlertLimits) -> list[_Alert]:
    responses = "sum by (job) (rate(knowgate_http_responses_total{}[5m]))"
    overload = responses.replace("{}", '{status=~"429|503"}')
    alerts = [
        _Alert(
            "KnowgateOverload",
            f"{overload}\n  / {responses.replace('{}', '')} > {limits.error_share:g}",
            "5m",
            "warning",
            "The service {{ $labels.job }} rejects requests.",
            "{{ $value | humanizePercentage }} of the responses are 429 or 503. Start more "
            "workers, or raise the limits of `knowgate serve`.",
        ),
        _Alert(
            "KnowgateUncalibrated",
            'max by (job, guard, calibrated) (knowgate_policy_info{calibrated!="true"}) == 1',
            "15m",
            "info",
            "Guard {{ $labels.guard }} serves by a policy without a guarantee.",
            "The policy was written by hand, chosen for costs, changed after its calibration, or "
            "calibrated on questions that programs made (calibrated={{ $labels.calibrated }}). "
            "`knowgate calibrate` on questions of people makes one.",
        ),
        _Alert(
            "KnowgateDeviceLost",
            'knowgate_device_events_total{event="device_lost"} > 0',
            "0s",
            "warning",
            "{{ $labels.instance }} has lost a device; the CPU computes in its place.",
            "A lost device does not come back before the process is restarted.",
        ),
    ]
    if limits.fingerprint:
        alerts.append(
            _Alert(
                "KnowgateOtherPolicy",
                f'knowgate_policy_info{{fingerprint!="{limits.fingerprint}"}} == 1',
                "15m",
                "warning",
                "Guard {{ $labels.guard }} serves by another policy than these rules speak of.",
                "It serves by {{ $labels.fingerprint }}, the rules were written for "
                f"{limits.fingerprint}. Write them anew with `knowgate dashboards --policy`.",
            )
        )
    return alerts
