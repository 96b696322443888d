"""`knowgate report`: a run rendered for people and machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._app import app
from ._console import out


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder for the report; the run folder by default.")
    ] = None,
) -> None:
    """Write report.html, report.md and report.json of a run.

    Example: `knowgate report run`
    """
    from ..report import write_report  # plots and templates: only this command needs them

    paths = write_report(run, out_dir=out_dir)
    out.print(f"report → {paths.html}", markup=False)
