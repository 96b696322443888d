"""The report of a run of this suite: its sentences and sections.

run ─► conflict_run ─► summarise_conflict ─► conflict_document ─► a file per format
"""

from __future__ import annotations

from ....calibration import Interval
from ....guard.decision import Route
from ...report import (
    Document,
    Facts,
    Prose,
    Section,
    Table,
    counted,
    decimal,
    estimate_text,
    explained,
    one_line,
    percent,
)
from .._parts import MODEL_SYSTEM
from ._items import EvidenceKind, Task
from ._report_cases import shown_groups
from ._report_plots import suppression_plot, task_plot
from ._report_summary import ConflictSummary
from ._report_tables import (
    TASK_NAMES,
    accuracy_table,
    confident_table,
    cost_table,
    evidence_table,
    plausibility_table,
    preference_table,
    route_table,
    suppression_table,
)
from ._rows import REMOVES

_FEW, _MOST_GUARDS = 30, 3
_TESTED = (
    "A passage before a question can agree with what the model believes, or contradict it. Some "
    "tasks need the passage (CK), some are hindered by it (PK), some need both (PCK), some leave "
    "open whom to trust (RAG), and one needs no knowledge at all (KF). How far accuracy falls from "
    "passages that agree (NC) to passages that contradict (HPC, HPCE, LPC) tells how well the "
    "model keeps the two apart."
)
_WHY = {
    "one": "exactly one answer in all variants",
    "none": "no answer",
    "several": "several answers",
    "unsteady": "variants differ",
    "error": "the model failed",
}
_GIVEN = {**_WHY, "one": "a belief is given", "none": "none is given"}
_BELIEFS = {
    "given": "with the data",
    "asked": "asked for yes or no, answer by answer",
    "closed_book": "the model's own answer in all wordings",
}
_ANSWERS = {
    "letters": "by letter, after an explanation",
    "likelihood": "by the options' likelihoods",
    "free": "in free text",
}


def conflict_document(summary: ConflictSummary) -> Document:
    """Make the report of a summarised run."""
    run = summary.run
    return Document(
        name="conflict",
        title="Context against memory",
        subtitle=(
            f"{counted(len(run.instances), 'question')} with a belief and evidence, of "
            f"{run.manifest.questions} · answers taken {_ANSWERS[run.manifest.settings['answers']]}"
            " · conflict suite"
        ),
        headline=headline(summary),
        warnings=warnings(summary),
        sections=_sections(summary),
        values=summary.to_dict(),
    )


