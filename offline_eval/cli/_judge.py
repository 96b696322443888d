"""`knowgate judge`: verdicts on the replies of a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...guard.errors import InputError
from ..judging.llm_judge import Criterion
from ..judging.run import judge_run, plan_judging
from ..run.calls import RunOptions
from ..run.replies import Judgement
from ..suites.judge_bias.artefact import JudgeBias
from ..systems.factory import load_judges
from ._console import call_progress, err, print_figures, tell
from ._options import RayCallOptions, prints_figures

_SECONDS_PER_VERDICT = 120.0


@prints_figures
def judge(
    run: Annotated[Path, typer.Argument(metavar="RUN")],
    *,
    judges: Annotated[list[str] | None, typer.Option("--judge")] = None,
    criterion: list[Path] | None = None,
    bias: list[Path] | None = None,
    calls: RayCallOptions,
    retry_failed: bool = False,
    dry_run: bool = False,
) -> None:
    """Judge every reply of a run: abstention, factuality, how it fails, or what you ask.

    Verdicts are appended to the run. Those that are there are not asked for again, so a
    killed command resumes when started again; failed ones are with --retry-failed. `detector`
    and `estimate` work offline; the latter's verdicts are marked as estimates. With
    --calls engine=ray, each worker loads the judges and gives a part of the verdicts.

    Example: `knowgate judge run --judge detector --judge llm:openai:gpt-4.1 --dry-run`

    Args:
        run: Run folder with replies.
        judges: detector, estimate, llm:MODEL or python:module:attribute; may be repeated. By
            default: detector, estimate.
        criterion: Criterion of your own for llm judges (.toml or .json); repeatable.
        bias: What `knowgate eval judge-bias` found out about one of these judges; the report
            warns of a judge that goes by its own beliefs. Repeatable.
    """
    names = tuple(judges or Judgement.OFFLINE_JUDGES)
    criteria = [Criterion.read(path) for path in criterion or ()]
    # A wrong file is an error before a model is loaded.
    measured = [(path, JudgeBias.read(path)) for path in bias or ()]
    loaded = load_judges(names, criteria)
    biases = _biases(measured, {judge.name for judge in loaded})
    if dry_run:
        plans = plan_judging(run, loaded, retry_failed=retry_failed)
        print_figures({"plan": plans})
        tell("judging", plans)
        return
    limits, pool = calls.limits(timeout=_SECONDS_PER_VERDICT), calls.pool()
    with call_progress("judging replies") as on_progress:
        options = RunOptions(limits, retry_failed, pool, on_progress)
        totals = judge_run(run, loaded, options, load=partial(load_judges, names, criteria))
    if biases:
        JudgeBias.keep(run, biases)
    print_figures({**asdict(totals), "run": run})
    if totals.failed:
        tell("verdicts_failed", totals, run / "judgements", to=err, style="yellow")
    tell("judged", totals, run)


def _biases(measured: Sequence[tuple[Path, JudgeBias]], judges: Collection[str]) -> list[JudgeBias]:
    """The measurements, each of one of the judges; with a warning where one is biased."""
    for path, bias in measured:
        if bias.judge not in judges:
            raise InputError(
                f"is of the judge {bias.judge[:80]!r}, which is not asked here",
                where=str(path),
                hint=f"judges: {', '.join(sorted(judges))}",
            )
        if bias.warning is not None:
            err.print(f"warning: {bias.warning}", style="yellow")
    return [bias for _, bias in measured]
