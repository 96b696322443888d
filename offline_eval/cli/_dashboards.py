"""`knowgate dashboards`: a dashboard for Grafana and rules for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...calibration.monitoring import DecisionMonitor
from ...guard.files import new_folder, write_json, write_text
from ...guard.policy import Policy
from ._alert_rules import AlertLimits, rules_text
from ._app import app
from ._console import out
from ._grafana import dashboard

_DASHBOARD, _RULES = "knowgate-dashboard.json", "knowgate-rules.yml"
_DEFAULTS = AlertLimits()


@app.command()
def dashboards(
    out_dir: Annotated[Path, typer.Option("--out", help="Folder to write; new or empty.")],
    policy: Annotated[
        Path | None,
        typer.Option(
            help="The policy that is served: alerts then name its bounds, and fire where a guard "
            "serves by another one."
        ),
    ] = None,
    latency: Annotated[
        float, typer.Option(help="Latency budget of a decision in seconds, at most 30.")
    ] = _DEFAULTS.latency,
    latency_quantile: Annotated[
        float, typer.Option(help="Share of decisions that must keep the budget.")
    ] = _DEFAULTS.latency_quantile,
    abstention_jump: Annotated[
        float,
        typer.Option(help="Change of the abstention ratio against the day before that alerts."),
    ] = _DEFAULTS.abstention_jump,
    error_share: Annotated[
        float, typer.Option(help="Share of decisions due to failures that alerts.")
    ] = _DEFAULTS.error_share,
    least_decisions: Annotated[
        int, typer.Option(help="Decisions in half an hour below which no ratio alerts.")
    ] = _DEFAULTS.least_decisions,
) -> None:
    """Write a dashboard for Grafana, and recording and alert rules for Prometheus.

    Import `knowgate-dashboard.json` into Grafana, and list `knowgate-rules.yml` under
    `rule_files` of prometheus.yml. Both read what the guard exports; panels and alerts of drift
    and risk need a `DecisionMonitor`.

    Example: `knowgate dashboards --out monitoring --policy policy.json --latency 0.5`
    """
    risks: dict[str, float] = {}
    fingerprint, costly = "", None
    if policy is not None:
        loaded = Policy.load(policy)
        states = DecisionMonitor(loaded, metrics=False).report().risks
        risks = {route: state.risk for route, state in states.items() if state.promised}
        fingerprint, costly = loaded.sha256[:12], _asked_shares(loaded)
    limits = AlertLimits(
        latency=latency,
        latency_quantile=latency_quantile,
        abstention_jump=abstention_jump,
        error_share=error_share,
        least_decisions=least_decisions,
        risks=risks,
        fingerprint=fingerprint,
        costly=costly,
    )
    with new_folder(out_dir) as work:
        write_json(work / _DASHBOARD, dashboard(limits))
        write_text(work / _RULES, rules_text(limits))
    out.print(f"{_DASHBOARD} and {_RULES} → {out_dir}", markup=False)


def _asked_shares(policy: Policy) -> tuple[float, float] | None:
    """Of a cascade, how often calibration asked the costly scorer; None for any other policy.

    Live questions are a mixture of those with and without an answer, so any share between the
    two is as in calibration.
    """
    found = [policy.histograms.get(f"asked.{case}") for case in ("in_kb", "left_out")]
    shares = [one.counts[1] / sum(one.counts) for one in found if one and sum(one.counts)]
    return (min(shares), max(shares)) if shares else None
