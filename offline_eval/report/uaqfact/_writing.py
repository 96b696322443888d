"""The report of a run of this suite."""

from __future__ import annotations

import os

from ...uaqfact import read_uaqfact_run
from .._rendering import render_html, render_markdown
from .._suite_report import SuiteReport
from ._plots import draw_plots
from ._summary import summarise_uaqfact
from ._view import uaqfact_view


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
