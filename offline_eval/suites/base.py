"""Write a suite: cases, answering, metrics and a report; everything else is done here.

    settings ─► cases ─► [prepare] ─► answer (per system) ─► rows ─► score ─► report
                                      └─ model, alone and behind each guard

A suite is a subclass of `Suite` and an instance of it, or the class itself:

    from pathlib import Path
    from pydantic import BaseModel
    from knowgate.guard.read_models import read_models    # places and models, or InputError
    from knowgate.offline_eval.report.document import Document, Section
    from knowgate.offline_eval.report.tables import Table           # `Table.of_figures` for rates
    from knowgate.offline_eval.run import RowError, Stored
    from knowgate.offline_eval.suites import Suite, SuiteSettings
    from knowgate.offline_eval.suites.base import SuiteRun      # type of `run`
    from knowgate.offline_eval.suites.parts import System       # type of `system` in `answer`

    class Question(BaseModel): ...            # a case: question_id, question, answer
    class Summary(BaseModel): ...             # the numbers

    class Settings(SuiteSettings):            # each field is an option; numbers and switches are
                                              # given as `--set name=value`
        '''What is asked.

        Attributes:
            data: Questions, JSON lines.
        '''                                   # the help of the option

        data: Path

    class Row(Stored):                        # a line of rows.jsonl
        row_id: str
        answer: str | None = None
        right: bool | None = None
        error: RowError | None = None         # set where there is no answer

    class Capitals(Suite[Settings, Question, Row, Summary]):
        '''Capitals of countries.'''          # becomes the help of the command
        name, settings, row = "capitals", Settings, Row

        def cases(self, settings): ...        # read the data; InputError where it is wrong
        def row_id(self, case, system):       # needed unless cases have a `case_id`; unique
            return f"{system}/{case.question_id}"       # here `system` is the name
        def answer(self, cases, system): ...  # one row per case, in order; no storing here
        def score(self, run): ...             # run.rows → numbers; a row holds all they need
        def report(self, summary): ...        # numbers → Document

From a shell, in the folder of the module `mine`:

    knowgate eval python:mine:Capitals --data questions.jsonl --out run
    knowgate report run --suite python:mine:Capitals

An installed package has an entry point `capitals = "mine:Capitals"` of the group
`knowgate.suites`; then `knowgate eval capitals` and `knowgate report run` do. `register` makes
a suite known in one Python process only, for `find_suite`, `read_suite_run` and `write_report`
(all of `knowgate.offline_eval.suites`, as is `run_suite`, which tests call with a `System` around a
`ScriptedLanguageModel` of `knowgate.guard.testing`).

That is enough for gates and `run_suite`, too: run folder with manifest and lock, resume after
a kill without asking twice, `--retry-failed`, `--calls timeout=SECONDS`, `--limit`, `--dry-run`,
guards in front of the model, progress. The share of rows with an error is in `report.json` as
`failed`, whatever the suite's own values are. A value that a class of the data rejects is to be
raised as `InputError(what, where="questions.jsonl:3")`, which is one line for the user; any other
error of `cases` is a traceback.

**Answering.** A plain `answer` gets a batch (`batches`) and returns one row per case. If it
raises, the batch is asked case by case, and cases that fail become rows by `failed`; an
`InputError` ends the run. An `async def answer` is called with a batch of one case, and returns
its row in a list, as many at once as `CallLimits` allow, with retries, rate and timeout, also on
Ray (`remote`). While you write it, call it directly: in a run its errors become rows.

**Systems.** The driver asks the model (`System("model", …)`), then each guard in front of it.
`system.guard` is the guard, None without one; `answer` has to ask it, or its rows are the
model's, of which the command warns:

    if system.guard is not None:              # `passages`: those of each question
        decisions = system.guard.decide_batch(questions, passages)

`system.earlier` are the rows of the systems before it, so that a guard reuses the model's
replies. `systems` may build others (methods, models × prompts); `applies` leaves out cases that
a system does not answer.

**More stages.** Cases that need calls first (beliefs, evidence, contexts) come from `prepare`:
it has the open run, may store rows in further tables (`work.run[TableSpec(…)]`) and sets
`work.cases`. `begin` sets them before there is a folder, where the manifest depends on them.
`finish` runs after the last row. `work` is one object from the first of these to the last:
settings, cases, systems, folder, options.

**Manifest.** By default: settings, fingerprint of the model, hashes of guards and of every
file in a `Path` field. Override `manifest` to name other things; two runs are the same if
their manifests are equal.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from ...guard.errors import InputError, MissingDependencyError
from ..report.document import Document
from ..run import RowError, Run
from ..run.grouping import batched
from ..run.manifest import InputFile, Manifest
from ..run.table import RowT, TableSpec
from ..systems.factory import load_language_model
from ..systems.guards import GuardChoice
from .parts import (
    MODEL_SYSTEM,
    REPLAY,
    CaseT,
    ModelChoice,
    Overview,
    RunResult,
    SettingsT,
    SummaryT,
    System,
    Work,
)

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class SuiteRun(Generic[RowT]):
    """A stored run of a suite, finished or not.

    Attributes:
        suite: that made it.
        run: open for reading; further tables are `run[TableSpec(…)].rows()`.
    """

    suite: Suite[Any, Any, RowT, Any]
    run: Run

    @cached_property
    def rows(self) -> tuple[RowT, ...]:
        """The rows, checked, in the order in which they were stored."""
        return tuple(self.run[self.suite.rows].rows())

    @property
    def folder(self) -> Path:
        """Where the run is stored."""
        return self.run.folder

    @property
    def manifest(self) -> Any:
        """The checked manifest, of the suite's `manifest_model`."""
        return self.run.manifest

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame, one line each; see `Run.to_pandas`.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return self.run.to_pandas(self.suite.rows)


