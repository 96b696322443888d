"""Drawing that stands inside a page: colours that follow its scheme, no outside names."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Colours are stand-ins: in the page each becomes a custom property, so that it can
# follow the reader's light or dark scheme. The palette is Okabe and Ito's, told apart
# with every common colour blindness; lines differ in style too.
INK, GRID, PAPER = "#0a0b0c", "#0d0e0f", "#fdfcfb"
BLUE, VERMILION, GREY = "#0072b2", "#d55e00", "#767676"
SKY, AMBER, PURPLE = "#56b4e9", "#e69f00", "#cc79a7"
_PAGE_COLOURS = {
    INK: "currentColor",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    BLUE: "var(--in-kb)",
    VERMILION: "var(--left-out)",
    GREY: "var(--miss)",
    SKY: "var(--sky)",
    AMBER: "var(--amber)",
    PURPLE: "var(--purple)",
}
_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 11.0,
    "grid.color": GRID,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 2.0,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot for the page.

    Attributes:
        name: unique in the page.
        title: what it shows.
        caption: how to read it.
        svg: markup without outside references; holds no text from a knowledge base.
    """

    name: str
    title: str
    caption: str
    svg: str


def draw_svg(name: str, draw: Callable[[Figure], None], size: tuple[float, float]) -> str:
    """What `draw` puts on a figure, as an element for the page.

    Args:
        name: unique in the page; ids start with it.
        draw: draws with the colours of this module.
        size: width and height in inches.
    """
    import matplotlib.style
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    # From the defaults, whatever the reader's own settings file says.
    with matplotlib.style.context(["default", {**_STYLE, "svg.hashsalt": name}]):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _for_page(name, buffer.getvalue())


def _for_page(name: str, svg: str) -> str:
    """The bare element: no prolog, no outside names, ids unique in the page."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\1{name}-", svg)
    svg = svg.replace("'DejaVu Sans'", "system-ui").replace("xlink:href", "href")
    for colour, property_name in _PAGE_COLOURS.items():
        svg = svg.replace(colour, property_name)
    return svg


def name_points(
    axes: Axes,
    points: Sequence[tuple[str, float, float]],
    across: tuple[float, float],
    upward: tuple[float, float],
) -> None:
    """Write each name right of the axes and join it to its point by a line.

    Args:
        axes: with the two scales.
        points: name, across, up.
        across: ends of the horizontal scale.
        upward: ends of the vertical one.
    """
    low, high = upward
    # Many names stand closer, so that the column is never longer than the axes are high.
    step = min(0.052, 1 / max(1, len(points) - 1)) * (high - low)
    heights: list[float] = []
    ordered = sorted(points, key=lambda point: (point[2], point[1], point[0]))
    for _, _, up in ordered:
        heights.append(max(up, heights[-1] + step) if heights else up)
    # Names pushed above the top are brought back, from the uppermost down.
    ceiling = high
    for position in reversed(range(len(heights))):
        heights[position] = min(heights[position], ceiling)
        ceiling = heights[position] - step
    edge = across[1] + 0.03 * (across[1] - across[0])
    line: dict[str, Any] = {"color": GREY, "linewidth": 0.7, "zorder": 2, "clip_on": False}
    for (name, right, up), height in zip(ordered, heights, strict=True):
        axes.plot([right, edge], [up, height], **line)
        axes.annotate(
            name,
            xy=(edge, height),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
        )
