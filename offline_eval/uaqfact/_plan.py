"""Which questions are put in which forms: the plan of a run, made of data and settings alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ...guard import InputError
from ._items import Answerability, ChoiceItem, QuestionType, UaqData, UaqItem
from ._reading import ALL_TASKS
from ._rows import Form

TASK3_FORMS: tuple[Form, ...] = ("clue", "facts", "retrieved")


@dataclass(frozen=True, slots=True)
class UaqSettings:
    """What decides the rows of a run, and goes into its manifest.

    Attributes:
        tasks: of 1, 2 and 3.
        languages: None for all that the data have.
        forms: of task 3, see `TASK3_FORMS`.
        shots: few-shot examples of task 1 and of clues; fewer where the model's window is short.
        limit: at most that many questions of each type, kind and language, in the order of the
            data, with the four-option questions on the facts behind them; None for all.
        facts: retrieved ones per question.
        choose_by: how task 2 asks a model that gives likelihoods: by the `letter` of an option,
            as published, or by the `text` of the options after the bare question, for a model
            that was never taught letters: the likeliest per character counts.

    Raises:
        InputError: a value is out of range.
    """

    tasks: tuple[int, ...] = ALL_TASKS
    languages: tuple[str, ...] | None = None
    forms: tuple[Form, ...] = ("clue",)
    shots: int = 4
    limit: int | None = None
    facts: int = 5
    choose_by: Literal["letter", "text"] = "letter"

    def __post_init__(self) -> None:
        if not self.tasks or not set(self.tasks) <= set(ALL_TASKS):
            raise InputError(f"tasks are 1, 2 and 3, not {list(self.tasks)}", where="tasks")
        if 3 in self.tasks and not self.forms:
            raise InputError("task 3 needs a form", where="forms", mend=", ".join(TASK3_FORMS))
        strangers = sorted(set(self.forms) - set(TASK3_FORMS))
        if strangers:
            raise InputError(
                f"there is no form {strangers[0]!r}", where="forms", mend=", ".join(TASK3_FORMS)
            )
        if self.choose_by not in ("letter", "text"):
            raise InputError(
                f"options are not chosen by {self.choose_by!r}",
                where="choose_by",
                mend="letter or text",
            )
        if self.shots < 0 or self.facts < 1 or (self.limit is not None and self.limit < 1):
            raise InputError("shots, facts and limit must be positive")


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
    return UaqData(tuple(items), tuple(choices), data.examples, data.clue_examples, data.quirks)


def planned(data: UaqData, settings: UaqSettings) -> Iterator[Planned]:
    """Everything that a system is asked, in the order of tasks and data."""
    if 1 in settings.tasks:
        for item in data.items:
            yield Planned("question", item)
    if 2 in settings.tasks:
        for choice in data.choices:
            yield Planned("choice", choice)
    if 3 in settings.tasks:
        for form in settings.forms:
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
