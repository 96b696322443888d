"""`knowgate eval …`: run a suite into a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...guard.errors import InputError
from ..data import PassageKind
from ._app import app
from ._call_options import CallOptions, EngineName
from ._eval_ookb import RepliesOptions, ask_systems, tell_cost
from ._suite_command import SuiteGroup

suites = typer.Typer(
    cls=SuiteGroup, no_args_is_help=True, help="Run a suite of cases into a run folder."
)
app.add_typer(suites, name="eval")

_SYSTEMS, _CALLS = "Systems under test", "Calls"


@suites.command()
def ookb(
    out_dir: Annotated[Path, typer.Option("--out", help="Run folder; resumed if it exists.")],
    questions: Annotated[
        list[Path] | None,
        typer.Option(
            help="KnowOrNot question document (.json), or JSON lines (.jsonl). Each file is a "
            "knowledge base."
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Scorer of the guards, by name or folder.  [default: what each policy names]"
        ),
    ] = None,
    passage: Annotated[
        PassageKind,
        typer.Option(
            help="What stands in a passage: the answer (hard), question and answer, or the "
            "record's own passage."
        ),
    ] = PassageKind.ANSWER,
    top_k: Annotated[int, typer.Option(min=1, help="Passages retrieved per case.")] = 5,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Put this model under test: embedded, a folder with Hugging Face weights, "
            "provider:model, or python:module:attribute. Repeatable, like all of these.",
            rich_help_panel=_SYSTEMS,
        ),
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(help="Logged replies, JSON lines.", rich_help_panel=_SYSTEMS),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            help="basic, conservative, opinion, or a text file with {question} and {context}.  "
            "[default: basic]",
            rich_help_panel=_SYSTEMS,
        ),
    ] = None,
    retrieval: Annotated[
        list[str] | None,
        typer.Option(
            help="direct, long_context, basic_rag, hyde, or python:module:attribute.  "
            "[default: basic_rag]",
            rich_help_panel=_SYSTEMS,
        ),
    ] = None,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            help="off, a policy.json, or the folder of a calibrated run.  [default: off]",
            rich_help_panel=_SYSTEMS,
        ),
    ] = None,
    cases: Annotated[
        str | None,
        typer.Option(
            help="Kinds with commas between them: left_out, in_kb, synthetic.  "
            "[default: left_out,in_kb]",
            rich_help_panel=_SYSTEMS,
        ),
    ] = None,
    writer: Annotated[
        str | None,
        typer.Option(
            help="Model that writes for hyde and synthetic.  [default: the first --model]",
            rich_help_panel=_SYSTEMS,
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="detector, estimate, llm:MODEL, or none.  [default: detector, estimate]",
            rich_help_panel=_SYSTEMS,
        ),
    ] = None,
    context_chars: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The most characters of passages in a prompt, for models with a small window.",
            rich_help_panel=_SYSTEMS,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Ask the first so many of each file.", rich_help_panel=_SYSTEMS),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of what is drawn.  [default: 0]", rich_help_panel=_SYSTEMS)
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Tell calls and tokens per system, and write nothing.",
            rich_help_panel=_SYSTEMS,
        ),
    ] = False,
    engine: Annotated[
        EngineName | None,
        typer.Option(help="local or ray.  [default: local]", rich_help_panel=_CALLS),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="ray: processes.  [default: 2]", rich_help_panel=_CALLS),
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="ray: of a running cluster.", rich_help_panel=_CALLS)
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Calls at once.  [default: 8]", rich_help_panel=_CALLS),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Calls per second at most.", rich_help_panel=_CALLS)
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds per attempt.  [default: 120]", rich_help_panel=_CALLS),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(min=1, help="Attempts per call.  [default: 3]", rich_help_panel=_CALLS),
    ] = None,
) -> None:
    """Out of the knowledge base: ask each question with its source in place, and left out.

    Asks every model × prompt × retrieval × guard, stores the replies and judges them. A run
    that is killed continues when the same command is started again, and asks nothing twice.
    `knowgate measure` measures the signals that guards are calibrated on.

    Example: `knowgate eval ookb --questions kb.jsonl --model embedded --guard off
    --guard run --out replies`
    """
    files = questions or []
    calls = CallOptions(engine, workers, ray_address, concurrency, rate, timeout, max_attempts)
    options = RepliesOptions(
        models=model or [],
        replay=replay or [],
        prompts=prompt,
        retrievals=retrieval,
        guards=guard,
        cases=cases,
        scorer=scorer,
        writer=writer,
        judges=judge,
        context_chars=context_chars,
        limit=limit,
        seed=seed,
        dry_run=dry_run,
    )
    if not options.models and not options.replay:
        raise InputError(
            "no system is under test",
            where="--model, --replay",
            hint="name one; signals to calibrate on are measured by `knowgate measure`",
        )
    asked = options.read(files, passage, top_k)
    if dry_run:
        tell_cost(asked, calls)
        return
    ask_systems(asked, calls, out_dir)
