"""The suite itself: its settings, its cases, and who answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ....guard.decision import Route
from ....guard.errors import InputError
from ...data.graph.items import UaqItem
from ...data.graph.layout import TASKS, UaqData, write_layout
from ...report.document import Document
from ...run import RowError
from ...run.manifest import InputFile, Manifest
from ...systems.factory import EMBEDDED
from ...systems.logged_replies import LoggedReplies
from .._prompts import PromptSet
from ..base import Suite, SuiteRun
from ..parts import (
    MODEL_SYSTEM,
    Overview,
    SuiteSettings,
    System,
    Work,
    guarded_row,
    take_replies,
)
from ._asking import (
    NO_ANSWER,
    QUESTIONS,
    SUITE,
    TASK3_FORMS,
    Asker,
    Case,
    FactsForm,
    UaqManifest,
    UaqRow,
    case_row,
    embedded_prompts,
    limited,
    planned,
    read_replies,
    row_id,
    uaqfact_prompts,
)
from ._report import uaqfact_document
from ._scoring import UaqRun

# Questions asked at one time: what a kill can cost.
_AT_ONCE = 64


Task = Annotated[int, Field(ge=1, le=3)]


class UaqSettings(SuiteSettings):
    """What decides the rows of a run.

    Attributes:
        data: Folder with task1, task2, task3; published or generated.
        replies: With --model replay: logged replies, JSON lines.
        tasks: Of 1, 2 and 3, separated by commas.
        languages: en, zh, or both with a comma; all there are by default.
        forms: How task 3 gives the facts
        shots: Few-shot examples per prompt.
        limit: At most that many questions of each type, kind and language.
        facts: Retrieved facts per question.
        choose_by: Task 2 of a model with likelihoods: letter of an option, as published, or text of
            the options after the bare question. By default text for the embedded model, which was
            never taught letters
        prompts: Folder with prompts of your own; see the guide.

    Raises:
        ValueError: a value is out of range, or values do not fit together.
    """

    data: Path
    replies: Path | None = None
    tasks: tuple[Task, ...] = Field(TASKS, min_length=1)
    languages: tuple[str, ...] | None = Field(
        None, min_length=1, json_schema_extra={"option": "--lang"}
    )
    forms: tuple[FactsForm, ...] = Field(("clue",), min_length=1)
    shots: int = Field(4, ge=0)
    limit: int | None = Field(None, ge=1)
    facts: int = Field(5, ge=1)
    choose_by: Literal["letter", "text"] | None = None
    prompts: Path | None = None

    @field_validator("tasks")
    @classmethod
    def _each_once(cls, tasks: Sequence[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(tasks))

    @field_validator("languages", mode="before")
    @classmethod
    def _split(cls, languages: Sequence[str] | None) -> list[str] | None:
        named = [part.strip() for text in languages or () for part in text.split(",")]
        return list(dict.fromkeys(filter(None, named))) if languages is not None else None

    @field_validator("forms")
    @classmethod
    def _in_order(cls, forms: Sequence[FactsForm]) -> tuple[FactsForm, ...]:
        return tuple(form for form in TASK3_FORMS if form in forms)


class UaqFact(Suite[UaqSettings, Case, UaqRow, UaqRun]):
    """Unanswerable factual questions (UAQFact), and their answerable twins.

    Task 1 asks the questions, task 2 the facts behind them, task 3 the questions together
    with those facts.

    Example: `knowgate eval uaqfact --data uaqfact/1.0 --tasks 1,2,3 --lang en,zh --out run`
    """

    name = SUITE
    settings = UaqSettings
    row = UaqRow
    manifest_model = UaqManifest
    batch_size = _AT_ONCE

    def __init__(self, prompts: PromptSet | None = None) -> None:
        self._prompts, self._data = prompts, UaqData((), (), {}, {})
        self._asker: Asker

    def cases(self, settings: UaqSettings) -> Sequence[Case]:
        """Read and plan the questions."""
        tasks = settings.tasks
        self._data = UaqData.read(settings.data, languages=settings.languages, tasks=tasks)
        return tuple(planned(self._data, tasks, settings.forms))

    def limited(self, cases: Sequence[Case], limit: int | None) -> Sequence[Case]:
        """Keep the first questions of each type, kind and language, and what belongs to them."""
        data = self._data = limited(self._data, limit)
        keys = {item.key for item in data.items} | {choice.key for choice in data.choices}
        return tuple(case for case in cases if case.item.key in keys)

    def systems(self, work: Work[UaqSettings, Case]) -> Sequence[System]:
        """Take the logged replies in place of a model where there are some."""
        settings = work.settings
        given = work.systems
        take_replies(given, settings.replies, read_replies)
        if any(one.guard is not None for one in given) and 3 not in settings.tasks:
            raise InputError("stands before task 3", where="--guard", hint="add 3 to --tasks")
        embedded = given[0].source == EMBEDDED
        prompts = uaqfact_prompts(settings.prompts)
        if embedded and settings.prompts is None:
            prompts = embedded_prompts()
        self._asker = Asker(
            given[0].model,
            self._data,
            self._prompts or prompts,
            shots=settings.shots,
            facts=settings.facts,
            choose_by=settings.choose_by or ("text" if embedded else "letter"),
        )
        return given

    def applies(self, case: Case, system: System) -> bool:
        """Guards stand before task 3 alone."""
        return system.guard is None or case.form in TASK3_FORMS

    def row_id(self, case: Case, system: str) -> str:
        """Return the key of a row."""
        return row_id(system, case.form, case.item.key)

    def batches(self, cases: Sequence[Case], system: System) -> Iterator[Sequence[Case]]:
        """Split into batches of one form."""
        for _, some in groupby(cases, key=lambda case: case.form):
            yield from super().batches(list(some), system)

    def answer(self, cases: Sequence[Case], system: System) -> Iterable[UaqRow]:
        """Ask the model, or decide in front of its replies."""
        if system.guard is None:
            return self._asker.answer(cases)
        return [_guarded(case, system, self._asker.facts(case)) for case in cases]

    def failed(self, case: Case, system: System, error: Exception) -> UaqRow:
        """Make the row of a question without a reply."""
        return case_row(case, system.name, error=RowError.of(error))

    def manifest(self, work: Work[UaqSettings, Case]) -> Manifest:
        """Name the questions that were read, not the folder: it may hold other sets."""
        data, asker = self._data, self._asker
        inputs = [Path(asker.model.path)] if isinstance(asker.model, LoggedReplies) else []
        inputs += data.files
        stored = work.settings.model_dump(mode="json", exclude={"data", "replies", "prompts"})
        return UaqManifest.new(
            suite=self.name,
            settings={
                **stored,
                "languages": list(data.languages),
                "choose_by": asker.choose_by,
                "model": work.systems[0].fingerprint,
                "prompts": asker.prompts.sha256,
                "guards": work.guards,
            },
            systems=tuple(one.name for one in work.systems),
            inputs=tuple(InputFile.of(path) for path in inputs),
            rows=len(self.order(work)),
        )

    def files(self, work: Work[UaqSettings, Case]) -> Mapping[str, Callable[[Path], object]]:
        """Store the questions: a run folder has all that it names."""
        return {QUESTIONS: lambda path: write_layout(self._data, path)}

    def dry_run(self, work: Work[UaqSettings, Case]) -> Overview:
        """Count the questions by task, type, kind and language."""
        data = self._data
        lines: list[tuple[str, ...]] = []
        total = dict.fromkeys(data.languages, 0)
        for task, question_type, kind, language, number in data.counts():
            lines.append((task, question_type, kind or "–", language, str(number)))
            total[language] += number if task == "task1" else 0
        notes = [f"total {language}: {number}" for language, number in total.items()]
        values = {"total": total, "counts": data.nested_counts(zeros=True)}
        columns = ("task", "type", "kind", "language", "questions")
        return Overview(columns, tuple(lines), tuple(notes), values)

    def score(self, run: SuiteRun[UaqRow]) -> UaqRun:
        """Compute the numbers."""
        return UaqRun(run.run)

    def report(self, summary: UaqRun) -> Document:
        """Write the report."""
        return uaqfact_document(summary)


def _guarded(case: Case, system: System, facts: Sequence[str]) -> UaqRow:
    """Decide on a question and its facts; the model's own replies stand behind the decision."""
    item = case.item
    # Task 2 has no guard.
    assert isinstance(item, UaqItem)
    behind: UaqRow = system.earlier[row_id(MODEL_SYSTEM, case.form, item.key)]
    alone = system.earlier.get(row_id(MODEL_SYSTEM, "question", item.key), behind)
    memory = {name: getattr(alone, name) for name in ("response", "error", "shots")}
    # No call of the model was needed to abstain: its failure does not matter.
    nothing = {"response": NO_ANSWER, "error": None, "shots": 0}
    return guarded_row(
        system,
        (item.question, facts),
        {"row_id": row_id(system.name, case.form, item.key), "system": system.name},
        {
            Route.FOLLOW_CONTEXT: behind,
            Route.ANSWER: behind.model_copy(update=memory),
            Route.ABSTAIN: behind.model_copy(update=nothing),
        },
        failed={"response": None},
    )
