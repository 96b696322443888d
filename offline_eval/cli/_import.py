"""`knowgate import`: replies that other tools logged, as a run of replies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..data.formats.knowornot import import_knowornot
from ..data.formats.lm_eval import import_lm_eval
from ._console import err, tell
from ._options import documented, reject


@documented
def import_(
    form: Annotated[Literal["knowornot", "lm-eval"], typer.Argument(metavar="knowornot|lm-eval")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE…")],
    out_dir: Path,
    model: str | None = None,
) -> None:
    """Make a run of replies from files that other tools wrote.

    Input, output and evaluated document of one experiment of KnowOrNot become one system; its
    evaluations become judgements of the judge `given`. Of the lm-evaluation-harness, generation
    and multiple-choice tasks are read; metrics become judgements of the judge `lm-eval`.

    Example: `knowgate import knowornot input.json output.json evaluated.json --out run`

    Args:
        form: Whose files.
        files: knowornot: input, output, evaluated and question documents (.json), in any mix.
            lm-eval: sample logs that lm-evaluation-harness writes with --log_samples.
        out_dir: Run folder.
        model: lm-eval: name of the model; by default the log's folder, where that names it.
    """
    if form == "lm-eval":
        folder = import_lm_eval(files, out_dir, model=model, on_warning=_warn)
    else:
        reject({"model": model}, "is for lm-eval")
        folder = import_knowornot(files, out_dir, on_warning=_warn)
    tell("imported_run", folder)


def _warn(warning: str) -> None:
    """Say on standard error what was left out."""
    err.print("warning: " + " ".join(warning.split()), style="yellow")
