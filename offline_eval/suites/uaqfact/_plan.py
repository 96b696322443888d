"""Which questions are put in which forms: the plan of a run, made of data and settings alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from ....guard.decision import Route
from ...data.graph import Answerability, ChoiceItem, QuestionType, UaqData, UaqItem
from ...run import Manifest, RowError, Stored

SUITE = "uaqfact"
# Folder within a run's: the questions that it asked.
QUESTIONS = "questions"

Form = Literal["question", "choice", "clue", "facts", "retrieved"]
"""How a question is put: alone (task 1), with options (task 2), after its reasoning, with
the facts behind it, or with retrieved facts (task 3)."""


class _SettingsRead(Stored):
    """Settings of a run that its readers use."""

    tasks: tuple[int, ...]
    languages: tuple[str, ...]
    shots: int = 0


class UaqManifest(Manifest):
    """`manifest.json`.

    Attributes:
        systems: the model, and guards in front of it.
        quirks: irregularities of the data.
        rows: how many the finished run has.
    """

    settings_read = _SettingsRead

    systems: tuple[str, ...]
    quirks: tuple[str, ...] = ()
    rows: Annotated[int, Field(ge=0)]


class UaqRow(Stored):
    """A line of `rows.jsonl`: what one system said to one question in one form.

    Attributes:
        row_id: `<system>/<form>/<key>`.
        key: of the item.
        kind: None for task 2.
        response: None exactly where there is an error, or where options were scored.
        letter: task 2: the chosen option, None where none could be read.
        right: task 2: whether it is the right one.
        shots: few-shot examples in the prompt.
        route: of the guard, None without one.
        reason: of the guard's decision, empty without one.
    """

    row_id: Annotated[str, Field(min_length=1)]
    system: str
    form: Form
    key: str
    language: str
    type: QuestionType
    kind: Answerability | None = None
    response: str | None = None
    letter: str | None = None
    right: bool | None = None
    shots: int = 0
    route: Route | None = None
    reason: str = ""
    error: RowError | None = None

    @property
    def task(self) -> int:
        """1, 2 or 3."""
        return {"question": 1, "choice": 2}.get(self.form, 3)


def row_id(system: str, form: str, key: str) -> str:
    """How a row is told from others."""
    return f"{system}/{form}/{key}"


TASK3_FORMS: tuple[Form, ...] = ("clue", "facts", "retrieved")


@dataclass(frozen=True, slots=True)
class Planned:
    """One question in one form."""

    form: Form
    item: UaqItem | ChoiceItem


def limited(data: UaqData, limit: int | None) -> UaqData:
    """The first questions of each type, kind and language, with what belongs to them."""
    if limit is None:
        return data
    seen: dict[tuple[str, QuestionType, Answerability], int] = {}
    items = []
    for item in data.items:
        group = item.language, item.type, item.kind
        seen[group] = seen.get(group, 0) + 1
        if seen[group] <= limit:
            items.append(item)
    kept = {(item.language, item.qid) for item in items if item.unanswerable}
    choices = [
        choice
        for choice in data.choices
        if any((choice.language, qid) in kept for qid in choice.relevant)
    ]
    return replace(data, items=tuple(items), choices=tuple(choices))


def planned(data: UaqData, tasks: Sequence[int], forms: Sequence[Form]) -> Iterator[Planned]:
    """Yield everything that a system is asked, in the order of tasks and data."""
    if 1 in tasks:
        for item in data.items:
            yield Planned("question", item)
    if 2 in tasks:
        for choice in data.choices:
            yield Planned("choice", choice)
    if 3 in tasks:
        for form in forms:
            for item in data.items:
                if item.clues or item.triples:
                    yield Planned(form, item)


def links(data: UaqData) -> dict[str, list[str]]:
    """Unanswerable question → the four-option questions on its facts, by their keys."""
    keys = {(item.language, item.qid): item.key for item in data.items if item.unanswerable}
    found: dict[str, list[str]] = {key: [] for key in keys.values()}
    for choice in data.choices:
        for qid in choice.relevant:
            key = keys.get((choice.language, qid))
            if key is not None:
                found[key].append(choice.key)
    return {key: facts for key, facts in found.items() if facts}


def batches(plan: Sequence[Planned], size: int) -> Iterator[list[Planned]]:
    """Runs of equal form, at most `size` long."""
    batch: list[Planned] = []
    for planned_item in plan:
        if batch and (len(batch) == size or batch[0].form != planned_item.form):
            yield batch
            batch = []
        batch.append(planned_item)
    if batch:
        yield batch
