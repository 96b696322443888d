"""Several scorers measured on one's own knowledge base: which one to take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ...calibration import Interval
from ...guard.errors import InputError
from ..suites.ookb import compare_scorers
from ..suites.ookb.scorer_comparison import ScorerComparison
from ..suites.parts import RunOptions
from ._console import aligned, err, out, print_figures


def compare(
    settings: Any,
    scorers: Sequence[str],
    folder: Path,
    risk: float,
    options: RunOptions,
) -> None:
    """Measure each scorer into a run below the folder, and print which one to take.

    Args:
        settings: of `knowgate measure`.
        scorers: names.
        folder: for the runs and the report.
        risk: share of left-out questions that may pass.
        options: how they are run.

    Raises:
        InputError: scorers, settings or risk cannot be used.
        typer.Exit: with code 1, if cases failed.
    """
    if not 0 < risk < 1:
        raise InputError(
            f"must be between 0 and 1, not {risk:g}", where="--risk", hint="name one such as 0.1"
        )
    found = compare_scorers(settings, scorers, folder, risk=risk, options=options)
    for line in _lines(found):
        out.print(line)
    print_figures(found.to_dict())
    out.print(f"report → {folder / 'report.html'}")
    if found.failed:
        err.print(
            f"{found.failed} cases failed: see `error` in the rows.jsonl of each scorer in "
            f"{folder}; add --retry-failed to the same command to ask again"
        )
        raise typer.Exit(1)


def _lines(found: ScorerComparison) -> list[str]:
    """The table of scorers, their differences, and which one to take."""
    columns = (
        "scorer", "AUROC", f"false abstention at {found.risk:.3g} leak", "failed", "ms/question",
        "calls/question",
    )  # fmt: skip
    scorers = [
        (
            one.name,
            _interval(one.auroc, ".3f"),
            _interval(one.false_abstention, ".1%"),
            f"{one.failed} of {one.cases}" if one.failed else "0",
            "–" if one.milliseconds is None else f"{one.milliseconds:.1f}",
            f"{one.calls_per_question:.2g}",
        )
        for one in found.scorers
    ]
    missed = found.retrieval_misses
    told = f", {missed} retrieval misses left out" if missed else ""
    lines = [f"{found.questions} questions on {found.passages} passages{told}", ""]
    lines += aligned(columns, scorers)
    pairs = [
        (f"{first} − {second}", _interval(auroc, "+.3f"), _interval(lost, "+.1%"))
        for first, second, auroc, lost in found.differences
    ]
    if pairs:
        lines += ["", *aligned(("difference", "AUROC", "false abstention"), pairs)]
    return [*lines, "", found.choice.reason]


def _interval(value: Interval, form: str) -> str:
    if value.value is None or value.low is None or value.high is None:
        return "–"
    return f"{value.value:{form}} [{value.low:{form}}, {value.high:{form}}]"
