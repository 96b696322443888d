"""The suite: beliefs and evidence first, then every task, then the guards in front of PK."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from ....adapters.huggingface import HuggingFaceLM
from ....guard.contracts import EntailmentModel, ScoringLanguageModel
from ....guard.decision import Route
from ....guard.errors import InputError
from ....guard.signals.conflict import CrossEncoderEntailment
from ...report.document import Document
from ...run import RowError
from ...run.grouping import batched, grouped
from ...run.manifest import InputFile
from ...systems.factory import load_language_model, local_model
from ...systems.logged_replies import LoggedReplies
from ..base import Suite, SuiteRun
from ..parts import (
    MODEL_SYSTEM,
    ModelChoice,
    Overview,
    SuiteSettings,
    System,
    Work,
    guarded_row,
    take_replies,
)
from ._answering import (
    Asker,
    case_row,
    make_instances,
    read_replies,
)
from ._report import conflict_document
from ._rows import (
    EVIDENCE,
    INSTANCES,
    REMOVES,
    ROWS,
    SYSTEMS,
    AnswerForm,
    BeliefSource,
    Case,
    ConflictManifest,
    ConflictRow,
    Instance,
    planned,
    row_id,
)
from ._scoring import ConflictRun, conflict_run
from .beliefs import BELIEFS, conflict_prompts, find_beliefs
from .evidence import PassageJudge, make_evidence, validate
from .items import MICROWORLD, ConflictItem, ConflictSet, EvidenceKind, Task, content_sha256


class ConflictSettings(SuiteSettings):
    """What decides the rows of a run.

    Attributes:
        data: microworld, or a file or folder: ConflictQA, WikiContradict, or JSON lines with
            question and answers.
        replies: With --model replay: logged replies, JSON lines.
        beliefs: given with the data, asked (yes or no for each answer), or closed_book; by default
            given where the data have them, asked otherwise
        tasks: Tasks, with commas between them
        kinds: Kinds of evidence, with commas between them
        answers: How answers are taken; by default likelihood for a model that scores options and
            has no chat template, letters otherwise
        editor: A model that writes evidence that the data do not have.
        judges: A model that checks passages; name two. The first reads free answers.
        nli: Folder of an entailment model that checks passages.
        limit: At most that many questions.
        seed: Random seed of the options' places.
        prompts: Folder with prompts of your own; see the guide.

    Raises:
        ValueError: a value is out of range, or no kind of evidence contradicts.
    """

    data: str = MICROWORLD
    replies: Path | None = None
    beliefs: BeliefSource | None = None
    tasks: tuple[Task, ...] = Field(tuple(Task), min_length=1)
    kinds: tuple[EvidenceKind, ...] = Field(
        tuple(EvidenceKind), json_schema_extra={"option": "--evidence"}
    )
    answers: AnswerForm | None = None
    editor: str | None = None
    judges: tuple[str, ...] = Field((), json_schema_extra={"option": "--judge"})
    nli: Path | None = None
    limit: int | None = Field(None, ge=1)
    seed: int = 0
    prompts: Path | None = None

    @field_validator("tasks")
    @classmethod
    def _in_order(cls, tasks: Sequence[Task]) -> tuple[Task, ...]:
        return tuple(task for task in Task if task in tasks)

    @field_validator("kinds")
    @classmethod
    def _some_conflict(cls, kinds: Sequence[EvidenceKind]) -> tuple[EvidenceKind, ...]:
        if EvidenceKind.NC not in kinds or len(set(kinds)) < 2:
            raise ValueError(
                f"NC and a kind that contradicts are needed — {', '.join(EvidenceKind)}"
            )
        return tuple(kind for kind in EvidenceKind if kind in kinds)


# Questions put at one time, and those with all their tasks: what a kill can cost.
_AT_ONCE = 64
_INSTANCES_AT_ONCE = 4
# An explanation and then a line with the letter: no stop at the first line's end.
_load_explaining = partial(load_language_model, explained=320)


class ConflictSuite(Suite[ConflictSettings, Case, ConflictRow, ConflictRun]):
    """Context against memory: beliefs, passages that contradict them, five tasks.

    Tasks: KF copies the sentence that answers, CK answers from the context only, PK from own
    knowledge only, PCK gives both views, RAG answers from two passages. A guard decides whether
    PK's passage is removed. Killed and started again with the same arguments, the run continues.

    Example: `knowgate eval conflict --data microworld --out run`
    """

    name = "conflict"
    settings = ConflictSettings
    row, rows = ConflictRow, ROWS
    manifest_model = ConflictManifest
    batch_size = _AT_ONCE

    def __init__(
        self, data: ConflictSet | None = None, judges: Sequence[PassageJudge] | None = None
    ) -> None:
        # In the place of the names in the settings.
        self._given_data, self._given_judges = data, judges
        self._data = ConflictSet(())
        self._asker: Asker
        self._judges: Sequence[PassageJudge]
        self._entailment: EntailmentModel | None

    def cases(self, settings: ConflictSettings) -> Sequence[Any]:
        """Read the questions; evidence and tasks follow from the model's beliefs."""
        self._data = self._given_data or ConflictItem.read(settings.data)
        return self._data.items

    def load_model(self, settings: ConflictSettings, choice: ModelChoice) -> Any:
        """Load the model; one with a chat template explains before it answers."""
        found = super().load_model(settings, choice)
        likelihood = settings.answers in (None, "likelihood")
        local = isinstance(found, HuggingFaceLM) and local_model(choice.model) is not None
        if local and not (likelihood and not found.uses_chat_template):
            return _load_explaining(choice.model, choice.limits)
        return found

    def systems(self, work: Work[ConflictSettings, Any]) -> Sequence[System]:
        """Take the logged replies in place of a model where there are some."""
        settings = work.settings
        given = work.systems
        for system in given:
            if system.guard is not None and system.name in SYSTEMS:
                what = f"a guard cannot be called {system.name!r}"
                raise InputError(what, where="guards", hint="give it another name")
        logged = any(isinstance(one.model, LoggedReplies) for one in given)
        if (logged or settings.replies is not None) and _beliefs(settings, work.cases) != "given":
            raise InputError(
                "logged replies cannot be asked for beliefs", where="beliefs", hint="use given"
            )
        take_replies(given, settings.replies, read_replies)
        return given

    def begin(self, work: Work[ConflictSettings, Any]) -> None:
        """Load what asks and checks besides the model."""
        settings = work.settings
        lm = work.systems[0].model
        prompts = conflict_prompts(settings.prompts)
        self._judges = self._given_judges or [
            PassageJudge(name, _load_explaining(name), prompts) for name in settings.judges
        ]
        self._entailment = None if settings.nli is None else CrossEncoderEntailment(settings.nli)
        reader = next(iter(self._judges), None)
        self._asker = Asker(lm, prompts, _form(settings.answers, lm), reader)

    def applies(self, case: Case, system: System) -> bool:
        """Guards stand before PK's passage alone."""
        return system.guard is None or (case.task is Task.PK and case.system == MODEL_SYSTEM)

    def row_id(self, case: Case, system: str) -> str:
        """Return the key of a row; the model answers for closed book and without context, too."""
        if system == MODEL_SYSTEM:
            return case.row_id
        return row_id(system, case.task, case.evidence, case.instance.key)

    def batches(self, cases: Sequence[Case], system: System) -> Iterator[Sequence[Case]]:
        """Ask all tasks of a few questions together."""
        if system.guard is not None:
            return super().batches(cases, system)
        by_instance = list(grouped(cases, lambda case: case.instance.key).values())
        parts = batched(by_instance, _INSTANCES_AT_ONCE)
        return ([case for some in part for case in some] for part in parts)

    def manifest(self, work: Work[ConflictSettings, Any]) -> ConflictManifest:
        """Name the model, its helpers, the prompts, and the questions by their content."""
        settings = work.settings
        cases, asker = work.cases, self._asker
        replies = [Path(asker.lm.path)] if isinstance(asker.lm, LoggedReplies) else []
        return ConflictManifest.new(
            suite=self.name,
            settings={
                **settings.model_dump(mode="json", include={"tasks", "kinds", "limit", "seed"}),
                "beliefs": _beliefs(settings, cases),
                "answers": asker.form,
                "model": work.systems[0].fingerprint,
                "editor": settings.editor or "",
                "judges": [judge.name for judge in self._judges],
                "entailment": getattr(self._entailment, "fingerprint", ""),
                "prompts": asker.prompts.sha256,
                "guards": work.guards,
            },
            systems=(*SYSTEMS, *work.guards),
            inputs=tuple(InputFile.of(path) for path in (*self._data.files, *replies)),
            quirks=self._data.quirks,
            questions=len(cases),
            questions_sha256=content_sha256(cases),
        )

    def prepare(self, work: Work[ConflictSettings, Any]) -> None:
        """Find beliefs, make and check evidence, and plan the tasks."""
        settings = work.settings
        instances = self._instances(work)
        beliefs = work.run[BELIEFS].rows()
        believed = sum(row.belief is not None for row in beliefs)
        work.note(
            f"{len(beliefs)} questions, {believed} with a belief, {len(instances)} with evidence "
            "for and against it"
        )
        work.cases = tuple(planned(instances, settings.tasks, settings.kinds))

    def _instances(self, work: Work[ConflictSettings, Any]) -> tuple[Instance, ...]:
        """Return the stored instances, or make and store them, beliefs and evidence first."""
        run, settings = work.run, work.settings
        asker = self._asker
        beliefs, evidence, stored = run[BELIEFS], run[EVIDENCE], INSTANCES.path(run.folder)
        if work.options.retry_failed and all(row.error is not None for row in run[ROWS].rows()):
            # Once tasks were answered that would be too late: options would move.
            dropped = [
                table.drop(lambda row: row.error is not None) for table in (beliefs, evidence)
            ]
            if any(dropped):
                stored.unlink(missing_ok=True)
        if stored.exists():
            return tuple(INSTANCES.read(run.folder))
        items: Sequence[ConflictItem] = work.cases
        editor = None if settings.editor is None else _load_explaining(settings.editor)
        believed = find_beliefs(asker.lm, asker.prompts, _beliefs(settings, items), work)
        by_key = {item.key: item for item in items}
        progress = work.progress("making evidence")
        for some in batched(believed, _AT_ONCE):
            wanted = {f"{one.key}/{kind.value}" for one in some for kind in settings.kinds}
            if not wanted <= set(evidence.done):
                made = make_evidence(some, asker.prompts, settings.kinds, editor)
                checkers = self._judges, self._entailment, asker.lm
                evidence.extend(validate(made, by_key, asker.prompts, *checkers))
            progress(len(evidence.done), len(believed) * len(settings.kinds))
        instances = make_instances(believed, evidence.rows(), settings.seed)
        # Last and at once: a folder with instances has all that they were made from.
        INSTANCES.write(run.folder, instances)
        return tuple(instances)

    def answer(self, cases: Sequence[Case], system: System) -> Iterable[ConflictRow]:
        """Ask the model, or decide in front of its replies."""
        if system.guard is None:
            return self._asker.answer(cases)
        return [_guarded(case, system) for case in cases]

    def failed(self, case: Case, system: System, error: Exception) -> ConflictRow:
        """Return the row of a question without an answer."""
        own = {"row_id": self.row_id(case, system.name)}
        if system.guard is not None:
            own["system"] = system.name
        return case_row(case, error=RowError.of(error)).model_copy(update=own)

    def dry_run(self, work: Work[ConflictSettings, Any]) -> Overview:
        """Count the questions, and what the data have of beliefs and evidence."""
        items: Sequence[ConflictItem] = work.cases
        acceptable = [item.answers[place] for item in items for place in item.acceptable]
        counts = {
            "questions": len(items),
            "acceptable answers": len(acceptable),
            "beliefs given": sum(item.given is not None for item in items),
            "answers with a passage": sum(bool(answer.passages) for answer in acceptable),
            "implausible answers": sum(
                any(answer.implausible for answer in item.answers) for item in items
            ),
        }
        notes = tuple(f"note: {quirk}" for quirk in self._data.quirks)
        columns = "what the data hold", "number"
        return Overview(columns, tuple(counts.items()), notes, {"counts": counts})

    def check(self, run: SuiteRun[ConflictRow]) -> None:
        """Check that every row belongs to a question and a system of the run."""
        conflict_run(run.run)

    def score(self, run: SuiteRun[ConflictRow]) -> ConflictRun:
        """Compute the numbers."""
        return conflict_run(run.run)

    def report(self, summary: ConflictRun) -> Document:
        """Show what the model does where a passage contradicts it."""
        return conflict_document(summary)


