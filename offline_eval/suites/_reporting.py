"""Write the report of a run, whatever its suite."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..report import ReportPaths, ReportWriter, Section
from ._driver import read_suite_run
from .base import SuiteRun

PathLike = str | os.PathLike[str]


def write_report(
    run_dir: PathLike,
    *,
    out_dir: PathLike | None = None,
    compare: Sequence[PathLike] = (),
    formats: Sequence[str] = ("html", "md", "json"),
    gates: Sequence[str] = (),
    systems: Sequence[str] = (),
    extra: Sequence[Section] = (),
) -> ReportPaths:
    """Write the report of a run folder; nothing is written if the run is damaged.

    Args:
        run_dir: folder that a suite wrote; the report of an unfinished run says so.
        out_dir: folder for the files, made where missing; None: the run folder.
        compare: folders of other runs, for suites that compare runs.
        formats: some of `html`, `md`, `json`, `csv` (if the suite has rows) and `junit` (if it
            has checks, or with gates).
        gates: expressions that must not hold, see `offline_eval.report`. If more than 5 % of
            the rows failed, that is a failed gate, too, unless a gate names `failed`.
        systems: names of systems whose numbers the gates are about; empty for the whole run.
        extra: further sections, in front of those of the run.

    Returns:
        Where the files are, and the results of the gates.

    Raises:
        InputError: a file of the run is missing, damaged, empty or written by a newer
            knowgate; the suite is unknown; a run cannot be compared, a format cannot be made
            or a gate cannot be read; or a file cannot be written.
    """
    folder = run_dir if out_dir is None else out_dir
    writer = ReportWriter(folder, formats, gates, systems=systems)
    run = read_suite_run(run_dir)
    others = [read_suite_run(folder, run.suite) for folder in compare]
    suite = run.suite
    document = suite.report(suite.compare(run, others) if others else suite.score(run))
    return writer.write(
        replace(
            document,
            sections=(*extra, *document.sections),
            values={"failed": _failed(run), **document.values},
        )
    )


def _failed(run: SuiteRun[Any]) -> float | None:
    """Return the share of the rows with an error; None without rows."""
    failed = [getattr(row, "error", None) is not None for row in run.rows]
    return sum(failed) / len(failed) if failed else None
