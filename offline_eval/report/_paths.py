"""Where a report lies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..gates import GateResult

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
