"""The dashboard for Grafana, over the metrics of guard and monitor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._alert_rules import FAILED, AlertLimits

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_GUARD = 'job=~"$job", guard=~"$guard"'
# Metrics of the process and of the monitor have no guard.
_JOB = 'job=~"$job"'
_WINDOW = "[$__rate_interval]"
_WIDTH, _HEIGHT = 24, 8
_TITLE_HEIGHT = 1


@dataclass(frozen=True, slots=True)
class _Panel:
    """One panel.

    Attributes:
        description: shown beside the title: what is seen, and what to look for.
        queries: legend → expression.
        unit: Grafana's name of the unit.
        width: of 24 columns.
        kind: Grafana's name of the panel.
        options: Grafana's options of the panel.
        stacked: whether values add up.
        limits: values drawn as lines: beyond each it gets worse.
        format: `table` or `heatmap` for panels that are no series over time.
        most: the largest value of the axis; None for no limit.
    """

    title: str
    description: str
    queries: dict[str, str]
    unit: str
    width: int = 12
    kind: str = "timeseries"
    options: dict[str, Any] | None = None
    stacked: bool = False
    limits: Sequence[float] = ()
    format: str = "time_series"
    most: float | None = None


def dashboard(limits: AlertLimits) -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in (
        ("Decisions", _decisions()),
        ("What is promised", _promise(limits)),
        ("Latency and failures", _latency(limits)),
        ("Cascade of scorers", _cascade(limits)),
        ("Signals, caches and queues", _machinery()),
        ("HTTP service", _service()),
    ):
        panels.append(_row(title, top, len(panels) + 1))
        left, top = 0, top + _TITLE_HEIGHT
        for panel in row:
            if left + panel.width > _WIDTH:
                left, top = 0, top + _HEIGHT
            panels.append(_panel(panel, left, top, len(panels) + 1))
            left += panel.width
        top += _HEIGHT
    return {
        "uid": "knowgate",
        "title": "knowgate",
        "description": "Decisions, promised risk, drift, latency and failures of guards.",
        "tags": ["knowgate", "rag"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "timepicker": {},
        "annotations": {"list": [_alerts_shown()]},
        "links": [],
        "templating": {"list": [_data_source(), _variable("job"), _variable("guard")]},
        "panels": panels,
    }


def _rate(metric: str, by: str, labels: str = _GUARD) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}{_WINDOW}))"


def _share(matcher: str, by: str = "") -> str:
    decided = f"sum (rate(knowgate_decisions_total{{{_GUARD}}}{_WINDOW}))"
    matching = f"rate(knowgate_decisions_total{{{_GUARD}, {matcher}}}{_WINDOW})"
    if by:
        return f"sum by ({by}) ({matching}) / ignoring ({by}) group_left () ({decided} > 0)"
    return f"(sum ({matching}) or 0 * {decided}) / ({decided} > 0)"


def _decisions() -> list[_Panel]:
    return [
        _Panel(
            "Policy",
            "The policy that each guard serves by: the first digits of the digest of its file, "
            "whether it is calibrated (or chosen for costs, or changed since), and the promised "
            "bound α at error probability δ.",
            {
                "": "max by (guard, fingerprint, calibrated, alpha, delta) "
                f"(knowgate_policy_info{{{_GUARD}}}) == 1"
            },
            "none",
            kind="table",
            format="table",
        ),
        _Panel(
            "Age of the policy",
            "Since the file of the policy was written; empty for policies that were not loaded "
            "from a file. Questions change: an old calibration promises less and less.",
            {
                "{{guard}}": "time() - min by (guard) "
                f"(knowgate_policy_written_timestamp_seconds{{{_GUARD}}})"
            },
            "s",
            width=6,
            kind="stat",
        ),
        _Panel(
            "Abstention rate",
            "Share of decisions to abstain, over the interval of the graph.",
            {"abstained": _share('route="abstain"')},
            "percentunit",
            width=6,
            kind="stat",
            most=1,
        ),
        *_decisions_over_time(),
    ]


def _decisions_over_time() -> list[_Panel]:
    return [
        _Panel(
            "Abstention rate by reason",
            "Share of all decisions that abstained for each reason. One reason that grows tells "
            "where to look: nothing_retrieved at the index, *_failed at the failures.",
            {"{{reason}}": _share('route="abstain"', "reason")},
            "percentunit",
            stacked=True,
            most=1,
        ),
        _Panel(
            "Decisions by route",
            "Decisions per second; those in shadow mode change nothing.",
            {"{{route}} ({{mode}})": _rate("knowgate_decisions_total", "route, mode")},
            "reqps",
            stacked=True,
        ),
        _Panel(
            "Relevance",
            "Calibrated probability that the passages suffice, as a distribution over time. A "
            "distribution that moves is drift.",
            {"{{le}}": _rate("knowgate_relevance_bucket", "le")},
            "short",
            kind="heatmap",
            format="heatmap",
        ),
        _Panel(
            "Confidence",
            "Calibrated probability that the answer without passages is right, as a distribution "
            "over time. It is measured only where the decision depends on it.",
            {"{{le}}": _rate("knowgate_confidence_bucket", "le")},
            "short",
            kind="heatmap",
            format="heatmap",
        ),
    ]


def _promise(limits: AlertLimits) -> list[_Panel]:
    return [
        _Panel(
            "Risk against its bound",
            "Share of wrong replies by the feedback given to the monitor, with bounds that are "
            "valid at all times, and the promised bound. The promise is broken where the lower "
            "bound is above it.",
            {
                "{{route}}: {{bound}}": f"knowgate_risk{{{_JOB}}}",
                "{{route}}: promised": f"knowgate_risk_target{{{_JOB}}}",
            },
            "percentunit",
            limits=sorted(set(limits.risks.values())),
        ),
        _Panel(
            "Alarms of the monitor",
            "1 from the moment at which the monitor raised an alarm until it is reset.",
            {"{{kind}}": f"max by (kind) (knowgate_alarm{{{_JOB}}})"},
            "bool",
            kind="state-timeline",
            width=6,
        ),
        _Panel(
            "Feedback",
            "Labelled replies. Few labels leave the bounds of the risk wide.",
            {"{{route}}": f"sum by (route) (knowgate_risk_labels{{{_JOB}}})"},
            "short",
            width=6,
        ),
        _Panel(
            "Drift",
            "Population stability index of live signals against calibration, with what chance "
            "alone gives at these sample sizes.",
            {
                "{{signal}}": f'max by (signal) (knowgate_drift_psi{{{_JOB}, bound="estimate"}})',
                "{{signal}}: by chance": "max by (signal) "
                f"(knowgate_drift_psi_without_drift{{{_JOB}}})",
            },
            "short",
        ),
        _Panel(
            "Retrieval unlike in calibration",
            "Questions per second with more passages than in calibration (k) or much longer ones "
            "(format), for which the policy promises nothing, and with passages whose end the "
            "scorer does not read (unread).",
            {"{{what}}": _rate("knowgate_retrieval_mismatches_total", "what")},
            "reqps",
        ),
    ]


def _latency(limits: AlertLimits) -> list[_Panel]:
    total = f'knowgate_stage_seconds_bucket{{{_GUARD}, stage="total"}}'
    by_stage = f"knowgate_stage_seconds_bucket{{{_GUARD}}}"
    share = limits.latency_quantile
    return [
        _Panel(
            "Latency of decisions",
            f"Seconds per decision. The line is the budget of {limits.latency:g} s for "
            f"{limits.percentile}.",
            {
                f"p{100 * quantile:g}": f"histogram_quantile({quantile:g}, "
                f"sum by (le) (rate({total}{_WINDOW})))"
                for quantile in sorted({0.5, share, 0.99})
            },
            "s",
            limits=[limits.latency],
        ),
        _Panel(
            f"Latency by stage, {limits.percentile}",
            "Which signal takes the time.",
            {
                "{{stage}}": f"histogram_quantile({share:g}, "
                f"sum by (le, stage) (rate({by_stage}{_WINDOW})))"
            },
            "s",
        ),
        _Panel(
            "Failures by signal",
            "Measurements per second that failed, by signal and kind of failure, and calls of "
            "observers that raised.",
            {
                "{{signal}}: {{kind}}": _rate("knowgate_errors_total", "signal, kind"),
                "observer of {{guard}}": _rate("knowgate_observer_errors_total", "guard"),
            },
            "reqps",
            stacked=True,
        ),
        _Panel(
            "Decisions due to failures",
            "Share of decisions whose reason is a failure; the line is the limit of the alert.",
            {"failed": _share(FAILED)},
            "percentunit",
            width=6,
            limits=[limits.error_share],
            most=1,
        ),
        _Panel(
            "Vetoes",
            "Vetoes measured per second, by what they led to.",
            {"{{veto}}: {{outcome}}": _rate("knowgate_vetoes_total", "veto, outcome")},
            "reqps",
            width=6,
        ),
    ]


def _cascade(limits: AlertLimits) -> list[_Panel]:
    stages = "knowgate_relevance_stages_total"

    def total(matcher: str) -> str:
        return f"sum (rate({stages}{{{_GUARD}{matcher}}}{_WINDOW}))"

    def share(part: str, whole: str) -> str:
        return f"({total(part)} or 0 * {total(whole)}) / ({total(whole)} > 0)"

    calibrated = ""
    if limits.costly is not None:
        low, high = (f"{100 * one:.0f}" for one in limits.costly)
        calibrated = f" The lines are the calibrated shares, {low} and {high} %."
    return [
        _Panel(
            "Decisions by stage",
            "Decisions per second by the stage that their relevance rests on: the cheap scorer "
            "alone, the verdict of the costly one, or the fallback where that one failed. Empty "
            "unless the policy is of a cascade.",
            {"{{stage}}": _rate(stages, "stage")},
            "reqps",
            stacked=True,
        ),
        _Panel(
            "Costly scorer asked",
            "Share of the questions that reach the costly scorer; the others are saved calls."
            + calibrated,
            {"asked": share(', stage!="cheap"', "")},
            "percentunit",
            width=6,
            limits=sorted(set(limits.costly or ())),
            most=1,
        ),
        _Panel(
            "Costly scorer failed",
            "Of the questions that reached it, the share without a verdict, decided by the "
            "fallback of the policy; the line is the limit of the alert.",
            {"failed": share(', stage="fallback"', ', stage!="cheap"')},
            "percentunit",
            width=6,
            limits=[limits.error_share],
            most=1,
        ),
    ]


def _machinery() -> list[_Panel]:
    lookups = _rate("knowgate_cache_lookups_total", "cache", _JOB)
    hits = _rate("knowgate_cache_lookups_total", "cache", f'{_JOB}, result="hit"')
    return [
        _Panel(
            "Samples for confidence",
            "Answers per second that were drawn from the language model, and those that stopping "
            "early saved.",
            {"{{outcome}}": _rate("knowgate_samples_total", "outcome")},
            "cps",
            width=8,
            stacked=True,
        ),
        _Panel(
            "Cache hits",
            "Share of lookups that a cache answered.",
            {"{{cache}}": f"({hits} or 0 * {lookups}) / ({lookups} > 0)"},
            "percentunit",
            width=8,
            most=1,
        ),
        _Panel(
            "Queues",
            "Rows that wait for a device, calls that wait for a thread, and calls that hold a "
            "thread although nobody waits for them. Numbers that stay high mean overload.",
            {"{{queue}}": f"sum by (queue) (knowgate_queue_depth{{{_JOB}}})"},
            "short",
            width=8,
        ),
        _Panel(
            "Events of devices",
            "What devices did in place of computing their batches; all are rare in good health.",
            {
                "{{event}}": _rate(
                    "knowgate_device_events_total", "event", f'{_JOB}, event!~"batch|row"'
                )
            },
            "cps",
        ),
        _Panel(
            "Rows per batch",
            "How many rows the queue hands to a device at once.",
            {
                "rows": _rate("knowgate_device_events_total", "job", f'{_JOB}, event="row"')
                + " / "
                + _rate("knowgate_device_events_total", "job", f'{_JOB}, event="batch"')
            },
            "short",
            width=6,
        ),
        _Panel(
            "Messages of conversations",
            "Messages per second, by what was done with them.",
            {"{{turn}}": _rate("knowgate_conversation_turns_total", "turn")},
            "reqps",
            width=6,
        ),
    ]


def _service() -> list[_Panel]:
    return [
        _Panel(
            "Responses",
            "Responses of `knowgate serve` per second, by endpoint and status. 429 and 503 mean "
            "overload.",
            {
                "{{endpoint}} {{status}}": _rate(
                    "knowgate_http_responses_total", "endpoint, status", _JOB
                )
            },
            "reqps",
            stacked=True,
        ),
        _Panel(
            "Requests under way",
            "Requests that the service works on, and requests that wait.",
            {"{{state}}": f"sum by (state) (knowgate_http_requests{{{_JOB}}})"},
            "short",
        ),
    ]


def _row(title: str, top: int, number: int) -> dict[str, Any]:
    place = {"h": _TITLE_HEIGHT, "w": _WIDTH, "x": 0, "y": top}
    return {
        "id": number, "type": "row", "title": title, "gridPos": place, "collapsed": False,
        "panels": [],
    }  # fmt: skip


def _panel(panel: _Panel, left: int, top: int, number: int) -> dict[str, Any]:
    custom: dict[str, Any] = {}
    if panel.kind == "timeseries":
        custom = {
            "drawStyle": "line",
            "fillOpacity": 30 if panel.stacked else 0,
            "lineWidth": 1,
            "showPoints": "auto",
            "stacking": {"group": "A", "mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "line" if panel.limits else "off"},
        }
    if panel.kind == "table":
        custom = {"align": "auto", "inspect": False}
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    steps += [{"color": "red", "value": limit} for limit in panel.limits]
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "color": {"mode": "palette-classic"},
        "custom": custom,
        "mappings": [],
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.most is not None:
        defaults["max"] = panel.most
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": panel.width, "x": left, "y": top},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _OPTIONS[panel.kind],
        "transformations": _TRANSFORMATIONS.get(panel.kind, []),
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _SOURCE,
                "expr": expr,
                "legendFormat": legend,
                "format": panel.format,
                "instant": panel.format == "table",
                "range": panel.format != "table",
            }
            for place, (legend, expr) in enumerate(panel.queries.items())
        ],
    }


_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
        "orientation": "auto",
        "justifyMode": "auto",
    },
    "state-timeline": {
        "mergeValues": True,
        "showValue": "never",
        "rowHeight": 0.9,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    },
    "heatmap": {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "steps": 64,
            "fill": "dark-orange",
            "exponent": 0.5,
            "reverse": False,
        },
        "showValue": "never",
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "yAxis": {"axisPlacement": "left", "unit": "percentunit"},
        "tooltip": {"mode": "single", "yHistogram": False},
        "legend": {"show": True},
    },
    "table": {"showHeader": True, "cellHeight": "sm", "frameIndex": 0},
}
_TRANSFORMATIONS: dict[str, list[dict[str, Any]]] = {
    "table": [
        {
            "id": "organize",
            "options": {"excludeByName": {"Time": True, "Value": True}, "indexByName": {}},
        }
    ],
}


def _data_source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "options": [],
        "refresh": 1,
    }


def _variable(label: str) -> dict[str, Any]:
    query = f"label_values(knowgate_decisions_total, {label})"
    return {
        "name": label,
        "label": label.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": query,
        "hide": 0,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
        "refresh": 2,
        "sort": 1,
    }


def _alerts_shown() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": _SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Knowgate.+", alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "step": "60s",
    }