def _form(answers: AnswerForm | None, lm: object) -> AnswerForm:
    """Return how answers are taken."""
    scores = isinstance(lm, ScoringLanguageModel)
    if answers == "likelihood" and not scores:
        raise InputError(
            "the model does not score options",
            where="answers",
            hint="use letters or free",
        )
    likely = scores and not getattr(lm, "uses_chat_template", False)
    return answers or ("likelihood" if likely else "letters")


def _beliefs(settings: ConflictSettings, items: Sequence[ConflictItem]) -> BeliefSource:
    if settings.beliefs is not None:
        return settings.beliefs
    given = any(item.given is not None for item in items)
    return "given" if given else "asked"


def _guarded(case: Case, system: System) -> ConflictRow:
    """Decide on a question and its passage; the model's own replies stand behind the decision.

    Where the guard follows the context, the model's reply with the passage stands; where it
    answers from memory, the reply without it; where it abstains, none, which is not right.
    """
    # PK of the model alone.
    assert case.evidence is not None
    key = case.instance.key
    passage = case.instance.evidence[case.evidence].passage
    kept: ConflictRow = system.earlier[case.row_id]
    nothing = {"response": None, "letters": None, "likelihoods": None}
    own = {"row_id": row_id(system.name, case.task, case.evidence, key), "system": system.name}
    replies: dict[Route, ConflictRow] = {
        Route.FOLLOW_CONTEXT: kept,
        Route.ANSWER: system.earlier[row_id(REMOVES, case.task, None, key)],
        Route.ABSTAIN: kept.model_copy(update={**nothing, "correct": False, "error": None}),
    }
    return guarded_row(
        system,
        (case.instance.question, [passage]),
        {**own, "evidence": case.evidence},
        replies,
        failed={**nothing, "correct": None},
    )
