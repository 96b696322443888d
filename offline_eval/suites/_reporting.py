"""Write the report of a run, whatever its suite."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ...guard.errors import InputError
from ..report import Document, ReportPaths, ReportWriter
from ..run import HOLDS_REPLIES, read_manifest
from ._driver import read_suite_run
from ._registry import suite_of
from .ookb import replies_report

PathLike = str | os.PathLike[str]


def write_report(
    run_dir: PathLike,
    *,
    out_dir: PathLike | None = None,
    compare: Sequence[PathLike] = (),
    formats: Sequence[str] = ("html", "md", "json"),
    gates: Sequence[str] = (),
) -> ReportPaths:
    """Write the report of a run folder; nothing is written if the run is damaged.

    Args:
        run_dir: folder that a suite wrote; the report of an unfinished run says so.
        out_dir: folder for the files, made where missing; None: the run folder.
        compare: folders of other runs, for suites that compare runs.
        formats: some of `html`, `md`, `json`, `csv` (if the suite has rows) and `junit` (if it
            has checks, or with gates).
        gates: expressions that must not hold, see `offline_eval.report`.

    Returns:
        Where the files are, and the results of the gates.

    Raises:
        InputError: a file of the run is missing, damaged, empty or written by a newer
            knowgate; the suite is unknown; a run cannot be compared, a format cannot be made
            or a gate cannot be read; or a file cannot be written.
    """
    writer = ReportWriter(run_dir if out_dir is None else out_dir, formats, gates)
    return writer.write(_document(run_dir, compare))


# Suites that are not `Suite` objects yet.
_REPORTS = {
    "conflict": ".conflict:conflict_report",
}


def _document(run_dir: PathLike, compare: Sequence[PathLike]) -> Document:
    manifest = read_manifest(run_dir)
    where = str(Path(run_dir) / "manifest.json")
    name = str(manifest.get("suite"))
    if name == "ookb" and manifest.get("holds") == HOLDS_REPLIES:
        return replies_report(run_dir, compare=compare)
    if name not in _REPORTS:
        suite = suite_of(manifest, where=where)
        run = read_suite_run(run_dir, suite)
        others = [read_suite_run(folder, suite) for folder in compare]
        return suite.report(suite.compare(run, others) if others else suite.score(run))
    if compare:
        raise InputError(
            "only runs of replies can be compared",
            where=where,
            hint="leave --compare out, or make runs with `knowgate eval ookb --model …`",
        )
    module, _, attribute = _REPORTS[name].partition(":")
    made: Document = getattr(import_module(module, __package__), attribute)(run_dir)
    return made
