"""Writing the files of a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from ...guard.errors import InputError
from ...guard.files import write_json, write_text
from ..report import (
    DEFAULT_FORMATS,
    FORMATS,
    Document,
    Gates,
    ReportPaths,
    ReportWriter,
    SuiteReport,
    check_gates,
    gate_checks,
    junit_xml,
    parse_gate,
    path_of,
    paths_within,
)
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
    formats: Sequence[str] = DEFAULT_FORMATS,
    gates: Sequence[str] = (),
) -> ReportPaths:
    """Write the report of a run folder; nothing is written where the run is broken.

    Args:
        run_dir: folder that `knowgate eval ookb`, calibrated or not, or `knowgate eval
            uniknow` wrote; of an unfinished run the report says so.
        out_dir: folder for the files, made where missing; None: the run folder.
        compare: folders of other runs, for runs of replies alone.
        formats: some of `html`, `md`, `json`, `csv` (runs of replies alone) and `junit`
            (these, or with gates).
        gates: expressions that must not hold, see `offline_eval.gates`.

    Returns:
        Where the files lie, and what became of the gates.

    Raises:
        InputError: a file of the run is missing, broken, empty or written by a newer
            knowgate; no report is known for its suite; a run cannot be compared, a format
            not be made or a gate not be read; or the report cannot be written.
    """
    writer = ReportWriter(run_dir if out_dir is None else out_dir, formats, gates)
    wanted = _checked_formats(formats)
    for text in gates:
        parse_gate(text)
    report = _suite_report(run_dir, compare)
    if isinstance(report, Document):
        return writer.write(report)
    results = check_gates(report.values, gates)
    texts = {name: _text_of(report, name, results) for name in wanted if name != "json"}
    paths = paths_within(run_dir if out_dir is None else out_dir)
    for name in wanted:
        if name == "json":
            own = {"gates": [result.to_dict() for result in results]} if results else {}
            write_json(paths.json, {**report.values, **own})
        else:
            write_text(path_of(paths, name), texts[name])
    return replace(paths, written=tuple(path_of(paths, name) for name in wanted), gates=results)


def _checked_formats(formats: Sequence[str]) -> list[str]:
    if not formats:
        raise InputError(
            "no format given", where="--format", hint=f"choose some of {', '.join(FORMATS)}"
        )
    for name in formats:
        if name not in FORMATS:
            raise InputError(
                f"no such format: {name[:80]!r}",
                where="--format",
                hint=f"choose some of {', '.join(FORMATS)}",
            )
    # The page last: whoever waits for it finds the others there.
    return [name for name in ("json", "csv", "junit", "md", "html") if name in formats]


# Suites that are not `Suite` objects yet.
_REPORTS = {
    "ookb": ".ookb:signals_report",
    "conflict": ".conflict:conflict_report",
    "uniknow": ".uniknow:uniknow_report",
}


def _suite_report(run_dir: PathLike, compare: Sequence[PathLike]) -> SuiteReport | Document:
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
    made: SuiteReport | Document = getattr(import_module(module, __package__), attribute)(run_dir)
    return made


def _text_of(report: SuiteReport, name: str, gates: Gates) -> str:
    if name == "html":
        return report.html(gates)
    if name == "md":
        return report.markdown(gates)
    if name == "csv":
        if report.csv is None:
            raise _no_format("csv", "only runs of replies have one")
        return report.csv()
    if gates:
        return junit_xml(report.name, gate_checks(report.name, gates))
    if report.checks is None:
        raise _no_format("junit", "a run of this suite needs gates for it")
    return junit_xml(report.name, report.checks())


def _no_format(name: str, why: str) -> InputError:
    hint = "give a --fail-if" if name == "junit" else "choose another format"
    return InputError(f"there is no {name} of this report: {why}", where="--format", hint=hint)
