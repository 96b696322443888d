"""`knowgate shadow-report`: what enforcing would have changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from .. import policies
from ..policies.shadow import write_labelled_questions
from ..report.document import Document
from ..report.text import percent
from ..report.writing import ReportWriter
from ._console import err, out, print_figures, progress_bar
from ._options import FailIf, prints_figures, reject


@prints_figures
def shadow_report(
    logs: Annotated[list[Path], typer.Argument(metavar="LOGS")],
    labels: Path | None = None,
    compare: list[Path] | None = None,
    guard: str | None = None,
    policy: str | None = None,
    out_dir: Path | None = None,
    questions_out: Path | None = None,
    fail_if: FailIf = None,
) -> None:
    """Say what enforcing a guard would have changed, from its decisions in shadow mode.

    The share that would abstain, by reason, by route and over time, with intervals and with
    examples by id; with labels also leak, false abstention and wrong replies. Exit code 3 where
    the policy certifies nothing, 1 where decisions are missing, too many failed, or a gate fails.

    Example: `knowgate shadow-report decisions --labels labels.jsonl --out report`

    Args:
        logs: Files or folders of knowgate.guard.DecisionLog.
        labels: JSON lines: {"question_id" or "question", "answerable" or "right": true or
            false}.
        compare: Another log, compared on the questions that both decided. May be given more
            than once.
        guard: Name of the guard; by default the one that decided last.
        policy: Id of its policy; by default the last one.
        out_dir: Folder for the report; without it, figures are printed only.
        questions_out: With --labels: write the questions that they call answerable or not into
            this folder, for `knowgate measure` (--questions answerable.jsonl --unanswerable
            unanswerable.jsonl).
    """
    if labels is None:
        reject({"questions_out": questions_out}, "needs labels", "name a file with --labels")
    with progress_bar("reading decisions") as advance:
        document = policies.shadow_report(
            logs,
            labels=labels,
            compare=compare or (),
            guard=guard,
            policy_id=policy,
            on_progress=advance,
        )
    gates = []
    if out_dir is not None:
        paths = ReportWriter(out_dir, gates=fail_if or ()).write(document)
        for path in reversed(paths.written):
            out.print(f"report → {path}")
        gates = [one.failure for one in paths.gates if one.failed]
    else:
        reject({"fail_if": fail_if}, "needs a report", "add --out")
    print_figures(dict(document.values))
    for line in (document.subtitle, *document.headline, *_reasons(document)):
        out.print(line)
    for warning in document.warnings:
        err.print(f"warning: {warning}", style="yellow")
    if questions_out is not None and labels is not None:
        for line in write_labelled_questions(questions_out, labels, logs, guard, policy):
            out.print(line)
    for line in gates:
        err.print(f"gate failed: {line}")
    if document.values["certified"] is False:
        raise typer.Exit(3)
    if gates or document.values["problems"]:
        raise typer.Exit(1)


def _reasons(document: Document) -> Iterator[str]:
    for name, share in document.values["reasons"].items():
        yield f"  {name:<28}{percent(share['value'])}"
