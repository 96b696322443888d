"""What a suite is given and what it returns: settings, systems, work, results, parts of reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ..._version import CREATED_BY
from ...calibration import Interval
from ...guard.decision import Route
from ...guard.errors import InputError, KnowgateError
from ..report.document import Document, Section
from ..report.layout import Page
from ..report.prose import Templates
from ..run import CallLimits, RowError, Run
from ..run.calls import OnProgress, Progress, RunOptions
from ..run.manifest import Manifest
from ..run.table import RowT, TableSpec

MODEL_SYSTEM = "model"
# In place of a model: logged replies that the settings name.
REPLAY = "replay"
# An entry under `Attributes:`, with its further lines.
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


class SuiteSettings(BaseModel):
    """What decides the rows of a run; each field is a command-line option.

    The name of a field is the name of its option, its default the default; numbers and switches are
    given as `--set name=value`. What the docstring
    says of it under `Attributes:`, or else its `description`, is the help.
    `json_schema_extra={"option": "--lang"}` names the option otherwise. Fields of type `Path` are
    input files.

    Attributes:
        limit: Ask at most that many cases.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    limit: Annotated[int | None, Field(ge=1, description="Ask at most that many cases.")] = None

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        """Take what the docstring says of the fields as their descriptions."""
        _, _, listed = cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")
        for name, text in _ATTRIBUTE.findall(listed.partition("\n\n")[0]):
            if name in cls.model_fields:
                cls.model_fields[name].description = " ".join(text.split())


SettingsT = TypeVar("SettingsT", bound=SuiteSettings)
CaseT = TypeVar("CaseT")
SummaryT = TypeVar("SummaryT")


class System:
    """What answers: a model, alone or behind a guard.

    Args:
        name: unique in the run.
        model: a language model, logged replies, or whatever the suite asks.
        guard: decides in front of the model; None for the model alone.
        sha256: tells two versions of the guard apart.
        source: how the command line names the model; empty where it was given as an object.

    Attributes:
        settings: of the suite; set by the driver.
        run: open; set by the driver, None in the worker of a Ray cluster.
        guard_was_read: since the run was opened, in this process.
    """

    def __init__(
        self, name: str, model: Any = None, guard: Any = None, sha256: str = "", source: str = ""
    ) -> None:
        self.name, self.model, self.sha256, self.source = name, model, sha256, source
        self._guard, self.guard_was_read = guard, False
        self.settings: Any = None
        self.run: Run | None = None
        self._rows: TableSpec[Any] | None = None

    @property
    def is_guarded(self) -> bool:
        """Whether there is a guard; asking does not count as reading it."""
        return self._guard is not None

    @property
    def guard(self) -> Any:
        """What decides in front of the model; None for the model alone."""
        self.guard_was_read = True
        return self._guard

    @property
    def fingerprint(self) -> str:
        """Identifies the model in the manifest; `replay` for logged replies."""
        return "" if self.model is None else getattr(self.model, "fingerprint", "replay")

    @cached_property
    def earlier(self) -> Mapping[str, Any]:
        """Rows of the systems before this one, by key."""
        assert self.run is not None
        assert self._rows is not None
        key = self._rows.key
        return {getattr(row, key): row for row in self.run[self._rows].rows()}

    def bind(self, settings: SuiteSettings, run: Run, rows: TableSpec[Any]) -> None:
        """Give the system the run that it answers in; called by the driver."""
        self.settings, self.run, self._rows = settings, run, rows
        self.guard_was_read = False

    def __getstate__(self) -> dict[str, Any]:
        # Travels to the workers of a Ray cluster, where no run is open.
        state = {**self.__dict__, "run": None}
        state.pop("earlier", None)
        return state


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The systems under test, as a command line names them.

    Attributes:
        model: name of the model, as for `load_language_model`.
        guards: names of guards, as for `GuardChoice.load_guards`.
        scorer: of the guards; None for the one that each policy names.
        limits: of calls.
    """

    model: str = ""
    guards: tuple[str, ...] = ()
    scorer: str | None = None
    limits: CallLimits = field(default_factory=CallLimits)


@dataclass
class Work(Generic[SettingsT, CaseT]):
    """A run to be made, or under way.

    Attributes:
        settings: of the suite.
        cases: to be asked; `begin` and `prepare` may replace them.
        systems: that answer, in order; `prepare` may remove some.
        out: as the caller named it; usually the folder of the run.
        folder: of the run; may hold it already.
        options: how the run is made.
        run: open for writing; from `prepare` on.
    """

    settings: SettingsT
    cases: Sequence[CaseT]
    systems: Sequence[System]
    out: Path = Path()
    folder: Path = Path()
    options: RunOptions = field(default_factory=RunOptions)
    run: Run = field(init=False, repr=False, compare=False)

    @property
    def guards(self) -> dict[str, str]:
        """The sha256 of each guard, by the name of its system."""
        return {one.name: one.sha256 for one in self.systems if one.is_guarded}

    def note(self, text: str) -> None:
        """Tell the user something about the run; the command prints it."""
        if self.options.on_note is not None:
            self.options.on_note(text)

    def progress(self, stage: str) -> Callable[[int, int], None]:
        """Return a callback (done, total) that reports the progress of a stage."""
        return stage_progress(self.options.on_progress, stage)


def stage_progress(on_progress: OnProgress | None, stage: str) -> Callable[[int, int], None]:
    """Return a callback (done, total) that reports the progress of a stage."""

    def told(done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(Progress(stage, total, done))

    return told


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run.

    Attributes:
        folder: of the run.
        totals: of the rows that belong to the run; `failed` counts those that this start
            added.
        errors: why rows of the run failed, those of earlier starts included, and how many.
    """

    folder: Path
    totals: Progress
    errors: Counter[str]

    @property
    def failed(self) -> int:
        """Rows of the run with an error."""
        return self.errors.total()


