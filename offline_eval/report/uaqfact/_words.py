"""The sentences that open the report, and what to know before trusting its numbers."""

from __future__ import annotations

from ....calibration import Interval
from ...uaqfact import MODEL_SYSTEM, ScoreLine
from .._escaping import one_line
from .._numbers import counted, decimal, percent
from ._summary import UaqSummary

_FEW = 30
_NBSP = "\u00a0"


def headline(summary: UaqSummary) -> list[str]:
    """The sentences that say it all, the most important one first."""
    lines = []
    plain = next((line for line in summary.whole if line.system == MODEL_SYSTEM), None)
    if plain is not None:
        lines.append(_declines(plain, "The model"))
    if plain is not None and plain.metrics.krr.value is not None:
        lines.append(
            f"It knows the facts behind {_with(plain.metrics.kpr)} of the unanswerable questions; "
            f"how far it puts them to use in declining (KRR): {decimal(plain.metrics.krr.value)}, "
            "where .5 is not at all."
        )
    if not summary.whole and summary.choices and summary.choices[0].kpr.value is not None:
        lines.append(
            f"The model knows the facts behind {_with(summary.choices[0].kpr)} of the unanswerable "
            "questions (KPR)."
        )
    for line in summary.whole:
        if line.system == MODEL_SYSTEM and line.form != "question" and line is not plain:
            lines.append(_declines(line, _GIVEN[line.form]))
        elif line.system != MODEL_SYSTEM:
            lines.append(
                _declines(line, f"With the guard {one_line(line.system)} ({_FORMS[line.form]}) it")
            )
    return [line for line in lines if line] or ["No question of this run has a reply."]


_GIVEN = {
    "clue": "After the reasoning up to the answer it",
    "facts": "With the facts that the question needs it",
    "retrieved": "With retrieved facts it",
}
_FORMS = {
    "clue": "after the reasoning",
    "facts": "facts handed over",
    "retrieved": "facts retrieved",
}


def warnings(summary: UaqSummary) -> list[str]:
    """What to know before trusting the numbers."""
    lines = []
    manifest = summary.run.manifest
    if len(summary.run.rows) < manifest.rows:
        lines.append(
            f"The run is not finished: {len(summary.run.rows)} of {manifest.rows} rows. Start the "
            "same command again, it goes on where it stopped."
        )
    failed = sum(summary.failures.values())
    if failed:
        lines.append(
            f"{counted(failed, 'question', 'questions')} got no reply and "
            f"{'is' if failed == 1 else 'are'} left out of the numbers, see Failures."
        )
    short = sum(
        row.shots < manifest.settings.get("shots", 0)
        for row in summary.run.rows
        if row.form in ("question", "clue") and row.error is None and row.route is None
    )
    replayed = manifest.settings.get("model") == "replay"
    if short and not replayed:
        lines.append(
            f"{counted(short, 'prompt has', 'prompts have')} fewer examples than asked for: the "
            "model's window is short."
        )
    small = [line for line in summary.whole if line.metrics.questions < _FEW]
    if small:
        lines.append(f"Fewer than {_FEW} questions: the intervals say how little that is.")
    return lines


def _declines(line: ScoreLine, who: str) -> str:
    metrics = line.metrics
    if metrics.r_ua.value is None or metrics.r_ab.value is None:
        return ""
    return (
        f"{who} declines {_with(metrics.r_ua)} of the questions that have no answer and "
        f"{_with(metrics.r_ab)} of those that have one; of these it gets {_with(metrics.accuracy)} "
        "right."
    )


def _with(interval: Interval) -> str:
    if interval.value is None:
        return "–"
    if interval.low is None or interval.high is None:
        return percent(interval.value)
    low, high = percent(interval.low), percent(interval.high)
    return f"{percent(interval.value)} (95{_NBSP}% interval {low} to {high})"
