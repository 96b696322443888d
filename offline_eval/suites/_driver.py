"""Running a suite: resume, guards, retries, deadlines and progress, once for all suites."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...guard.deadlines import DeadlineExceededError, DeadlineRunner
from ...guard.errors import (
    InputError,
    KnowgateError,
    LanguageModelTimeoutError,
    MissingDependencyError,
)
from ..run import (
    CallLimits,
    OnProgress,
    RayPool,
    Run,
    Table,
    Tally,
    each_or_error,
    read_manifest,
    run_calls_ray_sync,
    run_calls_sync,
)
from ._registry import suite_of
from .base import DryRun, Suite, SuiteRun, SuiteSettings, System, Work

AnySuite = Suite[Any, Any, Any, Any]
_Pair = tuple[Any, System]
_ENDS_THE_RUN = (InputError, MissingDependencyError)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a suite is run; none of it decides the rows.

    Attributes:
        limits: of calls. Of a suite that answers in batches only the timeout counts here
            (seconds per case); how many calls are made at once is up to the model.
        retry_failed: ask again for rows with an error.
        pool: workers on a Ray cluster that answer; None for this process.
        on_progress: called after every stored row.
        on_note: called with what the user should know.
    """

    limits: CallLimits = field(default_factory=lambda: CallLimits(timeout=None))
    retry_failed: bool = False
    pool: RayPool | None = None
    on_progress: OnProgress | None = None
    on_note: Callable[[str], object] | None = None


def run_suite(
    suite: AnySuite,
    settings: SuiteSettings,
    out: str | os.PathLike[str],
    systems: Sequence[System] = (),
    options: RunOptions | None = None,
) -> Path:
    """Run a suite into a folder.

    Interrupted at any point and called again with the same arguments, it continues and asks
    nothing twice.

    Args:
        suite: what is run.
        settings: of the suite.
        out: the run folder; see `Suite.folder`.
        systems: that answer: the model alone, then behind each guard.
        options: limits, retries, progress.

    Returns:
        The run folder.

    Raises:
        InputError: settings, data or folder cannot be used, or no case is left.
        MissingDependencyError: a package is missing.
    """
    options = options or RunOptions()
    cases, asked = _planned(suite, settings, systems)
    manifest = suite.manifest(settings, cases, asked)
    files = suite.files(settings, cases)
    folder = suite.folder(Path(out))
    with Run.create_or_resume(folder, manifest, files=files) as run:
        for system in asked:
            system.bind(settings, run, suite.rows)
        work = Work(
            Path(out),
            settings,
            cases,
            list(asked),
            run,
            options.limits,
            options.on_progress,
            options.on_note,
        )
        suite.prepare(work)
        table = run[suite.rows]
        if options.retry_failed:
            table.drop(lambda row: getattr(row, "error", None) is not None)
        _answer_all(suite, work, table, options)
        suite.finish(work)
    return folder


def plan_suite(suite: AnySuite, settings: SuiteSettings, systems: Sequence[System] = ()) -> DryRun:
    """Count what `run_suite` would ask; nothing is asked or written.

    Raises:
        InputError: settings or data cannot be used, or no case is left.
    """
    cases, asked = _planned(suite, settings, systems)
    return suite.dry_run(settings, cases, asked)


def read_suite_run(folder: str | os.PathLike[str], suite: AnySuite | None = None) -> SuiteRun[Any]:
    """Read a run of a suite, finished or not.

    Args:
        folder: of the run.
        suite: that made it; by default found by the name in the manifest.

    Raises:
        InputError: there is no run, it is of another suite or of one that is not known, or
            a file is missing, broken or written by a newer knowgate (with the line).
    """
    root = Path(folder)
    value = read_manifest(root)
    where = str(root / "manifest.json")
    made_by = (value.get("suite"), value.get("holds") or "")
    if suite is None:
        suite = suite_of(value, where=where)
    elif made_by != (suite.name, suite.holds):
        raise InputError(
            f"the run is of suite {value.get('suite')!r}, not {suite.name!r}",
            where=where,
            hint=f"name a run made with `{suite.command_line}`",
        )
    run = Run.read(root, suite.manifest_model)
    found = SuiteRun(suite, run, tuple(run[suite.rows].rows()))
    suite.check(found)
    return found


