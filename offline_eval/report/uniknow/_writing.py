"""The report of a run of this suite, in all its forms."""

from __future__ import annotations

import os

from ....guard.files import write_json, write_text
from .._paths import ReportPaths
from .._rendering import render_html, render_markdown
from .._suite_report import SuiteReport
from ._evidence import read_evidence
from ._plots import draw_plots
from ._summary import summarise
from ._view import uniknow_view


def uniknow_report(run_dir: str | os.PathLike[str]) -> SuiteReport:
    """The report of a run folder.

    Raises:
        InputError: a file of the run is missing, broken, empty or written by a newer
            knowgate.
    """
    summary = summarise(read_evidence(run_dir))
    view = uniknow_view(summary)
    return SuiteReport(
        name="knowgate.uniknow",
        values=summary.to_dict(),
        html=lambda _gates: render_html(
            view, draw_plots(summary.main, summary.ablations), "uniknow.html"
        ),
        markdown=lambda _gates: render_markdown(view, "uniknow.md"),
    )


def write_uniknow_report(
    run_dir: str | os.PathLike[str], *, out_dir: str | os.PathLike[str] | None = None
) -> ReportPaths:
    """Write the report of a run folder; nothing is written where the run is broken.

    Args:
        run_dir: folder that `knowgate eval uniknow` wrote; of an unfinished run the
            report says so.
        out_dir: folder for the three files, made where missing; None: the run folder.

    Raises:
        InputError: a file of the run is missing, broken, empty or written by a newer
            knowgate, or the report cannot be written.
    """
    report = uniknow_report(run_dir)
    page, text = report.html(()), report.markdown(())
    paths = ReportPaths.within(run_dir if out_dir is None else out_dir)
    write_json(paths.json, report.values)
    write_text(paths.markdown, text)
    write_text(paths.html, page)
    return paths
