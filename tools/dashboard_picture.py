"""Draw what the dashboard's main panels show of the help desk, from a real Prometheus.

    python -m tools.dashboard_picture [--seconds 60] [--out docs/pictures]

The help desk of `examples` is calibrated and asked one question after the other: in the middle
third of the time only questions that its pages do not answer. Prometheus scrapes the guard; its
answers to the dashboard's own queries are drawn by matplotlib, since Grafana may not be there.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from prometheus_client import CollectorRegistry, start_http_server

from examples.helpdesk.app import build, retriever
from examples.helpdesk.run import HERE, read
from knowgate import Guard
from knowgate.guard import GuardMetrics
from knowgate.offline_eval.policies import calibrate_chain
from tests.support.prometheus import Prometheus, prometheus
from tools.pictures import compress, knowgate

PANELS = (
    "Decisions by route",
    "Abstention rate by reason",
    "Relevance",
)
_FOOT = (
    "The help desk example: in the middle third of the time only questions that its pages do not "
    "answer.\nDrawn by matplotlib from a Prometheus, with the queries of the Grafana dashboard."
)
_COLOURS = ("#0072b2", "#d55e00", "#767676", "#e69f00", "#56b4e9")
_STYLES: Mapping[str, Mapping[str, str]] = {
    "light": {"ink": "#1b1f24", "paper": "#ffffff", "panel": "#f6f8fa", "grid": "#d8dde3"},
    "dark": {"ink": "#e3e8ee", "paper": "#14181d", "panel": "#1d232a", "grid": "#363f49"},
}
_WINDOW = "5s"

Series = tuple[str, list[float], list[float]]


def questions(seconds: float) -> Iterator[str]:
    """Yield questions for that long; in the middle third the pages answer none."""
    answerable, missing = read("questions.jsonl"), read("near_misses.jsonl")
    rng, start = random.Random(0), time.monotonic()
    while (past := time.monotonic() - start) < seconds:
        only_missing = seconds / 3 < past < 2 * seconds / 3
        pool = missing if only_missing or rng.random() < 0.2 else answerable
        yield rng.choice(pool)


def series(server: Prometheus, panel: Mapping[str, Any], ends: tuple[float, float]) -> list[Series]:
    """Ask for what a panel shows: legend, seconds from the start, and values."""
    found = []
    for target in panel["targets"]:
        expression = target["expr"].replace("$__rate_interval", _WINDOW)
        for variable in ("$job", "$guard"):
            expression = expression.replace(variable, ".*")
        answer = server.get(
            "query_range", query=expression, start=str(ends[0]), end=str(ends[1]), step="1"
        )
        for one in answer["result"]:
            legend = target["legendFormat"]
            for name, value in one["metric"].items():
                legend = legend.replace("{{" + name + "}}", value)
            times = [float(at) - ends[0] for at, _ in one["values"]]
            found.append((legend, times, [float(value) for _, value in one["values"]]))
    return found


def record(folder: Path, seconds: float) -> dict[str, list[Series]]:
    """Ask the help desk for that long; return what each panel shows then."""
    search = retriever()
    policy = calibrate_chain(search, HERE / "questions.jsonl", risk=0.2, out=folder / "run").policy
    knowgate("dashboards", "--out", folder / "dashboards")
    (board,) = [
        found
        for path in (folder / "dashboards").rglob("*.json")
        if "panels" in (found := json.loads(path.read_text(encoding="utf-8")))
    ]
    panels = {panel["title"]: panel for panel in board["panels"] if panel.get("targets")}
    registry = CollectorRegistry()
    guard = Guard.load(policy, metrics=GuardMetrics(registry=registry))
    chain = build(guard, search)
    http, _ = start_http_server(0, addr="127.0.0.1", registry=registry)
    with prometheus(folder, f"127.0.0.1:{http.server_port}", "groups: []") as server:
        server.wait_until(lambda: server.value("up") == 1.0)
        start = time.time()
        for question in questions(seconds):
            chain.invoke(question)
        ends = (start + 6, time.time())
        return {title: series(server, panels[title], ends) for title in PANELS}


def draw(found: Mapping[str, Sequence[Series]], scheme: str, path: Path) -> None:
    """Draw the panels in a scheme's colours."""
    style = _STYLES[scheme]
    names = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    settings: dict[Any, Any] = {"font.size": 10, **dict.fromkeys(names, style["ink"])}
    with plt.rc_context(settings):
        figure, axes = plt.subplot_mosaic("AB;CC", figsize=(12.8, 7.2), layout="constrained")
        figure.set_facecolor(style["paper"])
        figure.supxlabel(_FOOT, fontsize=10)
        for axis, (title, lines) in zip(axes.values(), found.items(), strict=True):
            axis.set_facecolor(style["panel"])
            axis.set_title(title, loc="left", fontweight="bold")
            axis.set_xlabel("seconds")
            axis.grid(color=style["grid"], linewidth=0.8)
            axis.set_axisbelow(True)
            for spine in axis.spines.values():
                spine.set_color(style["grid"])
            (_heatmap if title == "Relevance" else _lines)(axis, title, lines)
        figure.savefig(path, dpi=140)
        plt.close(figure)


def _lines(axis: Axes, title: str, lines: Sequence[Series]) -> None:
    for colour, (legend, times, values) in zip(_COLOURS, sorted(lines), strict=False):
        axis.plot(times, values, label=legend, color=colour, linewidth=2)
    share = title.startswith("Abstention")
    axis.set_ylim(bottom=0, top=1 if share else None)
    axis.set_ylabel("share of decisions" if share else "decisions per second")
    axis.legend(frameon=False)


def _heatmap(axis: Axes, _: str, lines: Sequence[Series]) -> None:
    """Decisions per second in each bucket; those of a histogram are cumulative."""
    buckets = sorted((float(legend), times, values) for legend, times, values in lines)
    edges = [0.0, *(upper for upper, _, _ in buckets if upper <= 1.0)]
    grid = [values for upper, _, values in buckets if upper <= 1.0]
    below = [[0.0] * len(grid[0]), *grid[:-1]]
    inside = [
        [max(0.0, x - y) for x, y in zip(row, under, strict=True)]
        for row, under in zip(grid, below, strict=True)
    ]
    times = buckets[0][1]
    drawn = axis.pcolormesh([*times, times[-1] + 1], edges, inside, cmap="cividis")
    axis.figure.colorbar(drawn, ax=axis, label="decisions per second")
    axis.grid(visible=False)
    axis.set_ylabel("relevance")


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, ask, and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = record(Path(folder), asked.seconds)
    asked.out.mkdir(parents=True, exist_ok=True)
    for scheme in _STYLES:
        path = asked.out / f"dashboard-{scheme}.png"
        draw(found, scheme, path)
        compress(path)
        print(f"{path} {path.stat().st_size // 1000} KB")


if __name__ == "__main__":
    main()