def _planned(
    suite: AnySuite, settings: SuiteSettings, systems: Sequence[System]
) -> tuple[Sequence[Any], Sequence[System]]:
    cases = suite.limited(suite.cases(settings), settings.limit)
    if not cases:
        raise InputError("no question is left to ask", where=suite.name)
    asked = suite.systems(settings, systems)
    names = [system.name for system in asked]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two systems are called {name[:80]!r}", where=suite.name)
    return cases, asked


def _answer_all(
    suite: AnySuite, work: Work[Any, Any], table: Table[Any], options: RunOptions
) -> None:
    pairs = [
        (case, system)
        for system in work.systems
        for case in work.cases
        if suite.applies(case, system)
    ]
    if inspect.iscoroutinefunction(suite.answer):
        _answer_concurrently(suite, pairs, table, options)
        return
    if options.pool is not None:
        raise InputError(f"{suite.name} answers in batches, not on Ray", where="--engine")
    done = sum(suite.row_id(case, system.name) in table.done for case, system in pairs)
    tally = Tally(len(pairs), done, suite.batch_size, stage="asking")
    batches = _Batches(suite, table, options, tally)
    for system in work.systems:
        own = [case for case, other in pairs if other is system]
        for batch in suite.batches(own, system):
            batches.answer(batch, system)


def _answer_concurrently(
    suite: AnySuite, pairs: Sequence[_Pair], table: Table[Any], options: RunOptions
) -> None:
    limits = replace(options.limits, stop_on=(*options.limits.stop_on, *_ENDS_THE_RUN))

    def key(pair: _Pair) -> str:
        return suite.row_id(pair[0], pair[1].name)

    def failed(pair: _Pair, error: Exception) -> BaseModel:
        row: BaseModel = suite.failed(*pair, error)
        return row

    if options.pool is not None:
        run_calls_ray_sync(
            pairs,
            partial(_one_answer, suite),
            table,
            key=key,
            failed=failed,
            limits=limits,
            on_progress=options.on_progress,
            pool=options.pool,
        )
        return
    run_calls_sync(
        pairs,
        _one_answer(suite),
        table,
        key=key,
        failed=failed,
        limits=limits,
        on_progress=options.on_progress,
        stage="asking",
    )


def _one_answer(suite: AnySuite) -> Callable[[_Pair], Awaitable[BaseModel]]:
    async def answered(pair: _Pair) -> BaseModel:
        case, system = pair
        made: Any = suite.answer([case], system)
        (row,) = await made
        found: BaseModel = row
        return found

    return answered


class _Batches:
    """Answers batches one after another, and stores their rows."""

    def __init__(
        self, suite: AnySuite, table: Table[Any], options: RunOptions, tally: Tally
    ) -> None:
        self._suite, self._table, self._tally = suite, table, tally
        self._timeout = options.limits.timeout
        self._on_progress = options.on_progress
        self._threads = DeadlineRunner()

    def answer(self, batch: Sequence[Any], system: System) -> None:
        """Store the rows of a batch that are not there yet."""
        suite, done = self._suite, self._table.done
        missing = [case for case in batch if suite.row_id(case, system.name) not in done]
        if not missing:
            return
        asked = batch if suite.asks_whole_batches(system) else missing
        found = each_or_error(lambda some: self._within_deadline(some, system), list(asked))
        for row in found:
            if isinstance(row, _ENDS_THE_RUN):
                raise row
        rows = [
            suite.failed(case, system, row) if isinstance(row, KnowgateError) else row
            for case, row in zip(asked, found, strict=True)
        ]
        for case, row in zip(asked, rows, strict=True):
            wanted, given = suite.row_id(case, system.name), getattr(row, suite.key, None)
            if wanted != given:
                raise ValueError(f"row {given!r} where {wanted!r} belongs")
        new = [row for row in rows if getattr(row, suite.key) not in done]
        self._table.extend(new)
        for row in new:
            self._tally.add(row, failed=getattr(row, "error", None) is not None)
        if self._on_progress is not None:
            self._on_progress(self._tally.progress())

    def _within_deadline(self, cases: Sequence[Any], system: System) -> list[Any]:
        def answered() -> list[Any]:
            rows: Any = self._suite.answer(cases, system)
            return list(rows)

        if self._timeout is None:
            return answered()
        seconds = self._timeout * len(cases)
        try:
            return self._threads.call(answered, seconds)
        except DeadlineExceededError as error:
            raise LanguageModelTimeoutError(f"no answer within {seconds:g} s") from error
