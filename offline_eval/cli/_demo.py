"""`knowgate demo`: the whole way from a knowledge base to guarded answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ...guard.files import write_json
from ._app import app
from ._call_progress import call_stages
from ._console import out, print_figures, print_table, prints_figures

if TYPE_CHECKING:
    from ...guard.contracts import LanguageModel, RelevanceScorer
    from ...guard.engine import BiEncoderScorer
    from ._city_demo import CityDemo


# What a reply in one sentence may have.
_SENTENCE_TOKENS = 40


@app.command()
@prints_figures
def demo(
    out_dir: Annotated[
        Path, typer.Option("--out", help="Folder for run, policy and report.")
    ] = Path("knowgate-demo"),
    model: Annotated[
        str | None,
        typer.Option(
            help="A language model that reads the articles and answers all questions, e.g. "
            "smollm2 (6 minutes of CPU time)."
        ),
    ] = None,
) -> None:
    """Guard a small RAG chain, calibrate it and report: offline, without a key.

    Example: `knowgate demo --out knowgate-demo`
    """
    # Torch and the model take seconds to load: only when asked for.
    from ...guard.engine import BiEncoderScorer
    from ...guard.signals.relevance import load_scorer
    from ._calibration_output import rate_text
    from ._city_demo import SCORERS, measure_city, run_city_demo

    # Before anything is measured: it may be missing.
    lm = None if model is None else _loaded(model)
    out.print("Loading the embedded scorer …")
    encoder = BiEncoderScorer()
    out.print("Measuring 178 questions on 86 city articles, each with its article and without …")
    with call_stages() as advance:
        scorers = {name: load_scorer(name) for name in SCORERS}
        city = run_city_demo if lm is None else measure_city
        found = city(out_dir, encoder, scorers, on_progress=advance)
    if found.policy.guarantee is not None:
        out.print(f"\n{found.policy.guarantee.statement}\n", markup=False)
    out.print(
        f"Of {' and '.join(SCORERS)}, {found.scorer} abstains least: from "
        f"{rate_text(found.false_abstention)} of the questions whose article is there.\n",
        markup=False,
    )
    if lm is None or model is None:
        _show_live(found)
        counts = _show_microworld(out_dir, encoder)
        figures: dict[str, Any] = {"answers": found.answers, "situations": counts}
    else:
        figures = _show_model(found, lm, encoder, scorers, model)
    print_figures({**figures, "policy": found.policy_path, "report": found.report})
    out.print(
        f"\npolicy → {found.policy_path}\nreport → {found.report} (open it in a browser)",
        markup=False,
    )


def _loaded(model: str) -> LanguageModel:
    from ...adapters.huggingface import HuggingFaceLM
    from ..systems import load_language_model, local_model

    folder = local_model(model)
    if folder is None:
        return load_language_model(model)
    return HuggingFaceLM(folder, max_new_tokens=_SENTENCE_TOKENS)


def _show_live(found: CityDemo) -> None:
    for answer in found.answers:
        _show(Text(answer.question, style="bold"), *answer.texts())


def _show_microworld(out_dir: Path, encoder: BiEncoderScorer) -> dict[str, dict[str, int]]:
    """Print the answers, and return how many are right by situation."""
    from ._microworld_demo import run_microworld_demo

    out.print("\nNow with a language model, on the microworld: a region that does not exist …\n")
    counts: dict[str, dict[str, int]] = {}
    lines = []
    for title, answers in run_microworld_demo(out_dir, encoder).by_situation().items():
        out.print(Text(title, style="bold"))
        for one in answers:
            _show(None, *one.texts())
        right = sum(one.right for one in answers), sum(one.unguarded_right for one in answers)
        names = ("questions", "right_with_guard", "right_without")
        counts[title.partition(":")[0]] = dict(zip(names, (len(answers), *right), strict=True))
        lines.append((title.partition(":")[0], *map(str, (len(answers), *right))))
    print_table(("situation", "questions", "right with the guard", "right without it"), lines)
    return counts


def _show_model(
    city: CityDemo,
    lm: LanguageModel,
    encoder: BiEncoderScorer,
    scorers: Mapping[str, RelevanceScorer],
    model: str,
) -> dict[str, Any]:
    """Ask all questions, print examples and counts, and put them into the report page."""
    from ..suites import write_report
    from ._model_demo import OUTCOMES, interval_text, run_model_demo

    out.print(f"Now {model} reads the articles; every other one is missing …\n", markup=False)
    with call_stages() as advance:
        out_dir = city.policy_path.parent
        found = run_model_demo(out_dir, lm, encoder, scorers, model=model, on_progress=advance)
    for one in found.examples():
        there = "there" if one.in_kb else "missing"
        _show(
            Text(one.record.question, style="bold"),
            f"(its article is {there}: {one.record.answer})",
            f"  with the guard:    {one.guarded.text}  ({one.guarded.outcome})",
            f"  without the guard: {one.unguarded.text}  ({one.unguarded.outcome})\n",
        )
    lines = []
    for title, answers in found.rows():
        for name in ("no guard", "guard"):
            counts = found.counts(answers, guarded=name == "guard")
            lines.append((f"{title} ({len(answers)})", name, *map(interval_text, counts)))
    print_table(("questions", "", *OUTCOMES), lines)
    out.print(
        f"wrong replies without the guard minus with it: {interval_text(found.fewer_wrong())}; "
        f"{found.seconds:.0f} s for all replies",
        markup=False,
    )
    replies = out_dir / "help_desk.json"
    write_json(replies, found.lines())
    out.print(f"all replies → {replies}", markup=False)
    write_report(city.report.parent, extra=(found.section(),))
    return found.figures()


def _show(question: Text | None, decision: str, guarded: str, unguarded: str) -> None:
    """Print what the guard decided, and the replies with and without it."""
    if question is None:
        out.print(Text(decision))
    else:
        out.print(question, Text(decision))
    out.print(Text(guarded))
    out.print(Text(unguarded, style="dim"))
