"""`knowgate demo`: the whole way from a knowledge base to guarded answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ._app import app
from ._console import out, progress_bar

if TYPE_CHECKING:
    from ..demo import LiveAnswer


@app.command()
def demo(
    out_dir: Annotated[
        Path, typer.Option("--out", help="Folder for run, policy and report.")
    ] = Path("knowgate-demo"),
) -> None:
    """Guard a small RAG chain, calibrate it and report: offline, without a key.

    Example: `knowgate demo --out knowgate-demo`
    """
    # Torch and the model take seconds to load: only when asked for.
    from ...guard.relevance import BiEncoderScorer
    from ..demo import run_city_demo

    out.print("Loading the embedded scorer …")
    encoder = BiEncoderScorer()
    out.print("Measuring 178 questions on 86 city articles, each with its article and without …")
    with progress_bar("measuring cases") as advance:
        found = run_city_demo(out_dir, encoder, on_progress=advance)
    if found.policy.guarantee is not None:
        out.print(f"\n{found.policy.guarantee.statement}\n", markup=False)
    for answer in found.answers:
        _show(answer)
    out.print(
        f"\npolicy → {found.policy_path}\nreport → {found.report} (open it in a browser)",
        markup=False,
    )


def _show(answer: LiveAnswer) -> None:
    there = "in the knowledge base" if answer.in_kb else "missing from the knowledge base"
    out.print(Text(answer.question, style="bold"), f"(its article is {there})")
    out.print(f"  relevance {answer.relevance:.2f} → {answer.route}")
    out.print(Text(f"  with the guard:    {answer.reply}"))
    out.print(Text(f"  without the guard: {answer.unguarded}\n", style="dim"))
