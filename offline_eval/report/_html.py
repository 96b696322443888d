"""Render a document as one HTML page, without scripts and outside resources."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._document import (
    CaseLine,
    Cases,
    Document,
    Facts,
    Figures,
    Passages,
    Prose,
    Section,
)
from ._gates import GateResult, gate_table
from ._plots import Plot
from ._tables import Table
from ._text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_KINDS: dict[type, str] = {
    str: "paragraph",
    Prose: "prose",
    Figures: "figures",
    Table: "table",
    Plot: "plot",
    Cases: "cases",
    Facts: "facts",
    Section: "section",
    CaseLine: "line",
    Passages: "passages",
}


def render_html(document: Document, gates: Sequence[GateResult] = ()) -> str:
    """Render the page; every text of the document is escaped.

    Args:
        document: to render.
        gates: shown in a table of their own.
    """
    template = _environment().get_template("document.html")
    page = template.render(document=document, gates=gate_table(gates) if gates else None)
    return page.lstrip()  # lines that the macros leave


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def clean(value: Any) -> Any:
        # Markup is what the template's own macros made.
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return printable(value) if is_text else value

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["kind"] = lambda block: _KINDS[type(block)]
    # Drawn from numbers and fixed words alone, hence safe.
    environment.filters["svg"] = lambda plot: Markup(plot.svg())  # noqa: S704
    return environment
