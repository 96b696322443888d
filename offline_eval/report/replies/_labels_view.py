"""The section on people's labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....calibration import Interval
from ...judges import JudgeValidation
from .._escaping import one_line, shortened
from .._grid import Cell, Table, cells_of, table_of
from .._numbers import counted, decimal, percent
from ._labels import CorrectedRate, LabelsSummary

_RATE_NAMES = {
    "abstention_rate": "Declined, answer not in KB",
    "factuality_rate": "Right of those answered",
    "false_abstention_rate": "Declined without need",
}


@dataclass(frozen=True, slots=True)
class LabelsView:
    """People's labels as the templates show them; `sentences` alone where nobody labelled."""

    sentences: tuple[str, ...]
    tables: tuple[tuple[str, Table], ...]


def labels_view(summary: LabelsSummary | None, names: Mapping[str, str]) -> LabelsView:
    """The view of a summary.

    Args:
        summary: None where nobody labelled.
        names: of systems, by id.
    """
    if summary is None:
        return LabelsView(
            (
                "Nobody has labelled replies of this run, so nothing is known of how often its "
                "judges err. 'knowgate label' with this run folder and --annotator NAME opens a "
                "page for that; a hundred labels say a good deal. The next report then shows how "
                "far people agree, how far the judges agree with them, and rates corrected for the "
                "judges’ errors.",
            ),
            (),
        )
    people = ", ".join(
        f"{shortened(name, 40)} ({counted(count, 'label', 'labels')})"
        for name, count in summary.annotators.items()
    )
    sentences = [f"Labelled by {people}. What most of them say counts; ties are left out."]
    for found in summary.validations:
        sentences += [
            one_line(f"Mind, of {found.judge} on {found.criterion}: {warning}.")
            for warning in found.warnings
        ]
    tables = [
        ("People among each other", _agreements(summary)),
        ("Judges against people", _validations(summary.validations)),
        ("Rates corrected for the judges’ errors", _corrected(summary.corrected, names)),
    ]
    return LabelsView(tuple(sentences), tuple(table for table in tables if table[1].lines))


def _agreements(summary: LabelsSummary) -> Table:
    found = summary.agreements
    columns: list[tuple[str, list[Cell]]] = [
        ("Labelled", [Cell(str(one.replies)) for one in found]),
        ("By two or more", [Cell(str(one.by_two)) for one in found]),
        ("Disagreed", [Cell(str(one.disagreements)) for one in found]),
        ("Fleiss’ κ", cells_of([one.fleiss for one in found], _two, 0)),
        ("Krippendorff’s α", cells_of([one.alpha for one in found], _two, 0)),
    ]
    if any(len(one.cohen) == 1 for one in found):
        cohen = [
            next(iter(one.cohen.values())) if len(one.cohen) == 1 else _NOTHING for one in found
        ]
        columns.insert(3, ("Cohen’s κ", cells_of(cohen, _two, 0)))
    return table_of("Criterion", [one_line(one.criterion) for one in found], columns)


def _validations(found: tuple[JudgeValidation, ...]) -> Table:
    columns: list[tuple[str, list[Cell]]] = [("Labels", [Cell(str(one.n)) for one in found])]
    for heading, name in (
        ("Accuracy", "accuracy"),
        ("Precision", "precision"),
        ("Recall", "recall"),
    ):
        columns.append((heading, cells_of([getattr(one, name) for one in found], percent, 0)))
    columns.append(("κ", cells_of([one.kappa for one in found], _two, 0)))
    lines = [one_line(f"{one.criterion}, {one.judge}") for one in found]
    return table_of("Criterion, judge", lines, columns)


def _corrected(found: tuple[CorrectedRate, ...], names: Mapping[str, str]) -> Table:
    lines = [
        f"{_RATE_NAMES[one.name]}: {names.get(one.system, one.system) or 'all systems'}"
        for one in found
    ]
    columns: list[tuple[str, list[Cell]]] = [
        ("As judged", cells_of([one.raw for one in found], percent, 0)),
        ("As people would find it", cells_of([one.corrected for one in found], percent, 0)),
        ("Labels", [Cell(str(one.labels)) for one in found]),
        ("Judge", [Cell(one_line(one.judge)) for one in found]),
    ]
    return table_of("Rate", lines, columns)


_NOTHING = Interval(None, None, None, 0)


def _two(value: float) -> str:
    return decimal(value, 2)
