"""`knowgate demo`: the whole way from a knowledge base to guarded answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ._app import app
from ._call_progress import call_stages
from ._console import out, print_figures, prints_figures


@app.command()
@prints_figures
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
    from ...guard.signals.relevance import load_scorer
    from ._calibration_output import rate_text
    from ._city_demo import SCORERS, run_city_demo
    from ._microworld_demo import run_microworld_demo

    out.print("Loading the embedded scorer …")
    encoder = BiEncoderScorer()
    out.print("Measuring 178 questions on 86 city articles, each with its article and without …")
    with call_stages() as advance:
        scorers = {name: load_scorer(name) for name in SCORERS}
        found = run_city_demo(out_dir, encoder, scorers, on_progress=advance)
    if found.policy.guarantee is not None:
        out.print(f"\n{found.policy.guarantee.statement}\n", markup=False)
    out.print(
        f"Of {' and '.join(SCORERS)}, {found.scorer} abstains least: from "
        f"{rate_text(found.false_abstention)} of the questions whose article is there.\n",
        markup=False,
    )
    for answer in found.answers:
        _show(Text(answer.question, style="bold"), *answer.texts())
    out.print("\nNow with a language model, on the microworld: a region that does not exist …\n")
    counts: dict[str, dict[str, int]] = {}
    table = Table("situation", "questions", "right with the guard", "right without it")
    for title, answers in run_microworld_demo(out_dir, encoder).by_situation().items():
        out.print(Text(title, style="bold"))
        for one in answers:
            _show(None, *one.texts())
        right = sum(one.right for one in answers), sum(one.unguarded_right for one in answers)
        names = ("questions", "right_with_guard", "right_without")
        counts[title.partition(":")[0]] = dict(zip(names, (len(answers), *right), strict=True))
        table.add_row(title.partition(":")[0], *map(str, (len(answers), *right)))
    print_figures(
        {
            "answers": found.answers,
            "situations": counts,
            "policy": found.policy_path,
            "report": found.report,
        }
    )
    out.print(table)
    out.print(
        f"\npolicy → {found.policy_path}\nreport → {found.report} (open it in a browser)",
        markup=False,
    )


def _show(question: Text | None, decision: str, guarded: str, unguarded: str) -> None:
    """Print what the guard decided, and the replies with and without it."""
    if question is None:
        out.print(Text(decision))
    else:
        out.print(question, Text(decision))
    out.print(Text(guarded))
    out.print(Text(unguarded, style="dim"))
