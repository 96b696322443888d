"""`knowgate recalibrate`: an old policy's promise, fitted anew on newer data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...guard.errors import InputError
from ...guard.policy import Policy
from ..run import read_manifest
from ..suites.ookb import calibrate_ookb
from ._app import app
from ._calibrate_selective import (
    measured_cases,
    print_written,
    promise_lines,
    rate_words,
    require_apart,
    require_share_and_seed,
    write_calibrated,
)
from ._console import out

if TYPE_CHECKING:
    from ..policies import Recalibrated


@app.command()
def recalibrate(
    policy: Annotated[Path, typer.Option(help="The old policy, whose promise is taken over.")],
    policy_out: Annotated[Path, typer.Option("--out", help="Where the new policy.json goes.")],
    run: Annotated[Path | None, typer.Option(help="A newer finished run folder.")] = None,
    records: Annotated[
        Path | None, typer.Option(help="Instead of a run, a newer records file.")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the questions to fit on; the rest is reported.  "
            "[default: as `calibrate`]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split, 0 or more.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="Write this page (.html), with plots, and JSON beside it.")
    ] = None,
) -> None:
    """Keep a policy's promise up to date: same bound, δ, loss and routes, newer questions.

    Data that another scorer, estimator or aggregator measured is refused: thresholds
    on one scale say nothing on another.

    Example: `knowgate recalibrate --policy old.json --run run --out policy.json`
    """
    if (run is None) == (records is None):
        raise InputError("exactly one is needed", where="--run, --records", hint="name one of both")
    old = Policy.load(policy)
    require_share_and_seed(share, seed)
    if policy_out.resolve() == policy.resolve():
        raise InputError(
            "is the old policy", where=str(policy_out), hint="keep it, and choose another --out"
        )
    require_apart(policy_out, run, records, report, old_policy=policy)
    if _promises_a_leak(old):
        _refit_leak(old, policy, run, policy_out, 0.5 if share is None else share, seed, report)
        return
    from ..policies import recalibrate as fitted_anew

    found = fitted_anew(
        old,
        measured_cases(run, records),
        where=policy,
        share=0.8 if share is None else share,
        seed=seed,
    )
    write_calibrated(found.new, policy_out, report)
    out.print("\n".join(promise_lines(found.new) + _changes(found)), markup=False)
    print_written(policy_out, report)


def _promises_a_leak(old: Policy) -> bool:
    from ..policies import is_leak_promise

    return old.guarantee is not None and is_leak_promise(old.guarantee)


def _refit_leak(
    old: Policy,
    policy: Path,
    run: Path | None,
    policy_out: Path,
    share: float,
    seed: int,
    report: Path | None,
) -> None:
    """The promise about unanswerable questions, which only an ookb run can renew."""
    if run is None or read_manifest(run).get("suite") != "ookb":
        raise InputError(
            "promises how many unanswerable questions pass, which only a run of the ookb suite "
            "measures",
            where=str(policy),
            hint="name one with --run",
        )
    if report is not None:
        raise InputError(
            "does not go with this policy's promise",
            where="--report",
            hint="leave it out, and run `knowgate report` on the run",
        )
    from ..policies import records_from_run, require_same_instruments

    require_same_instruments(old, records_from_run(run))
    assert old.guarantee is not None
    found = calibrate_ookb(
        run,
        policy_out,
        risk=old.guarantee.risk,
        delta=old.guarantee.delta,
        share=share,
        seed=seed,
        confidence_threshold=old.confidence_threshold if old.may_answer else None,
    )
    guarantee = found.policy.guarantee
    lines = [] if guarantee is None else [guarantee.statement]
    lines += [
        f"threshold: {_threshold(old.relevance_threshold)} → "
        f"{_threshold(found.policy.relevance_threshold)}, each on its own calibrator's scale",
        f"on the questions kept back: declines {rate_words(found.left_out_abstention)} of left-out "
        f"ones, and {rate_words(found.false_abstention)} of those it could answer",
        f"policy → {policy_out}",
    ]
    out.print("\n".join(lines), markup=False)


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
    if found.old_rates is not None and found.new.rates is not None:
        before, after = found.old_rates, found.new.rates
        lines += [
            f"  - lets through, same questions: {rate_words(before.coverage)} → "
            f"{rate_words(after.coverage)}",
            f"  - of those wrong: {rate_words(before.risk)} → {rate_words(after.risk)}",
        ]
    return lines


def _threshold(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f}"
