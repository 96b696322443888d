"""The report of a run of this suite: its sentences and sections.

run folder ─► UaqRun ─► UaqSummary ─► uaqfact_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...report.document import Document, as_json
from ...report.plots import Colour, Plot, Series, dots
from ...report.prose import Templates
from ...run.grouping import error_types
from ..parts import MODEL_SYSTEM, run_document, run_values
from ._scoring import (
    ALL,
    Line,
    UaqRun,
    score_choices,
    score_run,
)


class UaqSummary:
    """All numbers of a run; the same run gives the same numbers.

    Args:
        run: what they are computed from.

    Attributes:
        strict: under the rules that count.
        published: under the authors' rules.
        choices: task 2.
        failures: rows with an error, by type, most frequent first.
    """

    def __init__(self, run: UaqRun) -> None:
        self.run = run
        self.strict, self.published = score_run(run), score_run(run, rule="published")
        self.choices = score_choices(run)
        self.failures = error_types(run.rows)

    @property
    def whole(self) -> list[Line]:
        """One line per system and form, over all types and languages."""
        return _whole(self.strict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        # What gates ask for by short names: the model as it is, in its first form.
        first = [*self.whole, *self.choices, {}][0]
        names = ("r_ua", "r_ab", "r_delta", "accuracy", "kpr", "krr") if self.whole else ("kpr",)
        values = {
            "questions": len(self.run.data.items),
            "languages": list(self.run.data.languages),
            "rows": len(self.run.rows),
            "rows_planned": self.run.manifest.rows,
            "failures": dict(self.failures),
            **{name: first[name] for name in names if name in first},
            "lines": [*self.strict, *self.published],
            "task2": self.choices,
        }
        return run_values(self.run.manifest, as_json(values))


def _whole(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line["language"] == line["type"] == ALL]


TEXTS = Templates(Path(__file__).parent / "report.txt")


def _names(macro: str) -> dict[str, str]:
    """Return what forms and types of questions are called."""
    return dict(TEXTS.pairs(macro))


def line_name(line: Line) -> str:
    """Name a line's system and form."""
    system = "" if line["system"] == MODEL_SYSTEM else f"guard {line['system']}, "
    return f"{system}{_names('forms')[line['form']]}"


def _type_name(line: Line) -> str:
    kind, language = _names("types")[line["type"]], line["language"]
    return kind if language == ALL else f"{kind}, {language}"


def refusal_plot(summary: UaqSummary) -> Plot | None:
    """Plot abstention rates by type; None where nothing was measured."""
    lines = [
        line
        for line in summary.strict
        if line["language"] == ALL and line["r_ua"].value is not None
    ]
    if not lines:
        return None
    # Guards are numbered: their names come from files of the user's.
    systems = dict.fromkeys(line["system"] for line in lines if line["system"] != MODEL_SYSTEM)
    named = {system: f"guard {number}, " for number, system in enumerate(systems, start=1)}
    names = [
        named.get(line["system"], "")
        + (
            _names("forms")[line["form"]]
            if line["type"] == ALL
            else f"– {_names('types')[line['type']]}"
        )
        for line in lines
    ]
    abstained, answerable, right = (
        [line[name] for line in lines] for name in ("r_ua", "r_ab", "accuracy")
    )
    panels: dict[str, list[Series]] = {
        "share abstained": [
            ("unanswerable", "o", Colour.BLUE, abstained),
            ("answerable", "s", Colour.VERMILION, answerable),
        ],
        "answerable: share right": [("", "D", Colour.BLUE, right)],
    }
    return dots(("refusals", "When it abstains", TEXTS.text("caption")), names, panels)


def uaqfact_document(summary: UaqSummary) -> Document:
    """Make the report of a summarised run."""
    run, whole = summary.run, summary.whole
    parts = [one for one in summary.strict if one not in whole]
    names, settings = list(map(line_name, whole)), run.manifest.settings
    rules = zip(names, whole, _whole(summary.published), strict=True)
    short = sum(
        row.shots < settings.get("shots", 0)
        for row in run.rows
        if row.form in ("question", "clue") and row.error is None and row.route is None
    )
    facts = {
        "failed": sum(summary.failures.values()),
        "short": 0 if settings.get("model") == "replay" else short,
        "plain": next((line for line in whole if line["system"] == MODEL_SYSTEM), None),
        "plot": refusal_plot(summary),
        "whole": dict(zip(names, whole, strict=True)),
        "parts": {f"{line_name(one)}: {_type_name(one)}": one for one in parts},
        "choices": {_type_name(one): one for one in summary.choices},
        "rules": {name: {"strict": own, "published": theirs} for name, own, theirs in rules},
    }
    return run_document("uaqfact", TEXTS, summary, facts)
