"""`knowgate report`: a run rendered for people and machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._console import err, out, print_figures
from ._options import FailIf, prints_figures


@prints_figures
def report(
    run: Annotated[Path, typer.Argument()],
    out_dir: Path | None = None,
    compare: list[Path] | None = None,
    formats: Annotated[str, typer.Option("--format")] = "html,md,json",
    suite: str | None = None,
    fail_if: FailIf = None,
    system: list[str] | None = None,
) -> None:
    """Write the report of a run, and check gates against it.

    Comparing and csv are for runs of replies. Where some systems of such a run have a guard,
    its rates over all systems are those of the systems with a guard.

    Examples: `knowgate report run` ·
    `knowgate report run --compare last-release --fail-if 'abstention_rate<0.9'`

    Args:
        run: A run folder, finished or not.
        out_dir: Folder for the report; the run folder by default.
        compare: Another run of replies: differences on the questions that both answered. May
            be given more than once.
        formats: Files to write, comma-separated: html, md, json, csv (one line per reply),
            junit (for CI systems).
        suite: The suite of the run, python:module:attribute, if it is neither built in nor
            installed.
        system: Check the gates against the numbers of this system, not of all together: its id
            in report.json. May be given more than once.
    """
    from ..suites import find_suite, write_report

    if suite is not None:
        find_suite(suite)  # known from here on by its own name
    paths = write_report(
        run,
        out_dir=out_dir,
        compare=compare or (),
        formats=[name.strip() for name in formats.split(",") if name.strip()],
        gates=fail_if or (),
        systems=system or (),
    )
    gates = [
        {
            "expression": one.gate.text,
            "value": one.value,
            "system": one.system,
            "failed": one.failed,
        }
        for one in paths.gates
    ]
    print_figures({"written": paths.written, "gates": gates})
    for path in reversed(paths.written):
        out.print(f"report → {path}")
    failed = [result for result in paths.gates if result.failed]
    for result in failed:
        err.print(f"gate failed: {result.failure}")
    if failed:
        raise typer.Exit(1)
