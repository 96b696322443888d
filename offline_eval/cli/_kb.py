"""`knowgate kb …`: from documents to questions."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ...guard.engine import BiEncoderScorer
from ...guard.errors import InputError
from ...guard.prompts import Prompt
from ..data.diversity import filter_questions_file
from ..data.diversity.filter import DiversitySettings
from ..data.facts import BuildSettings, build_questions
from ..data.facts.build import estimate_build
from ..data.questions import SHARED_BY_PEOPLE
from ..run.calls import RunOptions
from ..systems.factory import load_chat_model
from ._console import HELP_MODE, call_progress, err, out, print_figures, progress_bar, tell
from ._options import (
    CallOptions,
    ChunkOptions,
    prints_figures,
)

kb_app = typer.Typer(no_args_is_help=True, rich_markup_mode=HELP_MODE)


@kb_app.callback()
def kb() -> None:
    """From documents to questions for `knowgate measure`."""


@kb_app.command()
@prints_figures
def build(
    documents: Annotated[list[Path], typer.Argument(metavar="DOCS")],
    out_dir: Path,
    *,
    model: str = BuildSettings().model,
    fact_prompt: Path | None = None,
    question_prompt: Path | None = None,
    chunks: ChunkOptions,
    filters: Annotated[DiversitySettings, typer.Option("--filter")],
    calls: CallOptions,
    retry_failed: bool = False,
    dry_run: bool = False,
) -> None:
    """Write questions with answers on documents, each with the chunk that holds its answer.

    With a model: atomic facts with citations, then one question and answer a fact.
    Without: definitions as questions, other sentences with a blank to fill in. Pairs
    of question and answer in FAQs and tables are taken over as they are.

    All are written to `questions.jsonl`; those that differ from each other by words and by
    meaning to `diverse.jsonl`, the others with the reason to `dropped.jsonl`.

    A killed build resumes when the same command is started again. Replies of the model are
    kept by content: only what has changed is asked again.

    Example: `knowgate kb build docs/ --model openai:gpt-4.1-mini --out kb`

    Args:
        documents: Files, or folders with all below them: text, Markdown, HTML, PDF, and FAQs
            as CSV, TSV, JSON or JSON lines.
        out_dir: Folder of the knowledge base; continued if it exists.
        model: Who finds facts and writes questions: `none` (by rules), a Hugging Face folder,
            `provider:model`, or `python:module:attribute`. The bundled model is too small.
        fact_prompt: Your own prompt, with {sentences}, and perhaps {topic}.
        question_prompt: Your own prompt, with {fact}, and perhaps {passage}, {topic}.
        filters: What differs enough to be kept: keyword=uniqueness (share of information
            that no kept question has) or off; keyword-threshold=0.3; semantic=farthest_first or
            off; semantic-threshold=0.3 (cosine distance).
    """
    files = {"fact_prompt": fact_prompt, "question_prompt": question_prompt}
    prompts = {name: Prompt.load(path) for name, path in files.items() if path is not None}
    settings = BuildSettings(model, **prompts, chunk_size=chunks.size, chunk_overlap=chunks.overlap)
    if dry_run:
        estimate = estimate_build(documents, out_dir, settings=settings)
        print_figures(estimate)
        tell("estimated", estimate)
        return
    limits = calls.limits(timeout=60.0, attempts=4)
    with call_progress() as advance:
        totals = build_questions(
            documents,
            out_dir,
            model=load_chat_model(model) if settings.asks_model else None,
            settings=settings,
            options=RunOptions(limits, retry_failed, on_progress=advance),
        )
    questions = out_dir / "questions.jsonl"
    tell("built", totals, SHARED_BY_PEOPLE, questions)
    dropped = None if totals.questions < 2 else _filtered(questions, filters)
    print_figures({**asdict(totals), "folder": out_dir, "dropped": dropped})
    if totals.questions < 2:
        err.print("too few questions for an evaluation: see failures.jsonl")


def _filtered(questions: Path, filters: DiversitySettings) -> Counter[str] | None:
    """Write the questions that differ beside all; count the others, None where too few are left."""
    kept = questions.with_name("diverse.jsonl")
    off = filters.semantic == "off"
    try:
        with progress_bar("filtering") as advance:
            found = filter_questions_file(
                questions,
                kept,
                kept.with_name("dropped.jsonl"),
                None if off else BiEncoderScorer(),
                filters,
                on_progress=advance,
            )
    except InputError as error:
        err.print(f"not filtered: {error}")
        return None
    tell("filtered", found, kept)
    for line in found.reasons():
        out.print(f"  {line}")
    out.print(f"next: knowgate measure --questions {quote(str(kept))} --out run")
    return Counter(one.reason for one in found.dropped)
