"""`knowgate shadow-report`: what enforcing would have changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...guard.errors import InputError
from .. import policies
from ..policies.shadow import write_labelled_questions
from ..report.document import Document
from ..report.text import percent
from ..report.writing import ReportWriter
from ._console import err, out, print_figures, prints_figures, progress_bar
from ._options import FAIL_IF

_LOGS = typer.Argument(metavar="LOGS", help="Files or folders of knowgate.guard.DecisionLog.")
_LABELS = typer.Option(
    help='JSON lines: {"question_id" or "question", "answerable" or "right": true or false}.'
)
_COMPARE = typer.Option(
    help="Another log, compared on the questions that both decided. May be given more than once."
)
_OUT = typer.Option("--out", help="Folder for the report; without it, figures are printed only.")
_QUESTIONS = typer.Option(
    "--questions-out",
    help="With --labels: write the questions that they call answerable or not into this folder, "
    "for `knowgate measure` (--questions answerable.jsonl --unanswerable unanswerable.jsonl).",
)


@prints_figures
def shadow_report(
    logs: Annotated[list[Path], _LOGS],
    labels: Annotated[Path | None, _LABELS] = None,
    compare: Annotated[list[Path] | None, _COMPARE] = None,
    guard: Annotated[
        str | None, typer.Option(help="Name of the guard; by default the one that decided last.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Id of its policy; by default the last one.")
    ] = None,
    out_dir: Annotated[Path | None, _OUT] = None,
    questions_out: Annotated[Path | None, _QUESTIONS] = None,
    fail_if: Annotated[list[str] | None, FAIL_IF] = None,
) -> None:
    """Say what enforcing a guard would have changed, from its decisions in shadow mode.

    The share that would abstain, by reason, by route and over time, with intervals and with
    examples by id; with labels also leak, false abstention and wrong replies. Exit code 3 where
    the policy certifies nothing, 1 where decisions are missing, too many failed, or a gate fails.

    Example: `knowgate shadow-report decisions --labels labels.jsonl --out report`
    """
    if questions_out is not None and labels is None:
        raise InputError("needs labels", where="--questions-out", hint="name a file with --labels")
    with progress_bar("reading decisions") as advance:
        document = policies.shadow_report(
            logs,
            labels=labels,
            compare=compare or (),
            guard=guard,
            policy_id=policy,
            on_progress=advance,
        )
    gates = _report(document, out_dir, fail_if or ())
    print_figures(dict(document.values))
    for line in (document.subtitle, *document.headline, *_reasons(document)):
        out.print(line, markup=False)
    for warning in document.warnings:
        err.print(f"warning: {warning}", style="yellow", markup=False)
    if questions_out is not None and labels is not None:
        for line in write_labelled_questions(questions_out, labels, logs, guard, policy):
            out.print(line, markup=False)
    for line in gates:
        err.print(f"gate failed: {line}", markup=False)
    if document.values["certified"] is False:
        raise typer.Exit(3)
    if gates or document.values["problems"]:
        raise typer.Exit(1)


def _report(document: Document, folder: Path | None, gates: Sequence[str]) -> list[str]:
    """Write the report where one is asked for; return the gates that failed, a line each."""
    if folder is None:
        if gates:
            raise InputError("needs a report", where="--fail-if", hint="add --out")
        return []
    paths = ReportWriter(folder, gates=gates).write(document)
    for path in reversed(paths.written):
        out.print(f"report → {path}", markup=False)
    return [
        f"{result.text} (fail if {result.gate.text})" for result in paths.gates if result.failed
    ]


def _reasons(document: Document) -> Iterator[str]:
    for name, share in document.values["reasons"].items():
        yield f"  {name:<28}{percent(share['value'])}"
