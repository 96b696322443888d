"""`knowgate calibrate`: from a run or a records file to a policy."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ...calibration import Interval
from ...guard.errors import InputError
from ..run import read_manifest
from ..suites.ookb import calibrate_ookb
from ._app import app
from ._calibrate_selective import SelectiveOptions, calibrate_selective
from ._console import out

_DEFAULT_RISK = 0.05
_DEFAULT_SHARE = {"leak": 0.5, "selective": 0.8}


class Promise(StrEnum):
    """What is to be promised."""

    LEAK = "leak"
    SELECTIVE = "selective"


@app.command()
def calibrate(
    policy_out: Annotated[Path, typer.Option("--out", help="Where policy.json goes.")],
    run: Annotated[Path | None, typer.Option(help="A finished run folder.")] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a run, JSON lines: one per question and case, with question_id, "
            "relevance, confidence, context_right, closed_book_right."
        ),
    ] = None,
    promise: Annotated[
        Promise | None,
        typer.Option(
            help="leak: at most α of unanswerable questions pass. selective: at most α of what "
            "passes is answered wrongly. By default leak for an ookb run, else selective."
        ),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(help=f"Bound α of the promise.  [default: {_DEFAULT_RISK}]"),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Probability δ that the bound fails by bad luck in the draw.")
    ] = 0.1,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the questions to fit on; the rest is reported.  "
            "[default: 0.5 for leak, 0.8 for selective]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split, 0 or more.")] = 0,
    answer_from_memory: Annotated[
        float | None,
        typer.Option(
            help="leak: where the context does not pass, answer from the model's own knowledge "
            "from this confidence on, above 0 and at most 1. Declared by you, not certified; by "
            "default never."
        ),
    ] = None,
    per_route: Annotated[
        bool,
        typer.Option("--per-route", help="selective: bound each route's risk, not their sum."),
    ] = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="selective: instead of --risk, the share of cases to let through; the bound is "
            "then what can be certified for it."
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            help="selective: bound the mean cost instead of the share of wrong ones, e.g. "
            "wrong_answer=1,false_abstention=0.2,wrong_follow=1."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="selective: write this page (.html), with plots, and JSON beside it."),
    ] = None,
) -> None:
    """Choose the thresholds that keep the risk below the bound, with a guarantee.

    One part of the questions chooses, the other one is reported. Where no
    threshold meets the bound, the policy always abstains and says so.

    Example: `knowgate calibrate --run run --risk 0.1 --delta 0.1 --out policy.json`
    """
    if (run is None) == (records is None):
        raise InputError("exactly one is needed", where="--run, --records", hint="name one of both")
    what = promise or _default_promise(run)
    share = _DEFAULT_SHARE[what.value] if share is None else share
    if what is Promise.LEAK:
        given = {"--per-route": per_route, "--coverage": coverage, "--cost": cost}
        _refuse_unfitting(what, {**given, "--report": report, "--records": records})
        assert run is not None
        bound = _DEFAULT_RISK if risk is None else risk
        _calibrate_leak(run, policy_out, bound, delta, share, seed, answer_from_memory)
        return
    _refuse_unfitting(what, {"--answer-from-memory": answer_from_memory})
    if risk is not None and coverage is not None:
        raise InputError(
            "are two ways of asking", where="--risk, --coverage", hint="name one of both"
        )
    for name, bounds in (("--per-route", per_route), ("--cost", cost is not None)):
        if coverage is not None and bounds:
            raise InputError(
                "bounds what --risk names, and does not go with --coverage",
                where=name,
                hint="leave one of both out",
            )
    options = SelectiveOptions(
        risk=_DEFAULT_RISK if risk is None and coverage is None else risk,
        coverage=coverage,
        delta=delta,
        share=share,
        seed=seed,
        per_route=per_route,
        cost=cost,
    )
    calibrate_selective(run, records, policy_out, options, report)


def _default_promise(run: Path | None) -> Promise:
    of_ookb = run is not None and read_manifest(run).get("suite") == "ookb"
    return Promise.LEAK if of_ookb else Promise.SELECTIVE


def _refuse_unfitting(promise: Promise, given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None and value is not False:
            other = Promise.LEAK if promise is Promise.SELECTIVE else Promise.SELECTIVE
            raise InputError(
                f"does not go with the promise {promise.value!r}",
                where=name,
                hint=f"leave it out, or promise something else (--promise {other.value})",
            )


def _calibrate_leak(
    run: Path,
    policy_out: Path,
    risk: float,
    delta: float,
    share: float,
    seed: int,
    answer_from_memory: float | None,
) -> None:
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
