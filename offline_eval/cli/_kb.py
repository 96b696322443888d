"""`knowgate kb …`: from documents to questions."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ...guard.prompts import load_prompt
from ..data.facts import (
    NO_MODEL,
    BuildEstimate,
    BuildPrompts,
    BuildSettings,
    BuildTotals,
    Spent,
    Stage,
    build_questions,
    estimate_build,
)
from ..run import CallLimits
from ..systems import load_chat_model
from ._app import app
from ._call_progress import call_stages
from ._console import err, out

kb_app = typer.Typer(
    no_args_is_help=True, help="From documents to questions for `knowgate measure`."
)
app.add_typer(kb_app, name="kb")

_STAGE_WORDS: dict[str, str] = {Stage.FACTS: "finding facts", Stage.QUESTIONS: "writing questions"}


@kb_app.callback()
def _group() -> None:
    pass


@kb_app.command()
def build(
    documents: Annotated[
        list[Path],
        typer.Argument(
            metavar="DOCS",
            help="Files, or folders with all below them: text, Markdown, HTML, PDF, and FAQs as "
            "CSV, TSV, JSON or JSON lines.",
        ),
    ],
    out_dir: Annotated[
        Path, typer.Option("--out", help="Folder of the knowledge base; continued if it exists.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="Who finds facts and writes questions: `none` (by rules), a Hugging Face folder, "
            "`provider:model`, or `python:module:attribute`. The bundled model is too small."
        ),
    ] = NO_MODEL,
    fact_prompt_file: Annotated[
        Path | None,
        typer.Option("--fact-prompt", help="Your own prompt, with {sentences}, and {topic}."),
    ] = None,
    question_prompt_file: Annotated[
        Path | None,
        typer.Option(
            "--question-prompt", help="Your own prompt, with {fact}, and {passage}, {topic}."
        ),
    ] = None,
    structured: Annotated[
        bool, typer.Option(help="Use the model's structured output where it has it.")
    ] = True,
    sentences_per_call: Annotated[
        int, typer.Option(min=1, max=100, help="Most sentences in one request for facts.")
    ] = 12,
    max_repairs: Annotated[
        int, typer.Option(min=0, help="How often a faulty reply is sent back.")
    ] = 2,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at a time.")] = 8,
    rate: Annotated[
        float | None, typer.Option(help="Most requests a second; by default no limit.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one request.")] = 60.0,
    max_attempts: Annotated[
        int, typer.Option(min=1, help="Requests for one reply when the provider fails.")
    ] = 4,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again what failed in an earlier build.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would cost; ask and write nothing.")
    ] = False,
) -> None:
    """Documents to questions with answers, each with the sentences it stands on.

    With a model: atomic facts with citations, then one question and answer a fact.
    Without: definitions as questions, other sentences with a blank to fill in. Pairs
    of question and answer in FAQs and tables are taken over as they are.

    Killed and started again, it goes on where it stopped. What the model has answered
    is kept by content: only what has changed is asked again.

    Example: `knowgate kb build docs/ --model openai:gpt-4.1-mini --out kb`
    """
    files = {"facts": fact_prompt_file, "question": question_prompt_file}
    settings = BuildSettings(
        model=model,
        prompts=BuildPrompts(**{name: load_prompt(path) for name, path in files.items() if path}),
        structured=structured,
        sentences_per_call=sentences_per_call,
        max_repairs=max_repairs,
    )
    if dry_run:
        _say_estimate(estimate_build(documents, out_dir, settings=settings))
        return
    limits = CallLimits(
        max_concurrency=concurrency, rate=rate, timeout=timeout, max_attempts=max_attempts
    )
    with call_stages(_STAGE_WORDS) as show:
        totals = build_questions(
            documents,
            out_dir,
            model=None if model == NO_MODEL else load_chat_model(model),
            settings=settings,
            limits=limits,
            retry_failed=retry_failed,
            on_progress=show,
        )
    _say_totals(totals, out_dir)


def _say_estimate(found: BuildEstimate) -> None:
    lines = [
        f"documents: {found.documents:,}, of which {found.unread:,} give nothing · sentences: "
        f"{found.sentences:,} · pairs of question and answer: {found.pairs:,}",
        f"calls: {found.fact_calls:,} for facts, about {found.question_calls:,} for questions "
        f"({found.answered_calls:,} answered already)",
        f"tokens, estimated: {found.input_tokens:,} in, {found.output_tokens:,} out",
        "nothing was asked and nothing written",
    ]
    out.print("\n".join(lines), markup=False)


def _say_totals(totals: BuildTotals, folder: Path) -> None:
    lines = [
        f"documents: {totals.documents:,}, of which {totals.unread:,} gave nothing · sentences: "
        f"{totals.sentences:,} · facts: {totals.facts:,} · questions: {totals.questions:,}"
    ]
    if totals.failures:
        types = ", ".join(f"{name} {count:,}" for name, count in totals.failures.items())
        lines.append(f"failures: {types} (see {folder / 'failures.jsonl'})")
    if totals.ever.calls:
        lines.append(f"cost: {_cost(totals.ever)}; this time: {_cost(totals.now)}")
    lines.append(f"questions → {folder / 'questions.jsonl'}")
    if totals.questions > 1:
        questions = quote(str(folder / "questions.jsonl"))
        kept = quote(str(folder / "diverse.jsonl"))
        lines.append(f"next: knowgate kb filter {questions} --out {kept}")
        lines.append(f"      knowgate measure --questions {kept} --out run")
    out.print("\n".join(lines), markup=False)
    if totals.questions < 2:
        err.print("too few questions for an evaluation: see failures.jsonl", markup=False)


def _cost(spent: Spent) -> str:
    words = f"{spent.calls:,} calls, {spent.input_tokens:,} tokens in, {spent.output_tokens:,} out"
    return f"{words} (estimated in part)" if spent.estimated_replies else words