class Suite(ABC, Generic[SettingsT, CaseT, RowT, SummaryT]):
    """A family of cases with its own answering, metrics and report; see the module.

    Attributes:
        name: of the command and in the manifest.
        command: that makes runs; empty for `knowgate eval <name>`.
        settings: model of the settings.
        row: model of a row, with a field `error` (`RowError | None`); without it failed cases
            count as answered.
        key: field of the row that identifies it.
        manifest_model: what manifests of this suite are checked against.
        takes_model: whether the command has `--model`, `--guard` and `--scorer`.
        default_model: of `--model`; empty where it must be named.
        batch_size: cases per call of a plain `answer`.
        stop_on: errors of `answer` that end the run; others become rows.
    """

    name: ClassVar[str]
    command: ClassVar[str] = ""
    settings: type[SettingsT]
    row: type[RowT]
    key: ClassVar[str] = "row_id"
    manifest_model: ClassVar[type[Manifest]] = Manifest
    takes_model: ClassVar[bool] = True
    default_model: ClassVar[str] = "embedded"
    batch_size: ClassVar[int] = 64
    stop_on: ClassVar[tuple[type[Exception], ...]] = (InputError, MissingDependencyError)

    # -- what every suite has -------------------------------------------------------

    @abstractmethod
    def cases(self, settings: SettingsT) -> Sequence[CaseT]:
        """Read the cases; nothing is asked or written yet.

        Raises:
            InputError: the data cannot be used.
        """

    @abstractmethod
    def answer(
        self,
        cases: Sequence[CaseT],
        system: System,
    ) -> Iterable[RowT] | Awaitable[Iterable[RowT]]:
        """Answer a batch: one row per case, in their order."""

    @abstractmethod
    def score(self, run: SuiteRun[RowT]) -> SummaryT:
        """Compute the numbers of a run, finished or not."""

    @abstractmethod
    def report(self, summary: SummaryT) -> Document:
        """Write the report of the numbers."""

    # -- what a suite may say otherwise ---------------------------------------------

    def row_id(self, case: CaseT, system: str) -> str:
        """Return the key of the row of a case; by default `<system>/<case.case_id>`."""
        return f"{system}/{case.case_id}"  # type: ignore[attr-defined]

    @property
    def rows(self) -> TableSpec[RowT]:
        """The table of rows."""
        hint = f"run `{self.command_line}` again into another folder"
        return TableSpec("rows", self.row, self.key, hint=hint)

    @property
    def command_line(self) -> str:
        """The command that makes runs, for hints."""
        return self.command or f"knowgate eval {self.name}"

    def next_command(self, folder: Path) -> str:
        """Return the command to run next; by default the one that writes the report."""
        return f"knowgate report {quote(str(folder))}"

    def limited(self, cases: Sequence[CaseT], limit: int | None) -> Sequence[CaseT]:
        """Return the cases that `--limit` leaves; by default the first ones."""
        return cases[:limit]

    def load(self, settings: SettingsT, choice: ModelChoice) -> Sequence[System]:
        """Load what a command line names: by default the model, then each guard before it.

        Raises:
            InputError: there is no such model or guard, or they do not fit.
            MissingDependencyError: a package is missing.
        """
        if not self.takes_model:
            return ()
        model = None
        # With `replay`, `systems` takes the logged replies of the settings.
        if choice.model != REPLAY:
            model = self.load_model(settings, choice)
        found = GuardChoice.load_guards(choice.guards, model, scorer=choice.scorer)
        named = [(MODEL_SYSTEM, (None, "")), *found.items()]
        return [System(name, model, *guard, choice.model) for name, guard in named]

    def load_model(self, settings: SettingsT, choice: ModelChoice) -> Any:
        """Load the model under test by its name.

        Raises:
            InputError: there is no such model.
            MissingDependencyError: a package is missing.
        """
        return load_language_model(choice.model, choice.limits)

    def systems(self, work: Work[SettingsT, CaseT]) -> Sequence[System]:
        """Return the systems that answer; by default the model, then each guard.

        Called twice: first with systems without models, to find what does not fit before a model
        is loaded.

        Args:
            work: with the cases as `cases` read them, and the model alone, then behind each guard.
        """
        return work.systems or (System(self.name),)

    def begin(self, work: Work[SettingsT, CaseT]) -> None:
        """Do what comes before the manifest; may replace `work.cases`.

        Called once, after all checks and before the run folder is made; not for a dry run.
        """

    def applies(self, case: CaseT, system: System) -> bool:
        """Return whether a system answers a case."""
        return True

    def order(self, work: Work[SettingsT, CaseT]) -> Sequence[tuple[CaseT, System]]:
        """Return what is asked, in order; by default system by system."""
        pairs = ((case, system) for system in work.systems for case in work.cases)
        return [pair for pair in pairs if self.applies(*pair)]

    def batches(self, cases: Sequence[CaseT], system: System) -> Iterator[Sequence[CaseT]]:
        """Split the cases of a system into batches for a plain `answer`."""
        return batched(cases, self.batch_size)

    def asks_whole_batches(self, system: System) -> bool:
        """Return whether a batch that a kill cut is asked again as a whole.

        A local model's reply can depend on its batch in the last digit; a remote model is
        asked only for what is missing.
        """
        return hasattr(system.model, "batch_size")

    def failed(self, case: CaseT, system: System, error: Exception) -> RowT:
        """Make the row of a case without an answer.

        Override it where the row has required fields besides its key.
        """
        fields = {self.key: self.row_id(case, system.name), "error": RowError.of(error)}
        return self.row.model_validate(fields)

    def inputs(self, settings: SettingsT) -> Sequence[Path]:
        """Return the files that decide the rows; by default those in `Path` fields."""
        values = (getattr(settings, name) for name in type(settings).model_fields)
        return [value for value in values if isinstance(value, Path) and value.is_file()]

    def manifest(self, work: Work[SettingsT, CaseT]) -> Manifest:
        """Return what the run is made from and with."""
        settings = work.settings
        systems = work.systems
        paths = {name for name, _ in settings if isinstance(getattr(settings, name), Path)}
        stored: dict[str, Any] = settings.model_dump(mode="json", exclude=paths)
        fingerprints = dict.fromkeys(one.fingerprint for one in systems if one.fingerprint)
        if fingerprints:
            stored["model"] = ", ".join(fingerprints)
        stored["guards"] = work.guards
        return self.manifest_model.new(
            suite=self.name,
            settings=stored,
            systems=[one.name for one in systems],
            inputs=tuple(InputFile.of(path) for path in self.inputs(settings)),
            cases=len(work.cases),
        )

    def folder(self, out: Path) -> Path:
        """Return the folder of the run for `--out`; by default the same."""
        return out

    def files(self, work: Work[SettingsT, CaseT]) -> Mapping[str, Callable[[Path], object]]:
        """Return what is written into a new run folder before its manifest, by name."""
        return {}

    def prepare(self, work: Work[SettingsT, CaseT]) -> None:
        """Do what comes before answering; may store rows and replace `work.cases`."""

    def remote(self, work: Work[SettingsT, CaseT]) -> Callable[[], Any]:
        """Return what makes, in each worker of a Ray cluster, the object that answers.

        It must be picklable, as what is `sent` is. By default the suite itself answers. A
        suite with a plain `answer` overrides this to be run on Ray, one case per call.
        """
        return partial(_itself, self)

    def sent(self, case: CaseT, system: System) -> tuple[Any, Any]:
        """Return what a worker of a Ray cluster gets for a case: by default case and system."""
        return case, system

    def check_ray(self, settings: SettingsT) -> None:
        """Check, before anything is loaded, that cases with these settings can be sent.

        Raises:
            InputError: they cannot, or the suite cannot be run on Ray at all.
        """
        if not self.on_ray:
            raise InputError(
                f"{self.name} answers in batches, not on Ray", where="--calls engine=ray"
            )

    @property
    def on_ray(self) -> bool:
        """Whether the suite can be run on Ray."""
        return inspect.iscoroutinefunction(self.answer) or type(self).remote is not Suite.remote

    def finish(self, work: Work[SettingsT, CaseT]) -> None:
        """Do what comes after the last row."""

    def dry_run(self, work: Work[SettingsT, CaseT]) -> Overview:
        """Count what would be asked; by default the cases of each system."""
        counts = {
            one.name: sum(self.applies(case, one) for case in work.cases) for one in work.systems
        }
        return Overview(("system", "cases"), tuple(counts.items()), values={"cases": counts})

    def ending(self, result: RunResult) -> Overview:
        """Return what the command says of a run that it finished; by default nothing."""
        return Overview(failed=result.failed)

    def check(self, run: SuiteRun[RowT]) -> None:
        """Check a stored run before it is scored.

        Raises:
            InputError: its rows do not belong together, or there are none yet.
        """
        if not run.rows:
            raise InputError(
                "the run is not finished (no row yet)",
                where=str(run.folder),
                hint=f"start the same `{self.command_line}` again to continue it",
            )

    def compare(self, run: SuiteRun[RowT], others: Sequence[SuiteRun[RowT]]) -> SummaryT:
        """Compute the numbers of a run beside those of others, for `--compare`.

        Raises:
            InputError: runs of this suite cannot be compared.
        """
        raise InputError(
            "only runs of replies can be compared",
            where=str(run.folder / "manifest.json"),
            hint="leave --compare out, or make runs with `knowgate eval ookb --model …`",
        )


def _itself(suite: Suite[Any, Any, Any, Any]) -> Suite[Any, Any, Any, Any]:
    return suite
