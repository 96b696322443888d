"""`knowgate dashboards`: what it writes is read by Prometheus and Grafana."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Metric

from knowgate.adapters.serve import create_app
from knowgate.calibration.monitoring import DecisionMonitor
from knowgate.guard.artefacts import Histogram
from knowgate.offline_eval.cli._dashboards import AlertLimits, render_dashboards
from tests.calibration.monitoring.populations import GUARANTEE
from tests.offline_eval.cli.commands import Knowgate
from tests.support.guards import guard_with, policy_with
from tests.support.paths import ROOT
from tests.support.prometheus import needs_promtool, promtool

DASHBOARD, RULES = render_dashboards(
    AlertLimits(),
    policy_with(
        guarantee=GUARANTEE,
        histograms={
            f"asked.{case}": Histogram(edges=(0.0, 0.5, 1.0), counts=(60, 40))
            for case in ("in_kb", "left_out")
        },
    ).sealed(),
)


def panels() -> list[dict[str, Any]]:
    """The panels with data."""
    return [one for one in DASHBOARD["panels"] if one["type"] != "row"]


def queries() -> Iterator[str]:
    """All expressions of the dashboard, with its variables replaced."""
    for panel in panels():
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "5m")
            yield expr.replace("$job", ".*").replace("$guard", ".*")


@dataclass(frozen=True)
class Exported:
    """A metric of the product: the names of its series, and its labels."""

    series: set[str]
    labels: tuple[str, ...]


def exported() -> dict[str, Exported]:
    """Everything that the product exports, by the name in the reference."""
    registry = CollectorRegistry()
    guard = guard_with(metrics=True, registry=registry)
    monitor = DecisionMonitor(policy_with(), registry=registry)
    kept = guard, monitor, create_app(guard, registry=registry)
    assert kept
    ends = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    found: dict[str, Exported] = {}
    for collector in registry._collector_to_names:
        # Every metric of the product describes itself.
        describe: Callable[[], Iterable[Metric]] = getattr(collector, "describe")  # noqa: B009
        for family in describe():
            series = {family.name + end for end in ends.get(family.type, ("",))}
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = getattr(family, "_labelnames", getattr(collector, "_labelnames", ()))
            found[name] = Exported(series, tuple(labels))
    return found


def test_the_reference_lists_every_metric_with_its_labels() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`knowgate_[^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    documented = {name: words for names, words in rows for name in re.findall(r"`(\w+)`", names)}

    known = exported()
    assert set(documented) == set(known)
    for name, metric in known.items():
        assert [label for label in metric.labels if f"`{label}`" not in documented[name]] == []


@needs_promtool
def test_promtool_accepts_the_rules_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES, encoding="utf-8")
    recorded = [{"record": f"a:b{i}", "expr": expr} for i, expr in enumerate(queries())]
    asked = {"groups": [{"name": "asked", "rules": recorded}]}
    (tmp_path / "queries.yml").write_text(json.dumps(asked), encoding="utf-8")  # JSON is YAML

    found = promtool("check", "rules", rules, tmp_path / "queries.yml")

    assert found.returncode == 0, found.stderr
    assert found.stdout.count("SUCCESS") == 2


def test_only_series_that_are_exported_are_asked_for() -> None:
    known = set(re.findall(r"record: (\S+)", RULES)).union(
        *(one.series for one in exported().values())
    )
    rules = re.sub(r"(?m)^ *(#|summary:|description:).*$", "", RULES)
    asked = " ".join([rules, *queries()])

    names = set(re.findall(r"knowgate[:_][a-z0-9_:]+(?=[\[{ )])", asked))

    assert len(names) > 20
    assert not names - known


def test_a_calibrated_policy_gives_the_alerts_its_bound(knowgate: Knowgate, tmp_path: Path) -> None:
    policy = policy_with(guarantee=GUARANTEE).sealed()
    policy.save(tmp_path / "policy.json")

    knowgate("dashboards", "--out", tmp_path / "m", "--policy", tmp_path / "policy.json")

    rules = (tmp_path / "m/knowgate-rules.yml").read_text(encoding="utf-8")
    assert 'knowgate_risk{route="all", bound="low"} > 0.1' in rules
