"""Each alert fires on the series that it is for, and on no others; checked by promtool."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from knowgate.guard.artefacts import Histogram
from knowgate.offline_eval.cli._dashboards import AlertLimits, render_dashboards
from tests.calibration.monitoring.populations import GUARANTEE
from tests.support.guards import policy_with
from tests.support.prometheus import needs_promtool, promtool

# The policy of a cascade that asked the costly scorer 20 to 30 % of the calibration questions.
POLICY = policy_with(
    guarantee=GUARANTEE,
    histograms={
        f"asked.{case}": Histogram(edges=(0.0, 0.5, 1.0), counts=counts)
        for case, counts in (("in_kb", (70, 30)), ("left_out", (80, 20)))
    },
).sealed()
FINGERPRINT = POLICY.sha256[:12]
RULES = render_dashboards(AlertLimits(), POLICY)[1]
_MINUTES = 240
Series = dict[str, str]


def series(metric: str, values: str, **labels: str) -> Series:
    """One value a minute; the job is set later."""
    matcher = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    return {"series": f"{metric}{{{matcher}}}", "values": values}


def decisions(route: str, reason: str, values: str) -> Series:
    labels = {"route": route, "reason": reason, "mode": "enforce", "scenario": "unknown"}
    return series("knowgate_decisions_total", values, guard="default", **labels)


def buckets(fast: str, slow: str) -> list[Series]:
    ends = {"0.5": fast, "1.0": fast, "2.5": slow, "+Inf": slow}
    labels = {"guard": "default", "stage": "total"}
    name = "knowgate_stage_seconds_bucket"
    return [series(name, values, **labels, le=le) for le, values in ends.items()]


def alarm(kind: str, values: str) -> list[Series]:
    return [series("knowgate_alarm", values, kind=kind)]


def policy(values: str, fingerprint: str = FINGERPRINT, calibrated: str = "true") -> Series:
    labels = {"guard": "default", "fingerprint": fingerprint, "calibrated": calibrated}
    return series("knowgate_policy_info", values, **labels)


def risk(bound: str, values: str) -> Series:
    return series("knowgate_risk", values, route="all", bound=bound)


def responses(status: str, values: str) -> Series:
    labels = {"endpoint": "/v1/decide", "status": status}
    return series("knowgate_http_responses_total", values, **labels)


def stages(cheap: str, costly: str, fallback: str = "0x240") -> list[Series]:
    counts = {"cheap": cheap, "costly": costly, "fallback": fallback}
    name = "knowgate_relevance_stages_total"
    return [series(name, counts[stage], guard="default", stage=stage) for stage in counts]


def replies(unsupported: str) -> list[Series]:
    """Twenty a minute are checked."""
    return [
        series("knowgate_support_count", "0+20x240", guard="default"),
        series("knowgate_unsupported_total", unsupported, guard="default", action="mark"),
    ]


FOLLOWED = decisions("follow_context", "sufficient_context", "0+16x240")
# Alert → what it fires on, what it does not fire on.
SERIES: dict[str, tuple[list[Series], list[Series]]] = {
    "KnowgateAbstentionJump": (
        [FOLLOWED, decisions("abstain", "insufficient_context", "0+4x180 720+64x60")],
        [FOLLOWED, decisions("abstain", "insufficient_context", "0+4x180 720+5x60")],
    ),
    "KnowgateErrorRouteShare": (
        [FOLLOWED, decisions("abstain", "relevance_failed", "0+1.6x240")],
        [FOLLOWED, decisions("abstain", "relevance_failed", "0+0.16x240")],
    ),
    "KnowgateLatencyBudget": (
        [FOLLOWED, *buckets("0+14x240", "0+16x240")],
        [FOLLOWED, *buckets("0+15.8x240", "0+16x240")],
    ),
    "KnowgateCostlyScorerFails": (
        stages("0+8x240", "0+3.5x240", "0+0.5x240"),
        stages("0+8x240", "0+3.9x240", "0+0.1x240"),
    ),
    "KnowgateDrift": (alarm("asked_drift", "0x200 1x40"), alarm("relevance_drift", "0x240")),
    "KnowgateAbstentionChanged": (alarm("abstention", "0x200 1x40"), alarm("abstention", "0x240")),
    "KnowgateRiskBoundCrossed": (
        [risk("low", "0.09x200 0.11x40")],
        [risk("low", "0.09x240"), risk("estimate", "0.2x240")],
    ),
    "KnowgateMonitorFails": (
        [series("knowgate_monitor_failures", "0x230 0+1x10")],
        [series("knowgate_monitor_failures", "3x240")],
    ),
    "KnowgateUnsupportedReplies": (replies("0+4x240"), replies("0+1x240")),
    "KnowgateUncalibrated": ([policy("1x240", calibrated="false")], [policy("1x240")]),
    "KnowgateOverload": (
        [responses("200", "0+9x240"), responses("429", "0+1x240")],
        [responses("200", "0+9x240"), responses("500", "0+1x240")],
    ),
    # A policy with 0 is the one before, which is not served any more.
    "KnowgateOtherPolicy": ([policy("1x240", "another")], [policy("0x240", "another")]),
}


def in_job(job: str, given: list[Series]) -> list[Series]:
    return [{**one, "series": one["series"].replace("{", f'{{job="{job}", ', 1)} for one in given]


def alerts() -> set[str]:
    lines = RULES.split("\n")
    return {line.split(": ")[1] for line in lines if line.startswith("      - alert: ")}


def test_every_alert_has_series_that_it_fires_on() -> None:
    assert set(SERIES) == alerts()


@needs_promtool
def test_each_alert_fires_on_its_own_series_alone(tmp_path: Path) -> None:
    given, expected = [], []
    for alert, (firing, quiet) in SERIES.items():
        given += in_job(alert, firing) + in_job("quiet-" + alert, quiet)
        expected.append({"labels": f'{{alertname="{alert}", job="{alert}"}}', "value": 1})
    asked = {
        "expr": 'count by (alertname, job) (ALERTS{alertstate="firing"})',
        "eval_time": f"{_MINUTES - 1}m",
        "exp_samples": expected,
    }
    found = run_rules(tmp_path, {"input_series": given, "promql_expr_test": [asked]})

    assert found.returncode == 0, found.stdout + found.stderr


@needs_promtool
def test_a_ratio_of_few_decisions_raises_no_alert(tmp_path: Path) -> None:
    """Of half an hour: 42 in one service, 60 in the other."""
    given = [
        *in_job("few", [decisions("abstain", "retrieval_failed", "0+1.4x60")]),
        *in_job("enough", [decisions("abstain", "retrieval_failed", "0+2x60")]),
    ]
    alert = {
        "exp_labels": {"severity": "critical", "job": "enough", "guard": "default"},
        "exp_annotations": {
            "summary": "Decisions of guard default are due to failures.",
            "description": "100% of the decisions have a reason that a failed signal, veto or "
            "retrieval led to. knowgate_errors_total says which, and how.",
        },
    }
    asked = {"alertname": "KnowgateErrorRouteShare", "eval_time": "58m", "exp_alerts": [alert]}
    found = run_rules(tmp_path, {"input_series": given, "alert_rule_test": [asked]})

    assert found.returncode == 0, found.stdout + found.stderr


def run_rules(folder: Path, test: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run one test of the rules by promtool; JSON is YAML."""
    (folder / "rules.yml").write_text(RULES, encoding="utf-8")
    whole = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "2m",
        "tests": [{"interval": "1m", **test}],
    }
    (folder / "tests.yml").write_text(json.dumps(whole), encoding="utf-8")
    return promtool("test", "rules", folder / "tests.yml")
