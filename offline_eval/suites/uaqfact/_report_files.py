"""The report of a run of this suite."""

from __future__ import annotations

import os

from ...report import SuiteReport, render_html, render_markdown
from ._report_plots import draw_plots
from ._report_summary import summarise_uaqfact
from ._report_view import uaqfact_view
from ._run_reading import read_uaqfact_run


def uaqfact_report(run_dir: str | os.PathLike[str]) -> SuiteReport:
    """The report of a run that `knowgate eval uaqfact` wrote, finished or not.

    Raises:
        InputError: a file of the run is missing, broken or written by a newer knowgate.
    """
    summary = summarise_uaqfact(read_uaqfact_run(run_dir))
    view = uaqfact_view(summary)
    return SuiteReport(
        name="knowgate.uaqfact",
        values=summary.to_dict(),
        html=lambda _gates: render_html(view, draw_plots(summary), "uaqfact.html"),
        markdown=lambda _gates: render_markdown(view, "uaqfact.md"),
    )
