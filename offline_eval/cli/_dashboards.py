"""`knowgate dashboards`: a dashboard for Grafana and rules for Prometheus.

Both are files of this package in which a few limits are filled in. Grafana and Prometheus have
`{{ }}` of their own, so that values stand in `<< >>`, and statements in lines that begin with `#%`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import Field

from ...calibration.monitoring import DecisionMonitor
from ...guard.files import new_folder, write_json, write_text
from ...guard.policy import Policy
from ._console import out
from ._options import Pairs, documented

_DASHBOARD, _RULES = "knowgate-dashboard.json", "knowgate-rules.yml"


class AlertLimits(Pairs):
    """When the alerts fire.

    Attributes:
        latency: seconds that a share of `latency_quantile` of all decisions may take; the
            histogram of latencies ends at 30.
        latency_quantile: share of decisions that must keep the budget.
        abstention_jump: change of the abstention ratio against the day before.
        error_share: share of decisions that may be due to failures.
        unsupported: share of checked replies that may lack support in their passages.
        least_decisions: in half an hour, fewer of which raise no alarm about a ratio.
    """

    latency: float = Field(1.0, gt=0, le=30)
    latency_quantile: float = Field(0.95, gt=0, lt=1)
    abstention_jump: float = Field(0.2, gt=0, lt=1)
    error_share: float = Field(0.05, gt=0, lt=1)
    unsupported: float = Field(0.1, gt=0, lt=1)
    least_decisions: int = Field(50, ge=1)


@documented
def dashboards(
    out_dir: Path,
    *,
    policy: Path | None = None,
    limits: AlertLimits,
) -> None:
    """Write a dashboard for Grafana, and recording and alert rules for Prometheus.

    Import `knowgate-dashboard.json` into Grafana, and list `knowgate-rules.yml` under
    `rule_files` of prometheus.yml. Both read what the guard exports; panels and alerts of drift
    and risk need a `DecisionMonitor`.

    Example: `knowgate dashboards --out monitoring --policy policy.json --limits latency=0.5`

    Args:
        out_dir: Folder to write; new or empty.
        policy: The policy that is served: alerts then name its bounds, and fire where a guard
            serves by another one.
        limits: When alerts fire: seconds that a share of decisions may take, change of the
            abstention ratio against the day before, share of decisions due to failures, share of
            checked replies without support, and decisions in half an hour below which no ratio
            alerts. [default: latency=1.0,latency_quantile=0.95,abstention_jump=0.2,
            error_share=0.05,unsupported=0.1,least_decisions=50]
    """
    dashboard, rules = render_dashboards(limits, None if policy is None else Policy.load(policy))
    with new_folder(out_dir) as work:
        write_json(work / _DASHBOARD, dashboard)
        write_text(work / _RULES, rules)
    out.print(f"{_DASHBOARD} and {_RULES} → {out_dir}")


def render_dashboards(
    limits: AlertLimits,
    policy: Policy | None = None,
) -> tuple[dict[str, Any], str]:
    """Return the dashboard as Grafana imports it, and the rules as a YAML file.

    Args:
        limits: of the alerts.
        policy: that should be served; None for any.
    """
    risks: dict[str, float] = {}
    if policy is not None:
        states = DecisionMonitor(policy, metrics=False).report().risks
        risks = {route: state.risk for route, state in states.items() if state.promised}
    values = limits.model_dump() | {
        "percentile": f"p{100 * limits.latency_quantile:g}",
        "risks": list(risks.items()),
        "fingerprint": "" if policy is None else policy.sha256[:12],
    }
    dashboard: dict[str, Any] = json.loads(_filled(_DASHBOARD, values))
    lines = {
        "Risk against its bound": sorted(set(risks.values())),
        "Latency of decisions": [limits.latency],
        "Decisions due to failures": [limits.error_share],
        "Costly scorer failed": [limits.error_share],
        "Unsupported replies": [limits.unsupported],
    }
    for panel in dashboard["panels"]:
        drawn = lines.get(panel["title"], ())
        if drawn:
            shown = panel["fieldConfig"]["defaults"]
            shown["thresholds"]["steps"] += [{"color": "red", "value": line} for line in drawn]
            shown["custom"]["thresholdsStyle"]["mode"] = "line"
    return dashboard, _filled(_RULES, values)


def _filled(name: str, values: Mapping[str, Any]) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        line_statement_prefix="#%",
        keep_trailing_newline=True,
        finalize=lambda value: f"{value:g}" if isinstance(value, float) else value,
        autoescape=False,  # noqa: S701 - what is filled in are numbers and names of routes
    )
    return environment.get_template(name).render(values)
