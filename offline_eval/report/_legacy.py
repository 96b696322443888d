"""The API of reports that have templates of their own; goes with the last of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ...calibration import Interval
from ._document import Check
from ._gates import GateResult
from ._plots import Colour, Plot
from ._tables import Cell, Table
from ._text import counted, one_line, percent, short_range
from ._writing import ReportPaths

# An underscore inside a word means nothing and is left readable.
_MARKDOWN = re.compile(r"([\\`*\[\]|~$#!]|(?<![^\W_])_|_(?![^\W_]))")
_LIST_START = re.compile(r"^(\d*)([-+=.)])(?=[\s\-+=]|$)")


def markdown(value: object) -> str:
    """`value` as Markdown text that renders as itself.

    HTML, links, images, emphasis, tables and code all lose their meaning.

    Example:
        >>> markdown("<b> a|b [x](http://y)")
        '&lt;b&gt; a\\\\|b \\\\[x\\\\](http:\\\\//y)'
    """
    text = one_line(str(value)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKDOWN.sub(r"\\\1", text)
    # What GitHub would make a link of without being asked.
    text = text.replace("://", ":\\//")
    text = re.sub(r"(?i)\bwww\.", lambda found: found.group()[:-1] + "\\.", text)
    return _LIST_START.sub(r"\1\\\2", text)


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
    drawn = [(plot, Markup(plot.svg())) for plot in plots]  # noqa: S704
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


# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def gate_checks(suite: str, gates: Sequence[GateResult]) -> list[Check]:
    """A check per gate."""
    return [
        Check(
            group=f"{suite}.gates",
            name=f"fail if {result.gate.text}",
            failure=f"{result.text} (fail if {result.gate.text})" if result.failed else "",
            text=result.text,
        )
        for result in gates
    ]


def junit_xml(suite: str, checks: Sequence[Check]) -> str:
    """The document; it bears no time of day, so that the same run gives the same bytes."""
    failures = str(sum(bool(check.failure) for check in checks))
    counts = {"tests": str(len(checks)), "failures": failures, "errors": "0"}
    root = Element("testsuites", {"name": _text(suite), **counts})
    holder = SubElement(root, "testsuite", {"name": _text(suite), **counts, "skipped": "0"})
    for check in checks:
        attributes = {"classname": _text(check.group), "name": _text(check.name)}
        if check.seconds is not None:
            attributes["time"] = f"{check.seconds:.3f}"
        case = SubElement(holder, "testcase", attributes)
        if check.failure:
            failure = SubElement(case, "failure", {"message": _text(check.failure), "type": "gate"})
            failure.text = _text(check.failure)
        if check.text:
            SubElement(case, "system-out").text = _text(check.text)
    indent(root)
    body = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _text(text: str) -> str:
    return _NOT_XML.sub("", one_line(text))


Gates = Sequence[GateResult]


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """The report of a run, not yet rendered.

    Attributes:
        name: of the run's suite, as JUnit has it.
        values: of `report.json`.
        html: the page, with what became of the gates.
        markdown: likewise.
        csv: one line per reply; None where the suite has none.
        checks: for JUnit, where no gate is asked for; None where the suite has none.
    """

    name: str
    values: dict[str, Any]
    html: Callable[[Gates], str]
    markdown: Callable[[Gates], str]
    csv: Callable[[], str] | None = None
    checks: Callable[[], Sequence[Check]] | None = None


FORMATS = ("html", "md", "json", "csv", "junit")
DEFAULT_FORMATS = ("html", "md", "json")


def paths_within(folder: str | os.PathLike[str]) -> ReportPaths:
    """The files in `folder`, by their usual names."""
    root = Path(folder)
    return ReportPaths(
        html=root / "report.html",
        markdown=root / "report.md",
        json=root / "report.json",
        csv=root / "replies.csv",
        junit=root / "junit.xml",
    )


def path_of(paths: ReportPaths, name: str) -> Path:
    """The file of a format, one of `FORMATS`."""
    files = (paths.html, paths.markdown, paths.json, paths.csv, paths.junit)
    return files[FORMATS.index(name)]


BLUE, VERMILION, GREY = Colour.BLUE, Colour.VERMILION, Colour.GREY
SKY, AMBER, PURPLE, INK, PAPER = Colour.SKY, Colour.AMBER, Colour.PURPLE, Colour.INK, Colour.PAPER
SPACE, NOTHING, DASH, MINUS = "\u00a0", "–", "\N{EN DASH}", "\N{MINUS SIGN}"


def exact_percent(share: float) -> str:
    """As `percent`, with all digits."""
    return percent(share, exact=True)


def questions(n: int) -> str:
    """As `counted`, for questions."""
    return counted(n, "question")


def table_of(
    first: str, names: Sequence[str], columns: Sequence[tuple[str, Sequence[Cell]]]
) -> Table:
    """A table from its columns."""
    return Table.from_columns(first, names, columns)


def interval_under(interval: Interval, words: Callable[[float], str]) -> str:
    """The interval in few signs."""
    return short_range(interval, words)


def cells_of(
    intervals: Sequence[Interval], words: Callable[[float], str], better: int
) -> list[Cell]:
    """A column of estimates, the best one marked."""
    return Cell.column(intervals, words, better=better)
