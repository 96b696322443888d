"""Drawing that stands inside a page: colours that follow its scheme, no outside names."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
