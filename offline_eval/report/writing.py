"""Write a document to files, one per format, and check gates against it."""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...guard.errors import InputError
from ...guard.files import read_json, write_json, write_text
from ...guard.text import clean_text
from ..data.fields import as_cell
from ._gates import Gate, check_gates, measures_frame, parse_gate
from ._rendering import rendered
from .document import Check, Document
from .prose import template_environment
from .text import one_line

if TYPE_CHECKING:
    import pandas

# The page last: whoever waits for it finds the others there.
_FILES = {
    "json": "report.json",
    "csv": "replies.csv",
    "junit": "junit.xml",
    "md": "report.md",
    "html": "report.html",
}


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """Where the files of a report are, and the results of its gates.

    Attributes:
        html: for people.
        markdown: for pull requests.
        json: for programs.
        csv: one line per reply.
        junit: for CI systems.
        written: those that were written; the others may exist from before, or not.
        gates: in the order in which they were given.
    """

    html: Path
    markdown: Path
    json: Path
    csv: Path
    junit: Path
    written: tuple[Path, ...] = ()
    gates: tuple[Gate, ...] = ()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the measures of `report.json` as a data frame: name, value, interval and n.

        Raises:
            InputError: the report was not written as JSON.
            MissingDependencyError: pandas is not installed.
        """
        return measures_frame(read_json(self.json))


@dataclass(frozen=True, slots=True)
class ReportWriter:
    """Writes reports to a folder.

    Attributes:
        folder: made where missing.
        formats: some of `html`, `md`, `json`, `csv` and `junit`.
        gates: expressions that must not hold, see the package.
        page: name of the page; the other files have its stem if it is given.

    Raises:
        InputError: a format is unknown, or a gate cannot be read.
    """

    folder: str | os.PathLike[str]
    formats: Sequence[str] = ("html", "md", "json")
    gates: Sequence[str] = ()
    page: str = ""

    def __post_init__(self) -> None:
        hint = "choose some of html, md, json, csv, junit"
        if not self.formats:
            raise InputError("no format given", where="--format", hint=hint)
        for name in self.formats:
            if name not in _FILES:
                raise InputError(f"no such format: {name[:80]!r}", where="--format", hint=hint)
        for text in self.gates:
            parse_gate(text)

    def write(self, document: Document) -> ReportPaths:
        """Write all files of the report, or none.

        Raises:
            InputError: the document has no such format, a gate names no number of it, or a
                file cannot be written.
        """
        gates = check_gates(document.values, self.gates)
        formats = [name for name in _FILES if name in self.formats]
        texts = {name: _text(document, name, gates) for name in formats if name != "json"}
        paths = self._paths()
        for name in formats:
            if name == "json":
                own = {"gates": [result.to_dict() for result in gates]} if gates else {}
                write_json(paths[name], {**document.values, **own})
            else:
                write_text(paths[name], texts[name])
        written = tuple(paths[name] for name in formats)
        return ReportPaths(markdown=paths.pop("md"), **paths, written=written, gates=gates)

    def _paths(self) -> dict[str, Path]:
        files = {name: Path(self.folder, file) for name, file in _FILES.items()}
        if not self.page:
            return files
        page = Path(self.folder, self.page)
        named = {name: page.with_suffix(file.suffix) for name, file in files.items()}
        return {**named, "html": page}


def _text(document: Document, name: str, gates: Sequence[Gate]) -> str:
    if name in ("html", "md"):
        return rendered(document, gates, page=name == "html")
    text = render_csv(document) if name == "csv" else render_junit(document, gates)
    if text is None:
        why, hint = _MISSING[name]
        raise InputError(f"there is no {name} of this report: {why}", where="--format", hint=hint)
    return text


_MISSING = {
    "csv": ("only runs of replies have one", "choose another format"),
    "junit": ("a run of this suite needs gates for it", "give a --fail-if"),
}


def render_csv(document: Document) -> str | None:
    """Render the rows; None where the document has none.

    Text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    if document.rows is None:
        return None
    buffer = io.StringIO()
    rows = ([_cell(value) for value in row] for row in document.rows())
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return repr(value)
    text = clean_text(str(value)).replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(sign for sign in text if sign in "\n\t" or unicodedata.category(sign) != "Cc")
    return as_cell(kept)


# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(document: Document, gates: Sequence[Gate] = ()) -> str | None:
    """Render a test case per gate; without gates the suite's own checks, None if it has none.

    The file holds no time of day, so that the same run gives the same bytes.
    """
    suite = f"knowgate.{document.name}"
    if gates:
        checks: Sequence[Check] = [
            Check(f"{suite}.gates", f"fail if {one.expression}", one.failure, one.text)
            for one in gates
        ]
    elif document.checks is not None:
        checks = document.checks()
    else:
        return None
    templates = template_environment(
        Path(__file__).parent / "templates", clean=lambda text: _NOT_XML.sub("", one_line(text))
    )
    return templates.get_template("junit.txt").render(suite=suite, checks=checks)
