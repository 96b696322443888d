"""Plots that are drawn as SVG inside a page, in colours that follow its scheme."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from ...guard.files import table_beside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...calibration import Interval


class Colour(StrEnum):
    """Colours of plots, told apart with every common colour blindness (Okabe and Ito's).

    They are placeholders: in the page each becomes a CSS property, so that it follows the
    reader's light or dark scheme. Lines should differ in style or marker as well.
    """

    INK = "#0a0b0c"
    GRID = "#0d0e0f"
    PAPER = "#fdfcfb"
    BLUE = "#0072b2"
    VERMILION = "#d55e00"
    GREY = "#767676"
    AMBER = "#e69f00"
    PURPLE = "#cc79a7"


_PAGE_COLOURS = {colour: f"var(--{colour.name.lower()})" for colour in Colour}
_PAGE_COLOURS[Colour.INK] = "currentColor"
_STYLE = table_beside(__file__, "templates/plots.toml")


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, drawn only where it is shown.

    Attributes:
        name: unique in the report; becomes part of the ids in the page.
        title: what it shows.
        caption: how to read it.
        draw: draws with `Colour`; writes no text from a knowledge base.
        size: width and height in inches.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Figure], None]
    size: tuple[float, float]

    def svg(self) -> str:
        """Draw it as an element for a page, without outside references."""
        import matplotlib.style
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        buffer = io.StringIO()
        # From the defaults, whatever the reader's own settings file says.
        with matplotlib.style.context(["default", {**_STYLE, "svg.hashsalt": self.name}]):
            figure = Figure(figsize=self.size, layout="constrained")
            self.draw(figure)
            # `savefig` would lay it out and draw it twice.
            canvas: Any = FigureCanvasSVG(figure)
            canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
        return _for_page(self.name, buffer.getvalue())


def _for_page(name: str, svg: str) -> str:
    """Reduce the file to its element: no prolog, no outside names, ids unique in the page."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    opening = rf'<svg viewBox="\1" role="img" aria-labelledby="{name}-caption">'
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\1{name}-", svg)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", svg)
    # A hundredth of a point is finer than any screen; the rest makes the page twice as large.
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    for colour, property_name in _PAGE_COLOURS.items():
        svg = svg.replace(colour, property_name)
    return svg


# Words of the legend (empty for none), marker and colour; and an estimate per line.
Series = tuple[str, str, Colour, Sequence["Interval | None"]]


def dots(
    about: tuple[str, str, str], names: Sequence[str], panels: Mapping[str, Sequence[Series]]
) -> Plot:
    """Plot shares with their intervals on named lines, in a panel or several side by side.

    Args:
        about: name, title and caption.
        names: of the lines.
        panels: by what their axis shows; series with words stand beside each other on a line.
    """
    most = max(sum(bool(one[0]) for one in series) for series in panels.values())

    def draw(figure: Figure) -> None:
        drawn = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (axis, several) in zip(drawn, panels.items(), strict=True):
            step = min(0.17, 0.85 / most) if most else 0.0
            for number, (label, marker, colour, shares) in enumerate(several):
                beside = (number - (len(several) - 1) / 2) * step if label else 0.0
                known = [
                    (line + beside, one.value, one.low, one.high)
                    for line, one in enumerate(shares)
                    if one and one.value is not None and one.low is not None
                ]
                if not known:
                    continue
                heights, values, lows, highs = np.asarray(known, dtype=float).T
                style = {"color": colour, "marker": marker, "markersize": 6, "elinewidth": 1.3}
                axes.errorbar(
                    values,
                    heights,
                    xerr=np.maximum(0.0, [values - lows, highs - values]),
                    linestyle="none",
                    label=label,
                    zorder=3,
                    **style,
                )
            axes.set_xlim(-0.03, 1.03)
            axes.set_xlabel(axis, fontsize=9 if len(panels) > 2 else 11)
            axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
            axes.grid(visible=False, axis="y")
        drawn[0].set_yticks(range(len(names)), names)
        drawn[0].set_ylim(len(names) - 0.5, -0.5)
        drawn[0].tick_params(axis="y", length=0)
        if most:
            figure.legend(loc="outside upper left", ncols=4)

    return Plot(*about, draw, (8.4, 1.2 + (0.3 + 0.1 * min(most, 4)) * len(names)))


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
