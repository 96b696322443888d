"""The report of a run of this suite: its sentences and sections.

run folder ─► UaqRun ─► uaqfact_document ─► a file per format
"""

from __future__ import annotations

from pathlib import Path

from ...report.document import Document
from ...report.plots import Colour, Plot, Series, dots
from ...report.prose import Templates
from ..parts import MODEL_SYSTEM, run_document
from ._scoring import (
    ALL,
    Line,
    UaqRun,
    over_all,
)

TEXTS = Templates(Path(__file__).parent / "report.txt")


def line_name(line: Line) -> str:
    """Name a line's system and form."""
    system = "" if line["system"] == MODEL_SYSTEM else f"guard {line['system']}, "
    return f"{system}{TEXTS.meanings('forms')[line['form']]}"


def _type_name(line: Line) -> str:
    kind, language = TEXTS.meanings("types")[line["type"]], line["language"]
    return kind if language == ALL else f"{kind}, {language}"


def refusal_plot(run: UaqRun) -> Plot | None:
    """Plot abstention rates by type; None where nothing was measured."""
    lines = [
        line for line in run.strict if line["language"] == ALL and line["r_ua"].value is not None
    ]
    if not lines:
        return None
    # Guards are numbered: their names come from files of the user's.
    systems = dict.fromkeys(line["system"] for line in lines if line["system"] != MODEL_SYSTEM)
    named = {system: f"guard {number}, " for number, system in enumerate(systems, start=1)}
    names = [
        named.get(line["system"], "")
        + (
            TEXTS.meanings("forms")[line["form"]]
            if line["type"] == ALL
            else f"– {TEXTS.meanings('types')[line['type']]}"
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


def uaqfact_document(run: UaqRun) -> Document:
    """Make the report of a run."""
    shown, settings = run.whole, run.manifest.settings
    parts = [one for one in run.strict if one not in shown]
    names = list(map(line_name, shown))
    rules = zip(names, shown, over_all(run.published), strict=True)
    short = sum(
        row.shots < settings.get("shots", 0)
        for row in run.rows
        if row.form in ("question", "clue") and row.error is None and row.route is None
    )
    facts = {
        "failed": sum(run.failures.values()),
        "short": 0 if settings.get("model") == "replay" else short,
        "plain": next((line for line in shown if line["system"] == MODEL_SYSTEM), None),
        "plot": refusal_plot(run),
        "whole": dict(zip(names, shown, strict=True)),
        "parts": {f"{line_name(one)}: {_type_name(one)}": one for one in parts},
        "choices": {_type_name(one): one for one in run.choices},
        "rules": {name: {"strict": own, "published": theirs} for name, own, theirs in rules},
    }
    return run_document("uaqfact", TEXTS, run.manifest, run, facts)
