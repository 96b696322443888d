"""Writing report.html, report.md and report.json."""

from __future__ import annotations

import os
from pathlib import Path

from ...guard import InputError
from ...guard.files import write_json, write_text
from ..ookb import read_ookb_run
from ..runs import read_manifest
from ._cases import measured_cases
from ._paths import ReportPaths
from ._plots import draw_plots
from ._rendering import render_html, render_markdown
from ._summary import summarise
from ._view import report_view
from .uniknow import write_uniknow_report


def write_report(
    run_dir: str | os.PathLike[str], *, out_dir: str | os.PathLike[str] | None = None
) -> ReportPaths:
    """Write the report of a run folder; nothing is written where the run is broken.

    Args:
        run_dir: folder that `knowgate eval ookb`, calibrated or not, or `knowgate eval
            uniknow` wrote; of an unfinished run the report says so.
        out_dir: folder for the three files, made where missing; None: the run folder.

    Raises:
        InputError: a file of the run is missing, broken, empty or written by a newer
            knowgate, no report is known for its suite, or the report cannot be written.
    """
    suite = read_manifest(run_dir).get("suite")
    if suite == "ookb":
        return _write_ookb_report(run_dir, out_dir=out_dir)
    if suite == "uniknow":
        return write_uniknow_report(run_dir, out_dir=out_dir)
    raise InputError(
        f"there is no report for a run of suite {suite!r}",
        where=str(Path(run_dir) / "manifest.json"),
        mend="name a run made with `knowgate eval ookb` or `knowgate eval uniknow`",
    )


def _write_ookb_report(
    run_dir: str | os.PathLike[str], *, out_dir: str | os.PathLike[str] | None
) -> ReportPaths:
    run = read_ookb_run(run_dir, unfinished=True)
    cases = measured_cases(run)
    summary = summarise(run, cases)
    view = report_view(run, cases, summary)
    page = render_html(view, draw_plots(run, cases, summary))
    text = render_markdown(view)
    paths = ReportPaths.within(run_dir if out_dir is None else out_dir)
    write_json(paths.json, summary.to_dict())
    write_text(paths.markdown, text)
    write_text(paths.html, page)
    return paths
