"""`knowgate calibrate`: from a run to a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...calibration import Interval
from ..ookb import calibrate_ookb
from ._app import app
from ._console import out


@app.command()
def calibrate(
    run: Annotated[Path, typer.Option(help="A finished run folder.")],
    policy_out: Annotated[Path, typer.Option("--out", help="Where policy.json goes.")],
    risk: Annotated[
        float, typer.Option(help="Bound α: share of unanswerable questions that may pass.")
    ] = 0.05,
    delta: Annotated[
        float, typer.Option(help="Probability δ that the bound fails by bad luck in the draw.")
    ] = 0.1,
    share: Annotated[
        float, typer.Option(help="Share of the questions to fit on; the rest is reported.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="Of the split, 0 or more.")] = 0,
) -> None:
    """Choose the threshold that keeps the risk below the bound, with a guarantee.

    One part of the questions chooses, the other one is reported. Where no
    threshold meets the bound, the policy always abstains and says so.

    Example: `knowgate calibrate --run run --risk 0.1 --delta 0.1 --out policy.json`
    """
    found = calibrate_ookb(run, policy_out, risk=risk, delta=delta, share=share, seed=seed)
    guarantee = found.policy.guarantee
    if guarantee is not None:
        out.print(guarantee.statement, markup=False)
    threshold = found.policy.relevance_threshold
    out.print(
        f"threshold: {'none' if threshold is None else f'relevance ≥ {threshold:.3f}'}\n"
        f"on the questions kept back: abstains from {_words(found.left_out_abstention)} of "
        f"left-out ones, and from {_words(found.false_abstention)} of those it could answer\n"
        f"policy → {policy_out}",
        markup=False,
    )


def _words(rate: Interval) -> str:
    if rate.value is None or rate.low is None or rate.high is None:
        return "an unknown share (no questions)"
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] (n = {rate.n})"
