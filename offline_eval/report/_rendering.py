"""From view to page: templates that escape whatever they are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ._escaping import markdown
from ._plots import Plot
from ._view import ReportView

_TEMPLATES = Path(__file__).parent / "templates"


def render_html(view: ReportView, plots: Sequence[Plot]) -> str:
    """One page without scripts and outside resources."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Drawn here from numbers alone, hence safe.
    drawn = [(plot, Markup(plot.svg)) for plot in plots]  # noqa: S704
    return environment.get_template("report.html").render(view=view, plots=drawn)


def render_markdown(view: ReportView) -> str:
    """The same without plots; every value is escaped."""
    environment = Environment(  # noqa: S701 - `finalize` escapes for Markdown instead
        loader=FileSystemLoader(_TEMPLATES),
        finalize=markdown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("report.md").render(view=view)
