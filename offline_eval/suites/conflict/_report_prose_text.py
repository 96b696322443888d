"""The sentences that open the report, and what to know before trusting its numbers."""

from __future__ import annotations

from ....calibration import Interval
from ....guard.decision import Route
from ...report import counted, percent, shortened, signed
from ._items import EvidenceKind, Task
from ._report_summary import ConflictSummary
from ._rows import MODEL_SYSTEM, REMOVES

_FEW, _MOST_GUARDS = 30, 3
_NBSP = "\u00a0"
KIND_WORDS = {
    EvidenceKind.NC: "agrees with the belief",
    EvidenceKind.HPC: "contradicts it, plausibly",
    EvidenceKind.HPCE: "the same with a rationale",
    EvidenceKind.LPC: "contradicts it, implausibly",
}
TASK_WORDS = {
    Task.KF: "copy the answering sentence",
    Task.CK: "answer from the context only",
    Task.PK: "answer from own knowledge only",
    Task.PCK: "give both views",
    Task.RAG: "two passages, no instruction which to prefer",
}


def headline(summary: ConflictSummary) -> list[str]:
    """The sentences that say it all, the most important one first."""
    lines = [
        _suppression(summary),
        _removal(summary),
        *_guards(summary),
        _context(summary),
        _preference(summary),
    ]
    return [line for line in lines if line] or ["Nothing could be measured in this run."]


def _suppression(summary: ConflictSummary) -> str:
    for found in summary.suppressions:
        if found.system == MODEL_SYSTEM and found.evidence is EvidenceKind.HPC:
            if found.score.value is None:
                return "No question is right without a passage, so nothing could be suppressed."
            return (
                "Told to ignore a plausible passage that contradicts it, the model keeps "
                f"{_with(found.score)} of the answers that it gets right without one."
            )
    return ""


def _removal(summary: ConflictSummary) -> str:
    for found in summary.suppressions:
        if found.system == REMOVES and found.evidence is EvidenceKind.HPC:
            if found.accuracy.value is None or found.difference.value is None:
                return ""
            return (
                f"With every passage removed it gets {_with(found.accuracy)} of these questions "
                f"right, {points(found.difference)} against closed book."
            )
    return ""


def _guards(summary: ConflictSummary) -> list[str]:
    """What guards make of plausible contradictions; a few of them."""
    lines = []
    for found in summary.suppressions:
        routes = summary.routes.get(found.system, {}).get(EvidenceKind.HPC)
        if found.evidence is EvidenceKind.HPC and routes and found.accuracy.value is not None:
            lines.append(
                f"The guard {shortened(found.system, 60)} removes the passage in "
                f"{routes[Route.ANSWER]} of {counted(sum(routes.values()), 'case', 'cases')} and "
                f"abstains in {routes[Route.ABSTAIN]}: with it {_with(found.accuracy)} are right."
            )
    return lines[:_MOST_GUARDS]


def _context(summary: ConflictSummary) -> str:
    values = {
        cell.evidence: cell.accuracy
        for cell in summary.cells
        if cell.task is Task.CK and cell.accuracy.value is not None
    }
    if EvidenceKind.NC not in values or len(values) == 1:
        return ""
    parts = [f"{percent(found.value or 0)} ({kind.value})" for kind, found in values.items()]
    return f"Told to follow the passage, it does so in {', '.join(parts)}."


def _preference(summary: ConflictSummary) -> str:
    value = summary.plausible_preference
    if value.value is None:
        return ""
    return (
        "Between two passages it goes with the contradicting one "
        f"{points(value)} more often where that one is plausible than where it is not."
    )


def warnings(summary: ConflictSummary) -> list[str]:
    """What to know before trusting the numbers."""
    run, lines = summary.run, []
    if len(run.rows) < summary.run.planned_rows:
        lines.append(
            f"The run is not finished: {len(run.rows)} of {run.planned_rows} rows. Start the "
            "same command again, it goes on where it stopped."
        )
    if run.manifest.settings.get("beliefs") == "given":
        lines.append(
            "The beliefs came with the data and were not asked of this model; where they are "
            "those of another one, what is called its belief may not be. Closed-book accuracy "
            "shows how far they fit."
        )
    if run.manifest.settings.get("answers") == "likelihood":
        lines.append(
            "Options were scored by their likelihood: a model that was never taught to follow "
            "instructions sees them as further words of the prompt."
        )
    failed = sum(summary.failures.values())
    if failed:
        lines.append(
            f"{counted(failed, 'call', 'calls')} failed and "
            f"{'is' if failed == 1 else 'are'} left out of the numbers, see Failures."
        )
    cut = sum(row.cut for row in run.rows if row.system not in run.guards)
    if cut:
        lines.append(
            f"{counted(cut, 'prompt has', 'prompts have')} shortened passages: the model's "
            "window is short."
        )
    unread = sum(cell.unread for cell in summary.cells)
    if unread:
        lines.append(
            f"{counted(unread, 'reply names', 'replies name')} no option that could be read and "
            f"{'counts' if unread == 1 else 'count'} as wrong."
        )
    if len(run.instances) < _FEW:
        lines.append(f"Fewer than {_FEW} questions: the intervals say how little that is.")
    return lines


def points(interval: Interval) -> str:
    """A difference of shares in percentage points, with its interval."""
    if interval.value is None:
        return "–"
    value = f"{signed(100 * interval.value, 1)} percentage points"
    if interval.low is None or interval.high is None:
        return value
    low, high = signed(100 * interval.low, 1), signed(100 * interval.high, 1)
    return f"{value} (95{_NBSP}% interval {low} to {high})"


def _with(interval: Interval) -> str:
    if interval.value is None:
        return "–"
    if interval.low is None or interval.high is None:
        return percent(interval.value)
    low, high = percent(interval.low), percent(interval.high)
    return f"{percent(interval.value)} (95{_NBSP}% interval {low} to {high})"
