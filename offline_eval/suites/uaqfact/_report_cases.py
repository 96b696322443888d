"""The replies that the report of this suite shows."""

from __future__ import annotations

from collections.abc import Sequence

from ...data.graph import UaqItem
from ...report import Case, CaseLine, Cases, Passages, Section
from .._parts import MODEL_SYSTEM
from ._plan import UaqRow
from ._report_summary import UaqSummary
from ._report_tables import FORM_NAMES

_SHOWN = 5


def shown_groups(summary: UaqSummary) -> list[Section]:
    """Choose a few replies of each kind of mistake."""
    items = {item.key: item for item in summary.run.data.items}
    invented, abstained, wrong = [], [], []
    for row in summary.run.rows:
        verdict = summary.scored.get(row.row_id)
        if verdict is None:
            continue
        if verdict.unanswerable and not verdict.refused:
            invented.append(row)
        elif not verdict.unanswerable and verdict.refused:
            abstained.append(row)
        elif not verdict.unanswerable and not verdict.correct:
            wrong.append(row)
    kinds = (
        ("Answered without an answer", "The question has none, and the reply names one.", invented),
        ("False abstentions", "The question has an answer, and the reply abstains.", abstained),
        ("Wrong answers", "The question has another answer than the reply names.", wrong),
    )
    return [
        Section(
            f"{title}: {len(rows)}",
            (meaning, Cases(tuple(_shown(row, items[row.key]) for row in _spread(rows)))),
            folded=True,
        )
        for title, meaning, rows in kinds
    ]


def _spread(rows: Sequence[UaqRow]) -> list[UaqRow]:
    """Pick a few rows, evenly over systems, forms and types, in a fixed order."""
    by_part: dict[tuple[str, str, str], list[UaqRow]] = {}
    for row in rows:
        by_part.setdefault((row.system, row.form, row.type.value), []).append(row)
    chosen: list[UaqRow] = []
    turn = 0
    while len(chosen) < min(_SHOWN, len(rows)):
        for part in by_part.values():
            if turn < len(part) and len(chosen) < _SHOWN:
                chosen.append(part[turn])
        turn += 1
    return chosen


def _shown(row: UaqRow, item: UaqItem) -> Case:
    system = "" if row.system == MODEL_SYSTEM else f"guard {row.system} · "
    facts = () if row.form == "question" else item.clues
    given = tuple(CaseLine(f"{clue.question} {', '.join(clue.answers)}") for clue in facts)
    wanted = ", ".join(answer.label for answer in item.answers) or "no answer"
    return Case(
        question=item.question,
        note=f"{item.key} · {system}{FORM_NAMES[row.form]}",
        parts=(
            CaseLine(wanted, "Wanted", right=True),
            *([Passages(given)] if given else []),
            CaseLine(row.response or "(empty)", "Reply"),
        ),
    )
