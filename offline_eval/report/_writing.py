"""Writing report.html, report.md and report.json."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ...guard.files import write_json, write_text
from ..ookb import read_ookb_run
from ._cases import measured_cases
from ._plots import draw_plots
from ._rendering import render_html, render_markdown
from ._summary import summarise
from ._view import report_view


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """Where the three files of a report lie."""

    html: Path
    markdown: Path
    json: Path


def write_report(
    run_dir: str | os.PathLike[str], *, out_dir: str | os.PathLike[str] | None = None
) -> ReportPaths:
    """Write the report of a run folder; nothing is written where the run is broken.

    Args:
        run_dir: folder that `knowgate eval ookb` wrote, calibrated or not; of an
            unfinished run the report says so.
        out_dir: folder for the three files, made where missing; None: the run folder.

    Raises:
        InputError: a file of the run is missing, broken, empty or written by a newer
            knowgate, or the report cannot be written.
    """
    run = read_ookb_run(run_dir, unfinished=True)
    cases = measured_cases(run)
    summary = summarise(run, cases)
    view = report_view(run, cases, summary)
    page = render_html(view, draw_plots(run, cases, summary))
    text = render_markdown(view)
    folder = Path(run_dir if out_dir is None else out_dir)
    paths = ReportPaths(folder / "report.html", folder / "report.md", folder / "report.json")
    write_json(paths.json, summary.to_dict())
    write_text(paths.markdown, text)
    write_text(paths.html, page)
    return paths
