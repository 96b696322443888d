"""Several scorers measured on one's own knowledge base: which one to take."""

from __future__ import annotations

from ...calibration import Interval
from ..suites.ookb.scorer_comparison import ScorerComparison
from ._console import aligned


def comparison_lines(found: ScorerComparison) -> list[str]:
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
