"""Where a report lies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """Where the three files of a report lie."""

    html: Path
    markdown: Path
    json: Path

    @classmethod
    def within(cls, folder: str | os.PathLike[str]) -> ReportPaths:
        """The three files in `folder`, by their usual names."""
        root = Path(folder)
        return cls(root / "report.html", root / "report.md", root / "report.json")
