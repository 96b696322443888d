"""From view to page: templates that escape whatever they are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ._escaping import markdown
from ._svg import Plot

_TEMPLATES = Path(__file__).parent / "templates"


def render_html(view: object, plots: Sequence[Plot], template: str = "report.html") -> str:
    """One page without scripts and outside resources.

    Args:
        view: what the template shows; every text of it is escaped.
        plots: drawn from numbers alone.
        template: of the suite.
    """
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
    return environment.get_template(template).render(view=view, plots=drawn)


def render_markdown(view: object, template: str = "report.md") -> str:
    """The same without plots; every value is escaped."""
    environment = Environment(  # noqa: S701 - `finalize` escapes for Markdown instead
        loader=FileSystemLoader(_TEMPLATES),
        finalize=markdown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(view=view)
