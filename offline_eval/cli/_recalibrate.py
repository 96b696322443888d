"""`knowgate recalibrate`: fit the promise of an old policy again, on newer data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...calibration.risk import Leak
from ...guard.errors import InputError
from ...guard.policy import Policy
from ._app import app
from ._calibration_output import (
    PolicyOut,
    Records,
    Report,
    Run,
    Seed,
    Share,
    print_lines,
    promise_lines,
    rate_lines,
    rate_text,
    read_calibration_set,
    require_one_source,
    require_share_and_seed,
    threshold_line,
)

if TYPE_CHECKING:
    from ..policies import Recalibrated


@app.command()
def recalibrate(
    policy: Annotated[Path, typer.Option(help="The old policy, whose promise is taken over.")],
    policy_out: PolicyOut,
    run: Run = None,
    records: Records = None,
    share: Share = None,
    seed: Seed = 0,
    report: Report = None,
) -> None:
    """Keep a policy's promise up to date: same bound, δ, loss and routes, newer questions.

    Data that another scorer, estimator or aggregator measured is rejected: thresholds
    on one scale say nothing on another.

    Example: `knowgate recalibrate --policy old.json --run run --out policy.json`
    """
    from ..policies import recalibrate as refit
    from ..policies import require_apart, write_calibrated

    require_one_source(run, records)
    old = Policy.load(policy)
    require_share_and_seed(share, seed)
    if policy_out.resolve() == policy.resolve():
        raise InputError(
            "is the old policy", where=str(policy_out), hint="keep it, and choose another --out"
        )
    require_apart(policy_out, run=run, records=records, report=report, old_policy=policy)
    measured = read_calibration_set(run, records)
    found = refit(old, measured, where=policy, share=share, seed=seed)
    if report is not None and isinstance(found.new.risk, Leak):
        raise InputError(
            "does not go with this policy's promise",
            where="--report",
            hint="leave it out, and run `knowgate report` on the run",
        )
    write_calibrated(found.new, policy_out, report)
    new = found.new
    lines = [*promise_lines(new), threshold_line(new), *rate_lines(new), *_changes(found)]
    print_lines(lines, policy_out, report)


def _changes(found: Recalibrated) -> list[str]:
    """Old against new: thresholds, and what both do on the same questions."""
    old, new = found.old, found.new.policy
    lines = [
        "changed, each on its own calibrators' scale:",
        f"  - relevance threshold: {_threshold(old.relevance_threshold)} → "
        f"{_threshold(new.relevance_threshold)}",
        f"  - confidence threshold: {_threshold(old.confidence_threshold)} → "
        f"{_threshold(new.confidence_threshold)}",
    ]
    if found.rates is not None:
        before, after = found.rates
        lines += [
            f"  - lets through, same questions: {rate_text(before.coverage)} → "
            f"{rate_text(after.coverage)}",
            f"  - of those wrong: {rate_text(before.risk)} → {rate_text(after.risk)}",
        ]
    return lines


def _threshold(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f}"
