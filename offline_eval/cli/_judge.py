"""`knowgate judge`: verdicts on the replies of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ...guard.errors import InputError
from ..judging import JudgePlan, judge_run, plan_judging, read_criterion
from ..run import CallLimits, Progress, RunTotals
from ..suites.judge_bias import JudgeBias, judge_bias_warning, keep_judge_biases, read_judge_bias
from ..systems import DEFAULT_JUDGES, load_judges
from ._app import app
from ._console import err, out, progress_bar

_LANGUAGE_MODEL = "llm:"


_Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        help="detector, estimate, llm:MODEL or python:module:attribute; may be repeated. "
        f"By default: {', '.join(DEFAULT_JUDGES)}.",
    ),
]
_Criteria = Annotated[
    list[Path] | None,
    typer.Option(help="Criterion of your own for llm judges (.toml or .json); repeatable."),
]


@app.command()
def judge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder with replies.")],
    judges: _Judges = None,
    criterion: _Criteria = None,
    bundled: Annotated[
        bool,
        typer.Option(help="llm judges also judge abstention, factuality and failure."),
    ] = True,
    bias: Annotated[
        list[Path] | None,
        typer.Option(
            help="What `knowgate eval judge-bias` found out about one of these judges; the report "
            "warns of a judge that goes by its own beliefs. Repeatable."
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Verdicts under way at once.")] = 8,
    rate: Annotated[
        float | None, typer.Option(help="Most calls begun per second; no limit by default.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds per attempt at a verdict.")] = 120.0,
    max_attempts: Annotated[int, typer.Option(min=1, help="Attempts per verdict.")] = 3,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again for verdicts that failed before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would cost, and stop.")
    ] = False,
) -> None:
    """Judge every reply of a run: abstention, factuality, how it fails, or what you ask.

    Verdicts are appended to the run. Those that are there are not asked for again, so a
    killed command goes on where it stopped; failed ones are with --retry-failed. `detector`
    and `estimate` work offline; the latter's verdicts are marked as estimates.

    Example: `knowgate judge run --judge detector --judge llm:openai:gpt-4.1 --dry-run`
    """
    names = tuple(judges or DEFAULT_JUDGES)
    criteria = [read_criterion(path) for path in criterion or ()]
    biases = _biases(bias or (), names)
    loaded = load_judges(names, criteria, bundled=bundled)
    if dry_run:
        _show_plan(plan_judging(run, loaded, retry_failed=retry_failed))
        return
    with progress_bar("judging replies") as advance:

        def on_progress(progress: Progress) -> None:
            advance(progress.done, progress.total)

        totals = judge_run(
            run,
            loaded,
            retry_failed=retry_failed,
            limits=CallLimits(
                max_concurrency=concurrency,
                rate=rate,
                timeout=timeout,
                max_attempts=max_attempts,
            ),
            on_progress=on_progress,
        )
    if biases:
        keep_judge_biases(run, biases)
    _show_totals(totals, run)


def _biases(paths: Sequence[Path], judges: Sequence[str]) -> list[JudgeBias]:
    """The measurements in files, each of one of the judges; said aloud where one is biased."""
    biases = [read_judge_bias(path) for path in paths]
    named = {name for judge in judges for name in _names_of(judge)} if paths else set()
    for path, bias in zip(paths, biases, strict=True):
        if bias.judge not in named:
            raise InputError(
                f"is of the judge {bias.judge[:80]!r}, which is not asked here",
                where=str(path),
                hint=f"judges: {', '.join(sorted(named))}",
            )
        warning = judge_bias_warning(bias)
        if warning is not None:
            err.print(f"warning: {warning}", style="yellow", markup=False)
    return biases


def _names_of(judge: str) -> tuple[str, ...]:
    if judge.startswith(_LANGUAGE_MODEL):
        # By name alone: to load a model for it would take as long as to ask it.
        return (_LANGUAGE_MODEL + judge.removeprefix(_LANGUAGE_MODEL).strip(),)
    return tuple(loaded.name for loaded in load_judges([judge]))


def _show_plan(plans: Sequence[JudgePlan]) -> None:
    for plan in plans:
        cost = f", {plan.calls} calls, about {plan.input_tokens} input tokens" if plan.calls else ""
        out.print(f"{plan.judge}: {plan.criterion}: {plan.verdicts} verdicts{cost}", markup=False)
    calls, tokens = sum(p.calls for p in plans), sum(p.input_tokens for p in plans)
    out.print(
        f"at most {calls} calls of language models and about {tokens} input tokens, reminders "
        "left out; nothing was asked",
        markup=False,
    )


def _show_totals(totals: RunTotals, run: Path) -> None:
    spent = f", {totals.calls} calls" if totals.calls else ""
    if totals.input_tokens is not None:
        spent += f", {totals.input_tokens} + {totals.output_tokens} tokens"
    if totals.failed:
        err.print(
            f"warning: {totals.failed} verdicts failed; the rows in {run / 'judgements'} say why, "
            "--retry-failed asks again",
            style="yellow",
            markup=False,
        )
    out.print(
        f"{totals.stored} verdicts added ({totals.failed} failed), {totals.already} there "
        f"before{spent} → {run}\nnext: knowgate report {quote(str(run))}",
        markup=False,
    )
