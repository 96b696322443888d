"""Plots of a calibration: reliability, and risk against coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.plots import Colour, Plot
from .records import WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = ((Colour.BLUE, "-"), (Colour.PURPLE, "--"), (Colour.INK, "-."))
# More places of a curve cannot be told apart.
_PLACES = 300
_Rows = Mapping[str, Mapping[str, Any]]


def reliability_plot(signals: _Rows) -> Plot | None:
    """Stated probability against observed share of each signal, before and after calibration."""
    if not signals:
        return None

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(signals), sharey=True, squeeze=False)[0]
        for axes, (name, quality) in zip(panels, signals.items(), strict=True):
            axes.plot([0, 1], [0, 1], color=Colour.GREY, linestyle=":", linewidth=1.5)
            if quality["before"] is not None:
                _draw_bins(axes, quality["before"], "as measured", "s--", Colour.GREY)
            _draw_bins(axes, quality["after"], "calibrated", "o-", Colour.BLUE)
            axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=f"{name}: what was stated")
            axes.legend(loc="upper left")
        panels[0].set_ylabel("what came true, 95 % intervals")

    caption = WORDS.text("reliability_caption", signals)
    return Plot("reliability", "Reliability of the signals", caption, draw, (8.4, 4.4))


def _draw_bins(axes: Axes, stated: Mapping[str, Any], name: str, look: str, colour: Colour) -> None:
    error = stated["calibration_error"].value
    bins = [
        (one.mean_probability, one.share.value, one.share.low, one.share.high)
        for one in stated["bins"]
    ]
    at, shares, lows, highs = np.asarray(bins, dtype=float).T
    axes.errorbar(
        at,
        shares,
        yerr=np.maximum(0.0, [shares - lows, highs - shares]),
        fmt=look,
        color=colour,
        label=name if error is None else f"{name}: error {error:.3f}",
        markersize=5,
        linewidth=1.5,
        elinewidth=1,
        capsize=2,
    )


def risk_coverage_plot(
    rankings: _Rows,
    steps: Sequence[Mapping[str, Any]],
    risk: float | None,
) -> Plot | None:
    """Risk against coverage of each ranking, with the declared path and the chosen point.

    Args:
        rankings: with their curves.
        steps: of the declared path.
        risk: the bound; None for none.
    """
    seen = [step for step in steps if None not in (step["coverage"], step["risk"])]
    if not rankings and not seen:
        return None
    path, chosen = (
        [(one["coverage"], one["risk"]) for one in seen if one["chosen"] or not only_chosen]
        for only_chosen in (False, True)
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        heights = [risk or 0.0, 0.05, *(height for _, height in path)]
        for (name, ranking), (colour, style) in zip(rankings.items(), _LINES, strict=False):
            curve = ranking["curve"]
            places = np.unique(np.linspace(0, len(curve.risks) - 1, _PLACES).round().astype(int))
            across, up = np.asarray([curve.coverages, curve.risks])[:, places]
            axes.plot(across, up, color=colour, linestyle=style, linewidth=1.6, label=name)
            heights += up[across >= 0.05].tolist()
        dots: dict[str, Any] = {"linestyle": "none", "clip_on": False, "zorder": 5}
        if path:
            red: dict[str, Any] = {"marker": ".", "markersize": 6, "color": Colour.VERMILION}
            axes.plot(*zip(*path, strict=True), label="the declared path", **red, **dots)
        if risk is not None:
            bound = "bound on the risk"
            axes.axhline(risk, color=Colour.INK, linestyle=":", linewidth=1.5, label=bound)
        if chosen:
            ring: dict[str, Any] = {"marker": "o", "markersize": 10, "color": Colour.INK}
            ring |= {"markerfacecolor": "none", "markeredgewidth": 2, "label": "the chosen point"}
            axes.plot(*zip(*chosen, strict=True), **ring, **dots)
        axes.set(xlim=(0, 1), ylim=(0, min(1.0, 1.15 * max(heights))))
        axes.set_xlabel("coverage: share of cases let through")
        axes.set_ylabel("risk: share of those answered wrongly")
        figure.legend(loc="outside right upper")

    caption = WORDS.text("risk_coverage_caption", bool(seen))
    return Plot("risk-coverage", "Risk against coverage", caption, draw, (8.4, 4.4))
