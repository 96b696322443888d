"""`knowgate demo`: the whole way from a knowledge base to guarded answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ._app import app
from ._call_progress import call_stages
from ._console import out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .demo import LiveAnswer, MicroworldAnswer


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
    from ...guard.engine import BiEncoderScorer
    from ...guard.signals.relevance import DEFAULT_SCORER, load_scorer
    from .demo import SITUATIONS, run_city_demo, run_microworld_demo

    out.print("Loading the embedded scorer …")
    encoder = BiEncoderScorer()
    out.print("Measuring 178 questions on 86 city articles, each with its article and without …")
    with call_stages() as advance:
        found = run_city_demo(out_dir, encoder, load_scorer(DEFAULT_SCORER), on_progress=advance)
    if found.policy.guarantee is not None:
        out.print(f"\n{found.policy.guarantee.statement}\n", markup=False)
    for answer in found.answers:
        _show_city(answer)
    out.print("\nNow with a language model, on the microworld: a region that does not exist …\n")
    answers = run_microworld_demo(out_dir, encoder)
    for situation, words in SITUATIONS.items():
        out.print(Text(f"{situation}: {words}", style="bold"))
        for one in (answer for answer in answers if answer.situation == situation):
            _show_microworld(one)
    out.print(_tally(answers))
    out.print(
        f"\npolicy → {found.policy_path}\nreport → {found.report} (open it in a browser)",
        markup=False,
    )


def _show_city(answer: LiveAnswer) -> None:
    there = "in the knowledge base" if answer.in_kb else "missing from the knowledge base"
    out.print(Text(answer.question, style="bold"), f"(its article is {there})")
    out.print(f"  relevance {answer.relevance:.2f} → {answer.route}")
    out.print(Text(f"  with the guard:    {answer.reply}"))
    out.print(Text(f"  without the guard: {answer.unguarded}\n", style="dim"))


def _show_microworld(answer: MicroworldAnswer) -> None:
    out.print(Text(f"  {answer.question}"))
    out.print(f"    {answer.route} (scenario: {answer.scenario})")
    out.print(Text(f"    with the guard:    {answer.guarded}  {_mark(answer.right)}"))
    out.print(
        Text(f"    without the guard: {answer.unguarded}  {_mark(answer.unguarded_right)}\n"),
        style="dim",
    )


def _mark(right: bool) -> str:
    return "(as it should be)" if right else "(WRONG)"


def _tally(answers: Sequence[MicroworldAnswer]) -> Table:
    table = Table("situation", "questions", "right with the guard", "right without it")
    for situation in dict.fromkeys(answer.situation for answer in answers):
        of_kind = [answer for answer in answers if answer.situation == situation]
        table.add_row(
            situation,
            str(len(of_kind)),
            str(sum(answer.right for answer in of_kind)),
            str(sum(answer.unguarded_right for answer in of_kind)),
        )
    return table
