"""`knowgate kb …`: from documents to questions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ..data.facts import BuildEstimate, BuildSettings, build_questions
from ..run import CallLimits
from ..systems import load_chat_model
from ._app import app
from ._call_progress import call_stages
from ._console import err, out, print_figures, prints_figures

kb_app = typer.Typer(
    no_args_is_help=True, help="From documents to questions for `knowgate measure`."
)
app.add_typer(kb_app, name="kb")

_STAGES = {"facts": "finding facts", "questions": "writing questions"}

_DOCUMENTS = typer.Argument(
    metavar="DOCS",
    help="Files, or folders with all below them: text, Markdown, HTML, PDF, and FAQs as "
    "CSV, TSV, JSON or JSON lines.",
)
_OUT = typer.Option("--out", help="Folder of the knowledge base; continued if it exists.")
_MODEL = typer.Option(
    help="Who finds facts and writes questions: `none` (by rules), a Hugging Face folder, "
    "`provider:model`, or `python:module:attribute`. The bundled model is too small."
)
_FACT_PROMPT = typer.Option("--fact-prompt", help="Your own prompt, with {sentences}, and {topic}.")
_QUESTION_PROMPT = typer.Option(
    "--question-prompt", help="Your own prompt, with {fact}, and {passage}, {topic}."
)
_STRUCTURED = typer.Option(help="Use the model's structured output where it has it.")
_SENTENCES = typer.Option(min=1, max=100, help="Most sentences in one request for facts.")
_REPAIRS = typer.Option(min=0, help="How often a faulty reply is sent back.")
_CHUNK_SIZE = typer.Option(
    min=1, help="Words per chunk at most; the passage of a question is the chunk that holds it."
)
_CHUNK_OVERLAP = typer.Option(min=0, help="Words that a chunk shares with the one before it.")
_CONCURRENCY = typer.Option(min=1, help="Requests at a time.")
_RATE = typer.Option(help="Most requests a second; by default no limit.")
_TIMEOUT = typer.Option(help="Seconds for one request.")
_ATTEMPTS = typer.Option(min=1, help="Requests for one reply when the provider fails.")
_RETRY = typer.Option("--retry-failed", help="Ask again what failed in an earlier build.")
_DRY_RUN = typer.Option("--dry-run", help="Say what it would cost; ask and write nothing.")


@kb_app.callback()
def _group() -> None:
    pass


@kb_app.command()
@prints_figures
def build(
    documents: Annotated[list[Path], _DOCUMENTS],
    out_dir: Annotated[Path, _OUT],
    model: Annotated[str, _MODEL] = BuildSettings().model,
    fact_prompt_file: Annotated[Path | None, _FACT_PROMPT] = None,
    question_prompt_file: Annotated[Path | None, _QUESTION_PROMPT] = None,
    structured: Annotated[bool, _STRUCTURED] = True,
    sentences_per_call: Annotated[int, _SENTENCES] = 12,
    max_repairs: Annotated[int, _REPAIRS] = 2,
    chunk_size: Annotated[int, _CHUNK_SIZE] = 150,
    chunk_overlap: Annotated[int, _CHUNK_OVERLAP] = 0,
    concurrency: Annotated[int, _CONCURRENCY] = 8,
    rate: Annotated[float | None, _RATE] = None,
    timeout: Annotated[float, _TIMEOUT] = 60.0,
    max_attempts: Annotated[int, _ATTEMPTS] = 4,
    retry_failed: Annotated[bool, _RETRY] = False,
    dry_run: Annotated[bool, _DRY_RUN] = False,
) -> None:
    """Documents to questions with answers, each with the chunk of its document that holds it.

    With a model: atomic facts with citations, then one question and answer a fact.
    Without: definitions as questions, other sentences with a blank to fill in. Pairs
    of question and answer in FAQs and tables are taken over as they are.

    A killed build resumes when the same command is started again. Replies of the model are
    kept by content: only what has changed is asked again.

    Example: `knowgate kb build docs/ --model openai:gpt-4.1-mini --out kb`
    """
    settings = BuildSettings.of_prompts(
        fact_prompt_file,
        question_prompt_file,
        model=model,
        structured=structured,
        sentences_per_call=sentences_per_call,
        max_repairs=max_repairs,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
    )
    if dry_run:
        estimate = BuildEstimate.of(documents, out_dir, settings=settings)
        print_figures(asdict(estimate))
        out.print(str(estimate), markup=False)
        return
    limits = CallLimits(concurrency, rate, timeout, max_attempts)
    with call_stages(_STAGES) as show:
        totals = build_questions(
            documents,
            out_dir,
            model=load_chat_model(model) if settings.asks_model else None,
            settings=settings,
            limits=limits,
            retry_failed=retry_failed,
            on_progress=show,
        )
    print_figures({**asdict(totals), "folder": out_dir})
    out.print("\n".join([str(totals), *_next(out_dir, totals.questions)]), markup=False)
    if totals.questions < 2:
        err.print("too few questions for an evaluation: see failures.jsonl", markup=False)


def _next(folder: Path, number: int) -> list[str]:
    """Where the questions are, and what to do with them."""
    lines = [f"questions → {folder / 'questions.jsonl'}"]
    if number > 1:
        questions, kept = (
            quote(str(folder / f"{name}.jsonl")) for name in ("questions", "diverse")
        )
        lines.append(f"next: knowgate kb filter {questions} --out {kept}")
        lines.append(f"      knowgate measure --questions {kept} --out run")
    return lines
