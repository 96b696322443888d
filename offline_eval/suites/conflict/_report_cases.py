"""The replies that the report of this suite shows."""

from __future__ import annotations

from collections.abc import Sequence

from ...report import Case, CaseLine, Cases, Passages, Section, one_line
from .._parts import MODEL_SYSTEM
from ._items import EvidenceKind, Task
from ._report_summary import ConflictSummary
from ._rows import ConflictRow, Instance

_SHOWN, _PASSAGE = 4, 600
_KINDS = (
    (Task.PK, "Did not give its own answer", "The belief was asked for, not the passage."),
    (Task.CK, "Did not follow the passage", "What the passage says was asked for."),
    (Task.PCK, "Did not give both views", "Passage and belief were asked for."),
    (Task.RAG, "Did not give the answers of both passages", "No instruction was given."),
    (Task.KF, "Did not copy the sentence", "The answering sentence was asked for."),
)


def shown_groups(summary: ConflictSummary) -> list[Section]:
    """Choose a few wrong replies of each task."""
    instances = {instance.key: instance for instance in summary.run.instances}
    wrong = [
        row
        for row in summary.run.rows
        if row.system == MODEL_SYSTEM and row.correct is False and row.evidence is not None
    ]
    return [
        Section(
            f"{title}: {len(rows)}",
            (meaning, Cases(tuple(_shown(row, instances[row.key]) for row in _spread(rows)))),
            folded=True,
        )
        for task, title, meaning in _KINDS
        if (rows := [row for row in wrong if row.task is task])
    ]


def _spread(rows: Sequence[ConflictRow]) -> list[ConflictRow]:
    """Pick a few rows, evenly over the kinds of evidence, in a fixed order."""
    by_kind: dict[EvidenceKind | None, list[ConflictRow]] = {}
    for row in rows:
        by_kind.setdefault(row.evidence, []).append(row)
    # Another question for each kind, where there are several.
    turns = [some[place % len(some) :] for place, some in enumerate(by_kind.values())]
    found = [some[depth] for depth in range(_SHOWN) for some in turns if depth < len(some)]
    return found[:_SHOWN]


def _shown(row: ConflictRow, instance: Instance) -> Case:
    assert row.evidence is not None  # closed book is not among them
    chosen = "none that could be read" if row.letters is None else ", ".join(row.letters) or "none"
    reply = one_line(row.response, _PASSAGE) if row.response else f"options chosen: {chosen}"
    options = zip("ABCD", instance.options, strict=True) if row.task is not Task.KF else ()
    return Case(
        question=instance.question,
        note=f"{row.task.value} over {row.evidence.value}",
        parts=(
            Passages((CaseLine(one_line(instance.evidence[row.evidence].passage, _PASSAGE)),)),
            *(CaseLine(option.text, f"({letter})") for letter, option in options),
            CaseLine(", ".join(row.right) or "the sentence that answers", "Right", right=True),
            CaseLine(reply or "(empty)", "Reply"),
        ),
    )
