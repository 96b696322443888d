"""`knowgate export …`: a run of replies as files that other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..data.formats import export_knowornot
from ._app import app
from ._console import out, print_figures, prints_figures
from ._import import warn

export_app = typer.Typer(
    no_args_is_help=True, help="Write a run of replies as files that other tools read."
)
app.add_typer(export_app, name="export")


@export_app.command()
@prints_figures
def knowornot(
    run: Annotated[Path, typer.Argument(help="Run of replies.")],
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the documents.")],
) -> None:
    """KnowOrNot's question, input, output and evaluated documents.

    One set per system, knowledge base and experiment type; replies to questions whose
    answer the knowledge base holds have no place there and are left out.

    Example: `knowgate export knowornot run --out documents`
    """
    paths = export_knowornot(run, out_dir, on_warning=warn)
    print_figures({"documents": paths})
    out.print(f"{len(paths)} documents → {out_dir}", markup=False)
