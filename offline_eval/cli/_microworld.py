"""`knowgate microworld …`: the bundled language model and what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._app import app
from ._console import err, print_figures, print_table, prints_figures

microworld = typer.Typer(
    no_args_is_help=True,
    help="The bundled language model, of which it is known fact by fact what it knows.",
)
app.add_typer(microworld, name="microworld")


@microworld.command()
def path() -> None:
    """Print the model's folder, for `from_pretrained` or `HuggingFaceLM`.

    Example: `knowgate microworld path`
    """
    from ..testbed import microworld_model_path

    typer.echo(microworld_model_path())


@microworld.command()
@prints_figures
def check(
    model: Annotated[
        Path | None, typer.Option(help="Another model folder in place of the bundled one.")
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="Most facts per row; all by default.")
    ] = None,
) -> None:
    """Ask the model in every scenario and print what it does.

    Example: `knowgate microworld check --json > check.json`
    """
    from ..testbed import check_microworld

    if model is not None:
        from ...adapters.huggingface import HuggingFaceLM

        # Says in one line what is wrong with a folder, before minutes are spent on it.
        HuggingFaceLM(model, device="cpu")
    if err.is_terminal:
        err.print("asking some 6,000 questions, about two minutes on two cores …")
    found = check_microworld(model_path=model, questions=questions)
    print_table(
        ("measure", "value", "n", "target"),
        [(name, value, str(n), target) for name, value, n, target in found.rows()],
    )
    print_figures(found.to_json())
