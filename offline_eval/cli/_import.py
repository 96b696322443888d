"""`knowgate import …`: replies that other tools logged, as a run of replies."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ..data.formats import import_knowornot, import_lm_eval
from ._app import app
from ._console import err, out

import_app = typer.Typer(
    no_args_is_help=True, help="Make a run of replies from files that other tools wrote."
)
app.add_typer(import_app, name="import")


@import_app.command()
def knowornot(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="KnowOrNot's input, output, evaluated and question documents (.json), in any mix.",
        ),
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="Run folder.")],
) -> None:
    """KnowOrNot's experiments, with what its judges made of them.

    Input, output and evaluated document of one experiment become one system. Its
    evaluations become judgements of the judge `given`.

    Example: `knowgate import knowornot input.json output.json evaluated.json --out run`
    """
    _done(import_knowornot(files, out_dir, on_warning=warn))


@import_app.command(name="lm-eval")
def lm_eval(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="Sample logs that lm-evaluation-harness writes with --log_samples.",
        ),
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="Run folder.")],
    model: Annotated[
        str | None,
        typer.Option(help="Name of the model; by default the log's folder, where that names it."),
    ] = None,
) -> None:
    """Sample logs of the lm-evaluation-harness: generation and multiple-choice tasks.

    Metrics become judgements of the judge `lm-eval`.

    Example: `knowgate import lm-eval results/gpt2/samples_triviaqa_2025-01-01T00-00-00.jsonl
    --out run`
    """
    _done(import_lm_eval(files, out_dir, model=model, on_warning=warn))


def warn(warning: object) -> None:
    """Say on standard error what was left out."""
    err.print("warning: " + " ".join(str(warning).split()), style="yellow", markup=False)


def _done(folder: Path) -> None:
    report = f"knowgate report {quote(str(folder))}"
    out.print(f"run → {folder}\nnext: {report} --out report", markup=False)
