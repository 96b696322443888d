"""`knowgate recalibrate`: fit the promise of an old policy again, on newer data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...calibration.risk import Leak, Problem
from ...guard.errors import InputError
from ...guard.policy import Policy
from ._app import app
from ._calibration_output import (
    AcceptGenerated,
    MaxFalseAbstention,
    MeasuredBy,
    PolicyOut,
    Records,
    Report,
    Run,
    Share,
    WriteAnyway,
    cascade_lines,
    promise_lines,
    rate_lines,
    rate_text,
    read_calibration_set,
    require_in_range,
    require_one_source,
    threshold_line,
    write_or_explain,
)
from ._console import prints_figures
from ._judge_options import AbstentionCost, Judge, JudgeCost, JudgeRun, OnFailure


@app.command()
@prints_figures
def recalibrate(
    policy: Annotated[Path, typer.Option(help="The old policy, whose promise is taken over.")],
    policy_out: PolicyOut,
    run: Run = None,
    records: Records = None,
    scorer: MeasuredBy = None,
    share: Share = 1.0,
    judge_run: JudgeRun = None,
    judge_cost: JudgeCost = None,
    abstention_cost: AbstentionCost = None,
    on_judge_failure: OnFailure = None,
    report: Report = None,
    max_false_abstention: MaxFalseAbstention = Problem.MAX_FALSE_ABSTENTION,
    accept_generated: AcceptGenerated = False,
    write_anyway: WriteAnyway = False,
) -> None:
    """Keep a policy's promise up to date: same bound, δ, loss and routes, newer questions.

    Data that another scorer, estimator or aggregator measured is rejected: thresholds
    on one scale say nothing on another. A cascade takes a run of each of its scorers, and its
    band is chosen anew. Exit code 3, and no policy, where it should not serve.

    Example: `knowgate recalibrate --policy old.json --run run --out policy.json`
    """
    from ..policies import recalibrate as refit
    from ..policies import require_apart

    require_one_source(run, records)
    old = Policy.load(policy)
    require_in_range(share, max_false_abstention)
    if policy_out.resolve() == policy.resolve():
        raise InputError(
            "is the old policy", where=str(policy_out), hint="keep it, and choose another --out"
        )
    for one in (run, judge_run):
        require_apart(policy_out, run=one, records=records, report=report, old_policy=policy)
    judge = Judge(judge_run, judge_cost, abstention_cost, on_judge_failure)
    measured = judge.added_to(read_calibration_set(run, records, scorer))
    found = refit(
        old,
        measured,
        where=policy,
        share=share,
        counted=True,
        max_false_abstention=max_false_abstention,
    )
    if report is not None and isinstance(found.new.risk, Leak):
        raise InputError(
            "does not go with this policy's promise",
            where="--report",
            hint="leave it out, and run `knowgate report` on the run",
        )
    new = found.new.accepting(*["generated"] * accept_generated)
    lines = [
        *promise_lines(new, anyway=write_anyway),
        threshold_line(new),
        *cascade_lines(new),
        *rate_lines(new),
        *_changes(found.old, new.policy),
    ]
    if found.rates is not None:
        before, after = found.rates
        lines += [
            f"  - lets through, same questions: {rate_text(before.coverage)} → "
            f"{rate_text(after.coverage)}",
            f"  - of those wrong: {rate_text(before.risk)} → {rate_text(after.risk)}",
        ]
    write_or_explain(new, lines, policy_out, report, anyway=write_anyway)


def _changes(old: Policy, new: Policy) -> list[str]:
    """Old against new thresholds."""
    return [
        "changed, each on its own calibrators' scale:",
        f"  - relevance threshold: {_threshold(old.relevance_threshold)} → "
        f"{_threshold(new.relevance_threshold)}",
        f"  - confidence threshold: {_threshold(old.confidence_threshold)} → "
        f"{_threshold(new.confidence_threshold)}",
    ]


def _threshold(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f}"
