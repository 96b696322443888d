"""What the plots of measured signals and of calibrations have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....calibration import Interval
from ...report.plots import Colour, Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINT: dict[str, Any] = {
    "marker": "o", "markersize": 10, "color": Colour.INK, "markerfacecolor": "none",
    "markeredgewidth": 2, "linestyle": "none", "zorder": 5, "clip_on": False,
}  # fmt: skip
DOTTED: dict[str, Any] = {"linestyle": ":", "linewidth": 1.5}


def error_bars(rates: Sequence[Interval]) -> list[list[float]]:
    """Return how far each interval reaches below its value, and above; to 0 and 1 without ends."""
    values = [rate.value or 0.0 for rate in rates]
    ends = [(rate.low or 0.0, 1.0 if rate.high is None else rate.high) for rate in rates]
    below = [value - low for value, (low, _) in zip(values, ends, strict=True)]
    return [below, [high - value for value, (_, high) in zip(values, ends, strict=True)]]


def histograms(
    words: tuple[str, str, str],
    panels: Sequence[tuple[str, Colour, Sequence[float]]],
    bins: Sequence[float],
    axis: str,
    threshold: float | None,
) -> Plot:
    """Make a histogram per panel, one below the other.

    Args:
        words: name, title and caption.
        panels: each with its name, colour and values.
        bins: their edges.
        axis: what is drawn.
        threshold: marked by a line; None for none.
    """

    def draw(figure: Figure) -> None:
        drawn = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (name, colour, values) in zip(drawn, panels, strict=True):
            axes.hist(values, bins=bins, color=colour, edgecolor="none", rwidth=0.9)
            axes.set_title(f"{name} ({len(values)})", loc="left", fontsize=11)
            axes.set_ylabel("cases")
            axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
            axes.grid(visible=False, axis="x")
            if threshold is not None:
                axes.axvline(threshold, color=Colour.INK, linestyle="--", linewidth=1.5)
        if threshold is not None:
            # Headroom, so that the label stands above the bars.
            drawn[0].set_ylim(top=1.3 * drawn[0].get_ylim()[1])
            right = threshold < 0.75
            at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "va": "top"}
            at |= {"textcoords": "offset points", "ha": "left" if right else "right"}
            words = f"threshold {threshold:.2f}"
            drawn[0].annotate(words, (threshold, 1.0), (5 if right else -5, -3), **at)
        drawn[-1].set(xlabel=axis, xlim=(bins[0], bins[-1]))

    return Plot(*words, draw, (7.4, 0.8 + 1.5 * len(panels)))