@dataclass(frozen=True, slots=True)
class Overview:
    """What a command shows of a run: what it would ask, or how it ended.

    Attributes:
        columns: headings.
        lines: of the table, one cell per heading.
        notes: lines below the table.
        values: for `--json`.
        failed: rows to be asked again; the exit code is 1 where there are some.
    """

    columns: tuple[str, ...] = ()
    lines: tuple[tuple[object, ...], ...] = ()
    notes: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    failed: int = 0


def guarded_row(
    system: System,
    asked: tuple[str, Sequence[str]],
    own: Mapping[str, Any],
    replies: Mapping[Route, RowT],
    failed: Mapping[str, Any],
) -> RowT:
    """Decide on a question; rows of the model's own replies stand behind the decision.

    Args:
        system: with the guard.
        asked: the question and its passages.
        own: fields of the guard's row.
        replies: rows that the routes lead to.
        failed: fields of a row without a decision.
    """
    try:
        decision = system.guard.decide(*asked)
    except KnowgateError as error:
        row = replies[Route.FOLLOW_CONTEXT]
        return row.model_copy(update={**own, **failed, "error": RowError.of(error)})
    told = {"route": decision.route, "reason": str(decision.reason)}
    return replies[decision.route].model_copy(update={**own, **told})


def take_replies(
    given: Sequence[System], replies: Path | None, read: Callable[[Path], Any]
) -> None:
    """Take logged replies in place of a model, where the settings name some.

    Args:
        given: as for `Suite.systems`.
        replies: logged replies that the settings name.
        read: reads them.

    Raises:
        InputError: of `--model replay` and `--replies` one is given without the other.
    """
    replayed = any(system.source == REPLAY for system in given)
    if replayed and replies is None:
        raise InputError("is missing", where="--replies", hint="name the logged replies")
    if replies is not None and not replayed and any(one.source for one in given):
        raise InputError("is for --model replay", where="--replies", hint="leave it out")
    if replies is not None:
        log = read(replies)
        for system in given:
            system.model = log


def questions_tuned_on(scorer: object, questions: Mapping[str, str]) -> list[str]:
    """Return the ids of the questions that a scorer was tuned on, sorted.

    Args:
        scorer: one that was never tuned knows no questions.
        questions: texts by id.
    """
    tuned_on = getattr(scorer, "tuned_on", None)
    if tuned_on is None:
        return []
    return sorted(name for name, question in questions.items() if tuned_on(question))


def require_not_tuned_on(scorer: object, questions: Mapping[str, str], name: str) -> None:
    """Reject questions that a scorer was tuned on: on them it looks better than it is.

    Args:
        scorer: see `questions_tuned_on`, as for `questions`.
        questions: texts by id.
        name: of the scorer on the command line.

    Raises:
        InputError: there are such questions.
    """
    found = questions_tuned_on(scorer, questions)
    if found:
        raise InputError(
            f"was tuned on {len(found)} of these questions, e.g. {found[0][:80]!r}, on which it "
            "looks better than it is",
            where=f"--scorer {name}",
            hint="use other questions than `knowgate tune relevance` was given",
        )


def share_of(flags: Iterable[bool]) -> Interval:
    """Return the share of what is true, with its Wilson interval."""
    values = list(flags)
    return Interval.wilson(sum(values), len(values))


def paired(first: Mapping[str, float], second: Mapping[str, float]) -> Interval:
    """Return the difference of two means, paired by question, over the questions that both have."""
    keys = [key for key in first if key in second]
    return Interval.paired_difference([first[key] for key in keys], [second[key] for key in keys])


def run_values(manifest: Manifest, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a run for `report.json`, between what every run says of itself.

    Args:
        manifest: of the run.
        own: numbers of the suite.
    """
    return {
        "schema_version": Document.SCHEMA_VERSION,
        "suite": manifest.suite,
        "created_by": CREATED_BY,
        "run_created_by": manifest.created_by,
        **own,
        "settings": dict(manifest.settings),
        "inputs": [file.model_dump() for file in manifest.inputs],
    }


def run_document(
    name: str,
    texts: Templates,
    manifest: Manifest,
    summary: Any,
    facts: Mapping[str, Any],
    **further: Any,
) -> Document:
    """Make the report of a run from a template.

    Args:
        name: of the report.
        texts: has the macros `title`, `subtitle`, `headline`, `warnings` and `sections`, each of
            the summary and the facts; the last one of a `Page` before them.
        manifest: of the run.
        summary: the numbers, with `to_dict`.
        facts: what a template cannot find out by itself: lines of tables, plots, counts.
        further: fields of the document.
    """
    given = summary, facts
    values = summary.to_dict()
    settings = values.get("settings", manifest.settings)
    last = Section.of_run(settings, manifest.inputs, manifest.created_by)
    return Document(
        name=name,
        title=texts.text("title", *given),
        subtitle=texts.text("subtitle", *given),
        headline=texts.paragraphs("headline", *given),
        warnings=texts.paragraphs("warnings", *given),
        sections=[*Page(texts).sections("sections", *given), last],
        values=values,
        **further,
    )
