"""The plots of the report of relevance signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....calibration import OperatingPoint
from ...report import Colour, Plot
from ._signals_summary import ScoredCase, SignalsSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_IN_KB, _LEFT_OUT, _MISS = Colour.BLUE, Colour.VERMILION, Colour.GREY
_BINS = 20


def signal_plots(summary: SignalsSummary, which: str) -> list[Plot]:
    """Plot histograms, ROC and risk–coverage curve; those without data are left out.

    Args:
        summary: of the run.
        which: questions the rates are about.
    """
    plots = (_histograms(summary), _roc(summary), _risk_coverage(summary, which))
    return [plot for plot in plots if plot is not None]


def _histograms(summary: SignalsSummary) -> Plot | None:
    cases, calibrated = summary.scored, summary.run.calibration is not None
    # Without passages there is no raw score to draw; calibrated, it is a relevance of 0.
    shown = [case for case in cases if calibrated or case.row.retrieved]
    if not shown:
        return None
    own = [case for case in summary.scored_unanswerable if calibrated or case.row.retrieved]
    kinds: list[tuple[str, str, list[ScoredCase]]] = [
        ("in knowledge base, retrieved", _IN_KB, [case for case in shown if case.found]),
        ("in knowledge base, not retrieved", _MISS, [case for case in shown if case.missed]),
        ("answer left out", _LEFT_OUT, [case for case in shown if case.left_out]),
        ("unanswerable, your own", _LEFT_OUT, own),
    ]
    kinds = [kind for kind in kinds if kind[2]]
    values = [[_value(case, calibrated) for case in members] for _, _, members in kinds]
    edges = _edges(values, calibrated)
    threshold = summary.policy.threshold if summary.policy is not None else None

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(kinds), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for panel, (name, colour, members), scores in zip(panels, kinds, values, strict=True):
            panel.hist(scores, bins=edges, color=colour, edgecolor="none", rwidth=0.9)
            panel.set_title(f"{name} ({len(members)})", loc="left", fontsize=11)
            panel.set_ylabel("cases")
            panel.yaxis.get_major_locator().set_params(integer=True, nbins=4)
            panel.grid(visible=False, axis="x")
            if threshold is not None:
                panel.axvline(threshold, color=Colour.INK, linestyle="--", linewidth=1.5)
        if threshold is not None:
            # Headroom, so that the label stands above the bars.
            panels[0].set_ylim(top=1.3 * panels[0].get_ylim()[1])
            _name_threshold(panels[0], threshold)
        panels[-1].set_xlabel("relevance (calibrated)" if calibrated else "raw relevance score")
        panels[-1].set_xlim(edges[0], edges[-1])

    notes = ""
    if threshold is not None:
        notes += f" The dashed line is the threshold, {threshold:.3f}: cases to its right pass."
    if len(shown) < len(cases):
        notes += f" Not drawn, because nothing was retrieved: {len(cases) - len(shown)}."
    return Plot(
        name="scores",
        title="How relevance is distributed",
        caption="All measured questions. The less the first and the last panel overlap, the "
        "better the guard can tell them apart." + notes,
        draw=draw,
        size=(7.4, 0.8 + 1.5 * len(kinds)),
    )


def _roc(summary: SignalsSummary) -> Plot | None:
    run, cases = summary.run, summary.scored
    in_kb = [case for case in cases if case.in_kb]
    found = [case for case in cases if case.found]
    left_out = [case for case in cases if case.left_out]
    points = _curve(in_kb, left_out)
    if not points:
        return None
    found_points = _curve(found, left_out) if len(found) < len(in_kb) else []

    def draw(figure: Figure) -> None:
        axes = _square(figure)
        axes.plot(*_xy(points, "risk"), color=_IN_KB, clip_on=False, label="all questions")
        if found_points:
            axes.plot(
                *_xy(found_points, "risk"),
                color=_MISS,
                linestyle="--",
                linewidth=1.5,
                clip_on=False,
                label="without retrieval misses",
            )
        axes.plot([0, 1], [0, 1], color=_MISS, linestyle=":", linewidth=1.5, label="chance")
        if run.calibration is not None:
            axes.plot(_share_passing(left_out), _share_passing(in_kb), label="the policy", **_POINT)
        axes.set_xlabel("answer left out: share that passes")
        axes.set_ylabel("answer in knowledge base: share that passes")
        axes.legend(loc="lower right")

    half, point = "", ""
    if run.calibration is not None:
        half, point = ", those calibrated on included", " The dot is the policy’s threshold."
    return Plot(
        name="roc",
        title="ROC curve",
        caption=f"All measured questions{half}. The area under the curve is the AUROC; the upper "
        f"left corner is the ideal.{point}",
        draw=draw,
        size=(5.0, 5.0),
        half=True,
    )


def _risk_coverage(summary: SignalsSummary, which: str) -> Plot | None:
    calibration = summary.run.calibration
    shown = [case for case in summary.scored if case.counted or calibration is None]
    found = [case for case in shown if case.found]
    left_out = [case for case in shown if case.left_out]
    points = _curve(found, left_out)
    if not points:
        return None

    def draw(figure: Figure) -> None:
        axes = _square(figure)
        axes.plot(*_xy(points, "coverage"), color=_LEFT_OUT, clip_on=False, label="every threshold")
        if calibration is not None and calibration.risk is not None:
            axes.axhline(
                calibration.risk,
                color=Colour.INK,
                linestyle=":",
                linewidth=1.5,
                label="risk asked for",
            )
        if calibration is not None:
            axes.errorbar(
                1 - _known(summary.in_kb.abstention_rate.value),
                1 - _known(summary.left_out.abstention_rate.value),
                xerr=_error(summary.in_kb.abstention_rate),
                yerr=_error(summary.left_out.abstention_rate),
                capsize=4,
                elinewidth=1.5,
                ecolor=Colour.INK,
                label="the policy, 95 % intervals",
                **_POINT,
            )
        axes.set_xlabel("coverage: answer retrieved, share that passes")
        axes.set_ylabel("risk: answer left out, share that passes")
        axes.legend(loc="upper left")

    return Plot(
        name="risk-coverage",
        title="Risk against coverage",
        caption=f"{which}, retrieval misses excluded. Moving the threshold moves "
        "along the curve; the lower right corner is the ideal.",
        draw=draw,
        size=(5.0, 5.0),
        half=True,
    )


_POINT: dict[str, Any] = {
    "marker": "o",
    "markersize": 9,
    "color": Colour.INK,
    "linestyle": "none",
    "zorder": 5,
    "clip_on": False,
}


def _value(case: ScoredCase, calibrated: bool) -> float:
    return case.relevance if calibrated and case.relevance is not None else case.score


def _edges(values: Sequence[Sequence[float]], calibrated: bool) -> list[float]:
    low, high = 0.0, 1.0
    if not calibrated:
        everything = [value for kind in values for value in kind]
        low, high = min(everything), max(everything)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
    return [low + (high - low) * step / _BINS for step in range(_BINS + 1)]


def _name_threshold(panel: Axes, threshold: float) -> None:
    right = threshold < 0.75
    panel.annotate(
        f"threshold {threshold:.2f}",
        xy=(threshold, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(5 if right else -5, -3),
        textcoords="offset points",
        ha="left" if right else "right",
        va="top",
    )


def _curve(
    may_pass: Sequence[ScoredCase], must_not_pass: Sequence[ScoredCase]
) -> list[OperatingPoint]:
    return OperatingPoint.curve(
        [case.score for case in may_pass], [case.score for case in must_not_pass]
    )


def _xy(points: Sequence[OperatingPoint], across: str) -> tuple[list[float], list[float]]:
    """Split the curve, starting where nothing passes, with `across` on the horizontal axis."""
    coverage = [0.0, *(point.coverage for point in points)]
    risk = [0.0, *(point.risk for point in points)]
    return (coverage, risk) if across == "coverage" else (risk, coverage)


def _share_passing(cases: Sequence[ScoredCase]) -> list[float]:
    return [sum(case.passes is True for case in cases) / len(cases)]


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a curve over counted cases implies a rate over them")
    return value


def _error(rate: Any) -> list[list[float]]:
    """Compute the lengths of the error bars of 1 - rate."""
    value = _known(rate.value)
    return [[_known(rate.high) - value], [value - _known(rate.low)]]


def _square(figure: Figure) -> Axes:
    axes: Axes = figure.subplots()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    return axes