def headline(summary: ConflictSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    lines = [
        _suppressed(summary),
        _removed(summary),
        *_guarded(summary),
        _followed(summary),
        _preferred(summary),
    ]
    found = [line for line in lines if line] or _shares(summary)
    return found or ["Nothing could be measured in this run."]


def _shares(summary: ConflictSummary) -> list[str]:
    """Say how often each task is done rightly, for runs that have nothing to compare it with."""
    shares: dict[Task, list[str]] = {}
    for cell in summary.cells:
        if cell.accuracy.value is not None:
            share = f"{percent(cell.accuracy.value)} ({cell.evidence.value})"
            shares.setdefault(cell.task, []).append(share)
    return [
        f"{task.value}, {TASK_NAMES[task]}: right in {', '.join(found)}."
        for task, found in shares.items()
    ]


def _suppressed(summary: ConflictSummary) -> str:
    for found in summary.suppressions:
        if found.system == MODEL_SYSTEM and found.evidence is EvidenceKind.HPC:
            if found.score.value is None:
                return "No question is right without a passage, so nothing could be suppressed."
            return (
                "Told to ignore a plausible passage that contradicts it, the model keeps "
                f"{estimate_text(found.score)} of the answers that it gets "
                "right without one."
            )
    return ""


def _points(difference: Interval) -> str:
    """Write a difference of two shares in percentage points, with its interval."""
    value, low, high = (
        None if end is None else decimal(100 * end, 1, signed=True)
        for end in (difference.value, difference.low, difference.high)
    )
    interval = "" if low is None or high is None else f" (95\u00a0% interval {low} to {high})"
    return f"{value} percentage points{interval}"


def _removed(summary: ConflictSummary) -> str:
    for found in summary.suppressions:
        if found.system == REMOVES and found.evidence is EvidenceKind.HPC:
            if found.accuracy.value is None or found.difference.value is None:
                return ""
            return (
                "With every passage removed it gets "
                f"{estimate_text(found.accuracy)} of these questions right, "
                f"{_points(found.difference)} against closed book."
            )
    return ""


def _guarded(summary: ConflictSummary) -> list[str]:
    lines = []
    for found in summary.suppressions:
        routes = summary.routes.get(found.system, {}).get(EvidenceKind.HPC)
        if found.evidence is EvidenceKind.HPC and routes and found.accuracy.value is not None:
            lines.append(
                f"The guard {one_line(found.system, 60)} removes the passage in "
                f"{routes[Route.ANSWER]} of {counted(sum(routes.values()), 'case')} and "
                f"abstains in {routes[Route.ABSTAIN]}: with it "
                f"{estimate_text(found.accuracy)} are right."
            )
    return lines[:_MOST_GUARDS]


def _followed(summary: ConflictSummary) -> str:
    values = {
        cell.evidence: cell.accuracy
        for cell in summary.cells
        if cell.task is Task.CK and cell.accuracy.value is not None
    }
    if EvidenceKind.NC not in values or len(values) == 1:
        return ""
    parts = [f"{percent(found.value)} ({kind.value})" for kind, found in values.items()]
    return f"Told to follow the passage, it does so in {', '.join(parts)}."


def _preferred(summary: ConflictSummary) -> str:
    value = summary.plausible_preference
    if value.value is None:
        return ""
    return (
        f"Between two passages it follows the contradicting one {_points(value)} more often "
        "where that one is plausible than where it is not."
    )


def warnings(summary: ConflictSummary) -> list[str]:
    """List what to know before trusting the numbers."""
    run, lines = summary.run, []
    if len(run.rows) < run.planned_rows:
        lines.append(
            f"The run is not finished: {len(run.rows)} of {run.planned_rows} rows. Run the same "
            "command again to continue it."
        )
    if run.manifest.settings.get("beliefs") == "given":
        lines.append(
            "The beliefs came with the data and were not asked of this model; if they are those "
            "of another model, what is called its belief may not be. Closed-book accuracy shows "
            "how well they fit."
        )
    if run.manifest.settings.get("answers") == "likelihood":
        lines.append(
            "Options were scored by their likelihood: a model that was not trained to follow "
            "instructions reads them as a continuation of the prompt."
        )
    failed = sum(summary.failures.values())
    if failed:
        lines.append(
            f"{counted(failed, 'call')} failed and {'is' if failed == 1 else 'are'} left out of "
            "the numbers, see Failures."
        )
    cut = sum(row.cut for row in run.rows if row.system not in run.guards)
    if cut:
        lines.append(
            f"{counted(cut, 'prompt has', 'prompts have')} shortened passages: the model's "
            "context window is short."
        )
    unread = sum(cell.unread for cell in summary.cells)
    if unread:
        lines.append(
            f"{counted(unread, 'reply names', 'replies name')} no option that could be read and "
            f"{'counts' if unread == 1 else 'count'} as wrong."
        )
    if len(run.instances) < _FEW:
        lines.append(f"Fewer than {_FEW} questions: the intervals are accordingly wide.")
    return lines


def _sections(summary: ConflictSummary) -> list[Section | None]:
    manifest = summary.run.manifest
    preference, bands = preference_table(summary), plausibility_table(summary)
    groups = shown_groups(summary)
    failures = Table.of_text(("Type of error", "Calls"), list(summary.failures.items()))
    quirks = Prose(tuple(manifest.quirks), bullets=True)
    return [
        Section("What was tested", (_TESTED,)),
        _accuracy(summary),
        _suppression(summary),
        Section("Two passages side by side", (preference,)) if preference else None,
        Section("By plausibility", (bands,)) if bands else None,
        _evidence(summary),
        Section("Replies worth reading", tuple(groups)) if groups else None,
        Section("Failures", (failures,)) if summary.failures else None,
        Section("Irregularities in the data", (quirks,)) if manifest.quirks else None,
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    ]


def _accuracy(summary: ConflictSummary) -> Section | None:
    table = accuracy_table(summary)
    if table is None:
        return None
    cost, confident = cost_table(summary), confident_table(summary)
    subset = (
        f"{counted(summary.confident, 'question is', 'questions are')} right in every four-option "
        "task over NC: on these, an error over other evidence is not one that the model makes "
        "anyway. (Over contradicting evidence PCK and RAG want two options.)"
    )
    return Section(
        "Accuracy by task and evidence",
        (
            task_plot(summary),
            table,
            Section("What contradiction costs", (cost,)) if cost else None,
            Section("High-confidence subset", (subset, confident)) if confident else None,
        ),
    )


def _suppression(summary: ConflictSummary) -> Section | None:
    table, routes = suppression_table(summary), route_table(summary)
    if table is None:
        return None
    decided = Section("What the guards decided", (routes,)) if routes else None
    return Section(
        "Ignoring a passage, and removing it", (suppression_plot(summary), table, decided)
    )


def _evidence(summary: ConflictSummary) -> Section:
    settings = summary.run.manifest.settings
    why = _GIVEN if settings["beliefs"] == "given" else _WHY
    unused = tuple(
        f"{one.kind.value}: {reason}: {number}"
        for one in summary.evidence
        for reason, number in one.refused.items()
    )
    letters = ", ".join(f"{letter} {number}" for letter, number in summary.letters.items())
    right = (f"Right letters, where one option is right: {letters}.",) if letters else ()
    return Section(
        "Beliefs and evidence",
        (
            f"Beliefs were found {_BELIEFS[settings['beliefs']]}.",
            Facts(tuple((why[key], str(number)) for key, number in summary.beliefs.items())),
            evidence_table(summary),
            Section("Passages that are not used", (Prose(unused, bullets=True),), folded=True)
            if unused
            else None,
            Prose((*right, *explained("intervals", "clear")), small=True),
        ),
    )
