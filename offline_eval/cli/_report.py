"""`knowgate report` and `knowgate shadow-report`: runs and logs for people and machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..report.text import percent
from ._console import err, out, print_figures, progress_bar
from ._options import FailIf, prints_figures, reject, separated

if TYPE_CHECKING:
    from ..report.writing import ReportPaths


@prints_figures
def report(
    run: Annotated[Path, typer.Argument()],
    out_dir: Path | None = None,
    compare: list[Path] | None = None,
    formats: Annotated[str, typer.Option("--format")] = "html,md,json",
    suite: str | None = None,
    fail_if: FailIf = None,
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
    """
    from ..suites import find_suite, write_report

    if suite is not None:
        # Known from here on by its own name.
        find_suite(suite)
    paths = write_report(
        run,
        out_dir=out_dir,
        compare=compare or (),
        formats=separated([formats]),
        gates=fail_if or (),
    )
    gates = [
        {name: getattr(one, name) for name in ("expression", "value", "failed")}
        for one in paths.gates
    ]
    print_figures({"written": paths.written, "gates": gates})
    failed = _shown(paths)
    for line in failed:
        err.print(f"gate failed: {line}")
    if failed:
        raise typer.Exit(1)


def _shown(paths: ReportPaths) -> list[str]:
    """Print where a report is; return the gates that failed, a line each."""
    for path in reversed(paths.written):
        out.print(f"report → {path}")
    return [one.failure for one in paths.gates if one.failed]


@prints_figures
def shadow_report(
    logs: Annotated[list[Path], typer.Argument(metavar="LOGS")],
    labels: Path | None = None,
    guard: str | None = None,
    policy: str | None = None,
    out_dir: Path | None = None,
    fail_if: FailIf = None,
) -> None:
    """Say what enforcing a guard would have changed, from its decisions in shadow mode.

    The share that would abstain, by reason, by route and over time, with intervals;
    with labels also leak, false abstention and wrong replies. Exit code 3 where
    the policy certifies nothing, 1 where decisions are missing, too many failed, or a gate fails.

    Example: `knowgate shadow-report decisions --labels labels.jsonl --out report`

    Args:
        logs: Files or folders of knowgate.guard.DecisionLog.
        labels: JSON lines: {"question_id" or "question", "answerable" or "right": true or
            false}.
        guard: Name of the guard; by default the one that decided last.
        policy: Id of its policy; by default the last one.
        out_dir: Folder for the report; without it, figures are printed only.
    """
    from .. import policies
    from ..report.writing import ReportWriter

    with progress_bar("reading decisions") as advance:
        document = policies.shadow_report(
            logs,
            labels=labels,
            guard=guard,
            policy_id=policy,
            on_progress=advance,
        )
    gates = []
    if out_dir is not None:
        gates = _shown(ReportWriter(out_dir, gates=fail_if or ()).write(document))
    else:
        reject({"fail_if": fail_if}, "needs a report", "add --out")
    print_figures(dict(document.values))
    reasons = document.values["reasons"].items()
    shares = (f"  {name:<28}{percent(share['value'])}" for name, share in reasons)
    for line in (document.subtitle, *document.headline, *shares):
        out.print(line)
    for warning in document.warnings:
        err.print(f"warning: {warning}", style="yellow")
    for line in gates:
        err.print(f"gate failed: {line}")
    if document.values["certified"] is False:
        raise typer.Exit(3)
    if gates or document.values["problems"]:
        raise typer.Exit(1)
