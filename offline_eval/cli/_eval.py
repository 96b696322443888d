"""`knowgate eval …`: run a suite into a run folder."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ...guard import RelevanceScorer
from ...guard import aggregator as require_aggregator
from ...guard.relevance import DEFAULT_SCORER, BiEncoderScorer, default_aggregator, load_scorer
from ..knowledge_base import PassageKind, build_knowledge_base, read_questions
from ..ookb import OokbSettings, run_ookb
from ._app import app
from ._console import out, progress_bar

suites = typer.Typer(no_args_is_help=True, help="Run a suite of cases into a run folder.")
app.add_typer(suites, name="eval")


@suites.command()
def ookb(
    questions: Annotated[
        Path,
        typer.Option(help="KnowOrNot question document (.json), or JSON lines (.jsonl)."),
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="Run folder; resumed if it exists.")],
    scorer: Annotated[
        str, typer.Option(help="Scorer by name, or a tuned or sentence-transformers folder.")
    ] = DEFAULT_SCORER,
    passage: Annotated[
        PassageKind,
        typer.Option(
            help="What stands in a passage: the answer (hard), question and answer, or the "
            "record's own passage."
        ),
    ] = PassageKind.ANSWER,
    top_k: Annotated[int, typer.Option(min=1, help="Passages retrieved per case.")] = 5,
    aggregator: Annotated[
        str | None,
        typer.Option(
            help="Passage scores to one value; by default the scorer's: joint for fused and "
            "sufficiency, max for others."
        ),
    ] = None,
) -> None:
    """Out of the knowledge base: ask each question with its source in place, and left out.

    Retrieval is basic RAG (top-k by embedding; the query is the question alone).
    Killed and started again with the same arguments, the run goes on where it
    stopped and repeats nothing.

    Example: `knowgate eval ookb --questions kb.jsonl --scorer bi_encoder --out run`
    """
    if aggregator is not None:
        require_aggregator(aggregator)
    # Before a model is loaded, which takes seconds: what is wrong with the questions.
    build_knowledge_base(read_questions(questions), passage, where=str(questions))
    judge = load_scorer(scorer)
    aggregate = aggregator or default_aggregator(judge.fingerprint.kind)
    settings = OokbSettings(passage=passage, top_k=top_k, aggregator=aggregate)
    with progress_bar("measuring cases") as advance:
        run_ookb(
            questions,
            out_dir,
            scorer=judge,
            encoder=_retriever(judge),
            settings=settings,
            on_progress=advance,
        )
    calibrate = f"knowgate calibrate --run {quote(str(out_dir))} --risk 0.1 --delta 0.1"
    out.print(f"run → {out_dir}\nnext: {calibrate} --out policy.json", markup=False)


def _retriever(judge: RelevanceScorer) -> BiEncoderScorer:
    # One model in memory where the judge is the retriever's encoder anyway.
    return judge if isinstance(judge, BiEncoderScorer) else BiEncoderScorer()
