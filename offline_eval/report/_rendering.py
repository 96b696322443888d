"""From view to page: templates that escape whatever they are given."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ._gates import GateResult
from ._plots import Plot

# Overrides and isolates of the writing direction can make a page read otherwise
# than it is stored.
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# An underscore inside a word means nothing and is left readable.
_MARKDOWN = re.compile(r"([\\`*\[\]|~$#!]|(?<![^\W_])_|_(?![^\W_]))")
_LIST_START = re.compile(r"^(\d*)([-+=.)])(?=[\s\-+=]|$)")


def one_line(text: str) -> str:
    """The text on one line, without control and direction characters.

    Example:
        >>> one_line("a\\n  b\\x07")
        'a b'
    """
    text = _DIRECTION.sub("", text)
    text = "".join(" " if unicodedata.category(sign) == "Cc" else sign for sign in text)
    return " ".join(text.split())


def shortened(text: str, limit: int) -> str:
    """One line of at most `limit` characters, cut at a space where there is one.

    Example:
        >>> shortened("a knowledge base", 12)
        'a knowledge…'
    """
    text = one_line(text)
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    at_space = cut if text[limit - 1] == " " else cut.rpartition(" ")[0]
    return (at_space if len(at_space) > limit // 2 else cut).rstrip() + "…"


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


# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Check:
    """A test case.

    Attributes:
        group: that it belongs to.
        name: unique in the group.
        failure: why it failed; empty where it passed.
        words: what was measured, in one line.
        seconds: that it took; None where that is not known.
    """

    group: str
    name: str
    failure: str
    words: str
    seconds: float | None = None


def gate_checks(suite: str, gates: Sequence[GateResult]) -> list[Check]:
    """A check per gate."""
    return [
        Check(
            group=f"{suite}.gates",
            name=f"fail if {result.gate.text}",
            failure=f"{result.words} (fail if {result.gate.text})" if result.failed else "",
            words=result.words,
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
        if check.words:
            SubElement(case, "system-out").text = _text(check.words)
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


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """Where the files of a report lie, and what became of its gates.

    Attributes:
        html: for people.
        markdown: for pull requests.
        json: for programs.
        csv: one line per reply.
        junit: for CI systems.
        written: those that were written; the others may be there from before, or not.
        gates: in the order in which they were given.
    """

    html: Path
    markdown: Path
    json: Path
    csv: Path
    junit: Path
    written: tuple[Path, ...] = ()
    gates: tuple[GateResult, ...] = ()

    @classmethod
    def within(cls, folder: str | os.PathLike[str]) -> ReportPaths:
        """The files in `folder`, by their usual names."""
        root = Path(folder)
        return cls(
            html=root / "report.html",
            markdown=root / "report.md",
            json=root / "report.json",
            csv=root / "replies.csv",
            junit=root / "junit.xml",
        )

    def of(self, name: str) -> Path:
        """The file of a format, one of `FORMATS`."""
        paths = (self.html, self.markdown, self.json, self.csv, self.junit)
        return paths[FORMATS.index(name)]
