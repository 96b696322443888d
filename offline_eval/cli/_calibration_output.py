"""What `calibrate` and `recalibrate` read and print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...calibration import Interval
from ...guard.errors import InputError
from ._console import out

if TYPE_CHECKING:
    from ..policies import Calibrated, CalibrationSet, LeakRates, Rates

Run = Annotated[Path | None, typer.Option(help="A finished run folder.")]
Records = Annotated[
    Path | None,
    typer.Option(
        help="Instead of a run, JSON lines: one per question and case, with question_id, "
        "relevance, confidence, context_right, closed_book_right."
    ),
]
PolicyOut = Annotated[Path, typer.Option("--out", help="Where policy.json goes.")]
Share = Annotated[
    float | None,
    typer.Option(
        help="Share of the questions to fit on; the rest is held out for reporting.  "
        "[default: 0.5 for leak, 0.8 for selective]"
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed of the split, 0 or more.")]
Report = Annotated[
    Path | None,
    typer.Option(help="selective: write this page (.html), with plots, and JSON beside it."),
]


def read_calibration_set(run: Path | None, records: Path | None) -> CalibrationSet:
    """Read the run or the records file, whichever is given.

    Raises:
        InputError: both or neither are given, or it cannot be used.
    """
    from ..policies import read_records, records_from_run

    require_one_source(run, records)
    if records is not None:
        return read_records(records)
    assert run is not None
    return records_from_run(run)


def require_one_source(run: Path | None, records: Path | None) -> None:
    """Reject two sources, or none.

    Raises:
        InputError: both or neither are given.
    """
    if (run is None) == (records is None):
        raise InputError("exactly one is needed", where="--run, --records", hint="name one of both")


def require_share_and_seed(share: float | None, seed: int) -> None:
    """Reject a share or a seed that is out of range.

    Raises:
        InputError: one of them is.
    """
    if share is not None and not 0 < share <= 1:
        raise InputError(
            f"must be above 0 and at most 1, not {share:g}",
            where="--share",
            hint="name a share such as 0.8",
        )
    if seed < 0:
        raise InputError(f"must not be below 0, not {seed}", where="--seed", hint="name 0 or more")


def promise_lines(found: Calibrated) -> list[str]:
    """What is guaranteed, for whom, what is not, and where the thresholds are."""
    policy = found.policy
    lines = [] if policy.guarantee is None else [policy.guarantee.statement]
    if found.learn:
        lines.append(
            f"population: {found.measured.population or 'questions like those of the records'}"
        )
    lines += [
        *(["nor does it say anything about:"] if found.not_promised else []),
        *(f"  - {line}" for line in found.not_promised),
        *(f"careful: {line}" for line in found.warnings),
    ]
    return lines


def threshold_line(found: Calibrated) -> str:
    """From which signals on the context is followed, and memory answers."""
    policy, parts = found.policy, []
    if policy.may_follow:
        parts.append(f"follow the context from relevance {policy.relevance_threshold:.3f}")
    if policy.may_answer:
        declared = (
            ""
            if found.learn
            else (" (declared, not certified; serving it takes a confidence estimator)")
        )
        parts.append(
            f"answer from memory from confidence {policy.confidence_threshold:.3f}{declared}"
        )
    return f"thresholds: {', else '.join(parts) or 'none, it always abstains'}"


def rate_lines(found: Calibrated) -> list[str]:
    """How the policy did on the held-out questions."""
    if found.leak_rates is not None:
        return [_leak_line(found.leak_rates, answers=found.policy.may_answer)]
    return [] if found.rates is None else _selective_lines(found.rates)


def _leak_line(rates: LeakRates, *, answers: bool) -> str:
    verb = "keeps the context from" if answers else "abstains from"
    return (
        f"on the held-out questions: {verb} {rate_text(rates.left_out_abstention)} of left-out "
        f"ones, and from {rate_text(rates.false_abstention)} of those it could answer"
    )


def _selective_lines(rates: Rates) -> list[str]:
    return [
        f"on {_counted(rates.questions, 'held-out question')}: lets through "
        f"{rate_text(rates.coverage)} of cases, of those wrong {rate_text(rates.risk)}",
        "abstains although context or memory was right: " + rate_text(rates.false_abstention),
    ]


def rate_text(rate: Interval) -> str:
    """A share with its interval."""
    if rate.value is None:
        return "an unknown share (none there)"
    units = _counted(rate.n, "independent unit")
    if rate.low is None or rate.high is None:
        return f"{rate.value:.1%} ({units})"
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] ({units})"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def print_lines(lines: list[str], policy_out: Path, report: Path | None) -> None:
    """Print the lines, and where the files went."""
    written = [f"policy → {policy_out}"]
    if report is not None:
        written.append(f"report → {report}")
    out.print("\n".join([*lines, *written]), markup=False)
