"""`knowgate calibrate`: from a run to a policy."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
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
    answer_from_memory: Annotated[
        float | None,
        typer.Option(
            help="Where the context does not pass, answer from the model's own knowledge from "
            "this confidence on, above 0 and at most 1. Declared by you, not certified; by "
            "default never."
        ),
    ] = None,
) -> None:
    """Choose the threshold that keeps the risk below the bound, with a guarantee.

    One part of the questions chooses, the other one is reported. Where no
    threshold meets the bound, the policy always abstains and says so.

    Example: `knowgate calibrate --run run --risk 0.1 --delta 0.1 --out policy.json`
    """
    found = calibrate_ookb(
        run,
        policy_out,
        risk=risk,
        delta=delta,
        share=share,
        seed=seed,
        confidence_threshold=answer_from_memory,
    )
    guarantee = found.policy.guarantee
    if guarantee is not None:
        out.print(guarantee.statement, markup=False)
    threshold = found.policy.relevance_threshold
    stops = "abstains from"
    lines = [f"threshold: {'none' if threshold is None else f'relevance ≥ {threshold:.3f}'}"]
    if answer_from_memory is not None:
        stops = "keeps the context from"
        lines.append(
            f"answers from memory: confidence ≥ {answer_from_memory} (declared, not certified; "
            "serving it takes a confidence estimator)"
        )
    lines += [
        f"on the questions kept back: {stops} {_words(found.left_out_abstention)} of "
        f"left-out ones, and from {_words(found.false_abstention)} of those it could answer",
        f"policy → {policy_out}",
        f"next: knowgate report {quote(str(run))}",
    ]
    out.print("\n".join(lines), markup=False)


def _words(rate: Interval) -> str:
    if rate.value is None or rate.low is None or rate.high is None:
        return "an unknown share (no questions)"
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] (n = {rate.n})"
