"""The report of a run of this suite: its sentences and sections.

run folder ─► checked_run ─► summarise_uaqfact ─► uaqfact_document ─► a file per format
"""

from __future__ import annotations

from ...report import (
    Document,
    Prose,
    Section,
    Table,
    counted,
    decimal,
    estimate_text,
    explained,
)
from .._parts import MODEL_SYSTEM
from ._report_cases import shown_groups
from ._report_plots import refusal_plot
from ._report_summary import UaqSummary
from ._report_tables import choice_table, metric_table, part_table, rule_table
from ._scoring import ScoreLine

_FEW = 30
_TESTED = (
    "Some questions have no answer: nobody is both the father of one person and the mayor of a "
    "certain town; nobody held the office in the years asked about; both options offered are "
    "wrong. A good model abstains from these and answers their twins, which differ in a detail "
    "and have an answer. Questions were put alone (task 1), and together with the facts that "
    "settle them (task 3); the facts themselves were asked with four options (task 2)."
)
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


def uaqfact_document(summary: UaqSummary) -> Document:
    """Make the report of a summarised run."""
    run = summary.run
    return Document(
        name="uaqfact",
        title="Questions without an answer",
        subtitle=(
            f"{counted(len(run.data.items), 'question')} ({', '.join(run.data.languages)}), tasks "
            f"{', '.join(map(str, run.tasks))} · UAQFact suite"
        ),
        headline=headline(summary),
        warnings=warnings(summary),
        sections=_sections(summary),
        values=summary.to_dict(),
    )


def headline(summary: UaqSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    lines = []
    plain = next((line for line in summary.whole if line.system == MODEL_SYSTEM), None)
    if plain is not None:
        lines.append(_abstains(plain, "The model"))
    if plain is not None and plain.metrics.krr.value is not None:
        lines.append(
            f"It knows the facts behind {estimate_text(plain.metrics.kpr)} of the unanswerable "
            "questions; how far it puts them to use in abstaining (KRR): "
            f"{decimal(plain.metrics.krr.value)}, where .5 is not at all."
        )
    if not summary.whole and summary.choices and summary.choices[0].kpr.value is not None:
        lines.append(
            f"The model knows the facts behind {estimate_text(summary.choices[0].kpr)} of the "
            "unanswerable questions (KPR)."
        )
    for line in summary.whole:
        if line.system == MODEL_SYSTEM and line.form != "question" and line is not plain:
            lines.append(_abstains(line, _GIVEN[line.form]))
        elif line.system != MODEL_SYSTEM:
            lines.append(_abstains(line, f"With the guard {line.system} ({_FORMS[line.form]}) it"))
    return [line for line in lines if line] or ["No question of this run has a reply."]


def _abstains(line: ScoreLine, who: str) -> str:
    metrics = line.metrics
    if metrics.r_ua.value is None or metrics.r_ab.value is None:
        return ""
    return (
        f"{who} abstains from {estimate_text(metrics.r_ua)} of the questions that have no answer "
        f"and from {estimate_text(metrics.r_ab)} of those that have one; of the latter it gets "
        f"{estimate_text(metrics.accuracy)} right."
    )


def warnings(summary: UaqSummary) -> list[str]:
    """Write what to know before trusting the numbers."""
    lines = []
    manifest = summary.run.manifest
    if len(summary.run.rows) < manifest.rows:
        lines.append(
            f"The run is not finished: {len(summary.run.rows)} of {manifest.rows} rows. Start the "
            "same command again to complete it."
        )
    failed = sum(summary.failures.values())
    if failed:
        lines.append(
            f"{counted(failed, 'question')} got no reply and {'is' if failed == 1 else 'are'} left "
            "out of the numbers, see Failures."
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
    if any(line.metrics.questions < _FEW for line in summary.whole):
        lines.append(f"Fewer than {_FEW} questions: the intervals are accordingly wide.")
    return lines


def _sections(summary: UaqSummary) -> list[Section | None]:
    manifest, choices = summary.run.manifest, summary.choices
    failures = Table.of_text(("Type of error", "Questions"), list(summary.failures.items()))
    quirks = Prose(tuple(manifest.quirks), bullets=True)
    replied = bool(summary.whole)
    return [
        Section("What was tested", (_TESTED,)),
        _abstaining(summary) if replied else None,
        Section("The facts behind the questions", (choice_table(choices),)) if choices else None,
        Section("Strict and published rules", (rule_table(summary),)) if replied else None,
        Section("Replies worth reading", tuple(shown_groups(summary))) if replied else None,
        Section("Failures", (failures,)) if summary.failures else None,
        Section("Irregularities in the data", (quirks,)) if manifest.quirks else None,
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    ]


def _abstaining(summary: UaqSummary) -> Section:
    parts = part_table(summary)
    terms = explained("intervals", "best", "clear_above", "r_delta", "kpr", "krr")
    return Section(
        "Abstaining and answering",
        (
            refusal_plot(summary),
            metric_table(summary.whole),
            Prose((*terms, "A question and its twins are one unit of the bootstrap."), small=True),
            Section("By type and language", (parts,), folded=True) if parts else None,
        ),
    )
