"""Render a document as one HTML page without outside resources.

The page runs no script, except one of knowgate's own where a reader can try other thresholds;
the page's Content-Security-Policy names its hash, so that no other one runs.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ._gates import GateResult, gate_table
from .document import CaseLine, Cases, Document, Facts, Figures, Passages, Prose, Section
from .plots import Plot
from .tables import Table
from .text import printable
from .what_if import WhatIf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment
    from markupsafe import Markup

    from .document import Block

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
    WhatIf: "what_if",
}


class _Script(NamedTuple):
    """The script of the page, and its hash as a source of the Content-Security-Policy."""

    text: Markup
    source: Markup


def render_html(document: Document, gates: Sequence[GateResult] = ()) -> str:
    """Render the page; every text of the document is escaped.

    Args:
        document: to render.
        gates: shown in a table of their own.
    """
    template = _environment().get_template("document.html")
    page = template.render(
        document=document,
        gates=gate_table(gates) if gates else None,
        script=_script() if _has_what_if(document.sections) else None,
    )
    return page.lstrip()  # lines that the macros leave


def _has_what_if(blocks: Sequence[Block | None]) -> bool:
    return any(
        isinstance(block, WhatIf) or (isinstance(block, Section) and _has_what_if(block.blocks))
        for block in blocks
    )


@cache
def _script() -> _Script:
    from markupsafe import Markup

    text = (_TEMPLATES / "what_if.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    # A file of this package, and digits.
    return _Script(Markup(text), Markup(f"'sha256-{digest}'"))  # noqa: S704


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
    # JSON in which every sign that could end the element is escaped.
    environment.filters["script_data"] = Markup
    return environment
