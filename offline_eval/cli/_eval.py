"""`knowgate eval …`: run a suite into a run folder."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from ...guard.contracts import RelevanceScorer
from ...guard.engine import BiEncoderScorer
from ...guard.errors import InputError
from ...guard.policy import aggregator as require_aggregator
from ...guard.signals.relevance import DEFAULT_SCORER, default_aggregator, load_scorer
from ..data import PassageKind, build_knowledge_base, read_questions
from ..suites.ookb import OokbSettings, run_ookb
from ._app import app
from ._call_options import CallOptions, EngineName
from ._console import out, progress_bar
from ._eval_ookb import RepliesOptions, ask_systems, tell_cost
from ._suite_command import SuiteGroup

suites = typer.Typer(
    cls=SuiteGroup, no_args_is_help=True, help="Run a suite of cases into a run folder."
)
app.add_typer(suites, name="eval")

# Typer carries its own copy of click or uses the installed one: this is either's.
_UsageError: Any = typer.BadParameter.__base__
_SYSTEMS, _CALLS = "Systems under test", "Calls"


@suites.command()
def ookb(
    context: typer.Context,
    out_dir: Annotated[Path, typer.Option("--out", help="Run folder; resumed if it exists.")],
    questions: Annotated[
        list[Path] | None,
        typer.Option(
            help="KnowOrNot question document (.json), or JSON lines (.jsonl). Each file is a "
            "knowledge base; several go with --model or --replay."
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Scorer by name, or a tuned or sentence-transformers folder.  "
            f"[default: {DEFAULT_SCORER}; with --guard, the one that the policy names]"
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
    aggregator: Annotated[
        str | None,
        typer.Option(
            help="Passage scores to one value; by default the scorer's: joint for fused and "
            "sufficiency, max for others."
        ),
    ] = None,
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

    Without --model and --replay, measures what the guard would see: relevance of what
    basic RAG retrieves (top-k by embedding; the query is the question alone), to be
    calibrated on. With them, puts every model × prompt × retrieval × guard to the test,
    and stores and judges the replies. Killed and started again with the same arguments,
    a run goes on where it stopped and repeats nothing.

    Example: `knowgate eval ookb --questions kb.jsonl --scorer bi_encoder --out run`

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
        options.refuse_given(calls)
        _measure(
            _only_one(files, context), out_dir, scorer or DEFAULT_SCORER, passage, top_k, aggregator
        )
        return
    if aggregator is not None:
        raise InputError(
            "is the policy's own where replies are asked for",
            where="--aggregator",
            hint="leave it out",
        )
    asked = options.read(files, passage, top_k)
    if dry_run:
        tell_cost(asked, calls)
        return
    ask_systems(asked, calls, out_dir)


def _only_one(files: list[Path], context: typer.Context) -> Path:
    if not files:
        raise _UsageError("Missing option '--questions'.", ctx=context)
    if len(files) > 1:
        raise InputError(
            "relevance is measured on one file at a time",
            where="--questions",
            hint="name one, or add --model or --replay",
        )
    return files[0]


def _measure(
    questions: Path,
    out_dir: Path,
    scorer: str,
    passage: PassageKind,
    top_k: int,
    aggregator: str | None,
) -> None:
    """The run of relevance signals."""
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
