"""Running a suite and reporting it: resume, guards, retries, deadlines, once for all suites."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...guard.deadlines import DeadlineRunner
from ...guard.errors import (
    DeadlineExceededError,
    InputError,
    KnowgateError,
    LanguageModelTimeoutError,
)
from ...guard.files import AnyPath
from ..report.document import Section
from ..report.writing import ReportPaths, ReportWriter
from ..run import Run
from ..run.calls import NO_TIMEOUT, Calls, Progress, RunOptions, each_or_error
from ..run.event_loop import run_interruptibly
from ..run.manifest import Manifest
from ..run.table import Table
from ..systems.guards import GuardChoice
from .base import Suite, SuiteRun
from .parts import (
    MODEL_SYSTEM,
    ModelChoice,
    Overview,
    RunResult,
    SuiteSettings,
    System,
    Work,
)
from .registry import AnySuite, suite_name, suite_of

_Pair = tuple[Any, System]


def run_suite(
    suite: AnySuite,
    settings: SuiteSettings,
    out: AnyPath,
    systems: Sequence[System] | ModelChoice = (),
    options: RunOptions | None = None,
) -> RunResult:
    """Run a suite into a folder.

    Interrupted at any point and called again with the same arguments, it continues and asks
    nothing twice.

    Args:
        suite: what is run.
        settings: of the suite.
        out: the run folder; see `Suite.folder`.
        systems: that answer: the model alone, then behind each guard; or their names, to be
            loaded once the data are known to be usable.
        options: limits, retries, progress.

    Raises:
        InputError: settings, data or folder cannot be used, or no case is left.
        MissingDependencyError: a package is missing.
    """
    options = options or RunOptions()
    if options.pool is not None:
        suite.check_ray(settings)
    out = Path(out)
    work = Work(settings, _cases(suite, settings), (), out, suite.folder(out), options)
    if isinstance(systems, ModelChoice):
        _systems(suite, work, _stand_ins(suite, systems, systems.guards))
        systems = suite.load(settings, systems)
    asked = tuple(_systems(suite, work, systems))
    suite.begin(work)
    manifest = suite.manifest(work)
    if type(suite).prepare is Suite.prepare:
        _ordered(suite, work)
    with Run.create_or_resume(work.folder, manifest, files=suite.files(work)) as run:
        work.run = run
        for system in asked:
            system.bind(settings, run, suite.rows)
        suite.prepare(work)
        table = run[suite.rows]
        if options.retry_failed:
            table.drop(_has_error)
        totals = _answer_all(suite, work, table)
        suite.finish(work)
        unread = [one.name for one in asked if one.is_guarded and not one.guard_was_read]
        # A run that goes on may have had only rows of the model to ask for.
        if unread and totals.already == 0 and options.pool is None:
            names = ", ".join(unread)
            work.note(f"warning: guards that the suite never asked (rows of the model): {names}")
        errors = Counter(str(row.error) for row in table.rows() if _has_error(row))
    return RunResult(work.folder, totals, errors)


def plan_suite(
    suite: AnySuite, settings: SuiteSettings, systems: Sequence[System] | ModelChoice = ()
) -> Overview:
    """Count what `run_suite` would ask; nothing is asked or written, no model is loaded.

    Raises:
        InputError: settings or data cannot be used, or no case is left.
    """
    work = Work(settings, _cases(suite, settings), ())
    if isinstance(systems, ModelChoice):
        choices = GuardChoice.load(systems.guards)
        names = [one.name for one in choices if one.policy is not None]
        systems = _stand_ins(suite, systems, names)
    _systems(suite, work, systems)
    return suite.dry_run(work)


def read_suite_run(folder: AnyPath, suite: AnySuite | None = None) -> SuiteRun[Any]:
    """Read a run of a suite, finished or not.

    Args:
        folder: of the run.
        suite: that made it; by default found by the name in the manifest.

    Raises:
        InputError: there is no run, it is of another suite or of one that is not known, or
            a file is missing, broken or written by a newer knowgate (with the line).
    """
    root = Path(folder)
    value = Manifest.read_raw(root)
    where = str(root / "manifest.json")
    if suite is None:
        suite = suite_of(value, where=where)
    elif suite_name(value) != suite.name:
        raise InputError(
            f"the run is of suite {suite_name(value)!r}, not {suite.name!r}",
            where=where,
            hint=f"name a run made with `{suite.command_line}`",
        )
    found = SuiteRun(suite, Run.read(root, suite.manifest_model))
    suite.check(found)
    return found


def _cases(suite: AnySuite, settings: SuiteSettings) -> Sequence[Any]:
    cases = suite.limited(suite.cases(settings), settings.limit)
    if not cases:
        raise InputError("no question is left to ask", where=suite.name)
    return cases


def _systems(suite: AnySuite, work: Work[Any, Any], given: Sequence[System]) -> Sequence[System]:
    work.systems = given
    work.systems = [*suite.systems(work)]
    names = [system.name for system in work.systems]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two systems are called {name[:80]!r}", where=suite.name)
    return work.systems


def _stand_ins(suite: AnySuite, choice: ModelChoice, guards: Sequence[str]) -> list[System]:
    """Return systems without models, to check and to count."""
    if not suite.takes_model:
        return []
    named = [(MODEL_SYSTEM, None), *zip(guards, guards, strict=True)]
    return [System(name, guard=guard, source=choice.model) for name, guard in named]


def _has_error(row: Any) -> bool:
    return getattr(row, "error", None) is not None


def _ordered(suite: AnySuite, work: Work[Any, Any]) -> Sequence[_Pair]:
    """What is asked, in order.

    Raises:
        InputError: two cases have one id.
    """
    pairs = suite.order(work)
    ids = Counter(suite.row_id(case, system.name) for case, system in pairs)
    for name, times in ids.most_common(1):
        if times > 1:
            hint = "give each case an id of its own"
            raise InputError(f"{times} rows have the id {name[:80]!r}", where=suite.name, hint=hint)
    return pairs


def _answer_all(suite: AnySuite, work: Work[Any, Any], table: Table[Any]) -> Progress:
    pairs = _ordered(suite, work)
    if work.options.pool is not None or inspect.iscoroutinefunction(suite.answer):
        return _answer_concurrently(suite, work, pairs, table)
    done = sum(suite.row_id(case, system.name) in table.done for case, system in pairs)
    tally, on_progress = Progress("asking", len(pairs), done), work.options.on_progress
    timeout = work.options.limits_or(NO_TIMEOUT).timeout
    ask = partial(_within_deadline, suite, timeout, DeadlineRunner())
    for system in work.systems:
        own = [case for case, other in pairs if other is system]
        for batch in suite.batches(own, system):
            missing = [one for one in batch if suite.row_id(one, system.name) not in table.done]
            if not missing:
                continue
            asked = batch if suite.asks_whole_batches(system) else missing
            found = each_or_error(partial(ask, system), list(asked))
            rows = [
                _checked(suite, case, system, row) for case, row in zip(asked, found, strict=True)
            ]
            new = [row for row in rows if getattr(row, suite.key) not in table.done]
            table.extend(new)
            for row in new:
                tally.add(row, failed=_has_error(row))
            if on_progress is not None:
                on_progress(replace(tally))
    return tally


def _checked(suite: AnySuite, case: Any, system: System, row: Any) -> Any:
    """Return the row of a case: as it was made, or that of its failure."""
    if isinstance(row, suite.stop_on):
        raise row
    made = suite.failed(case, system, row) if isinstance(row, KnowgateError) else row
    wanted, given = suite.row_id(case, system.name), getattr(made, suite.key, None)
    if wanted != given:
        raise ValueError(f"row {given!r} where {wanted!r} belongs")
    return made


def _within_deadline(
    suite: AnySuite,
    timeout: float | None,
    threads: DeadlineRunner,
    system: System,
    cases: Sequence[Any],
) -> list[Any]:
    def answered() -> list[Any]:
        rows: Any = suite.answer(cases, system)
        return list(rows)

    if timeout is None:
        return answered()
    seconds = timeout * len(cases)
    try:
        return threads.call(answered, seconds)
    except DeadlineExceededError as error:
        raise LanguageModelTimeoutError(f"no answer within {seconds:g} s") from error


def _answer_concurrently(
    suite: AnySuite, work: Work[Any, Any], pairs: Sequence[_Pair], table: Table[Any]
) -> Progress:
    options = work.options
    limits = options.limits_or(NO_TIMEOUT)
    limits = replace(limits, stop_on=(*limits.stop_on, *suite.stop_on))

    def key(pair: _Pair) -> str:
        return suite.row_id(pair[0], pair[1].name)

    def failed(pair: _Pair, error: Exception) -> BaseModel:
        row: BaseModel = suite.failed(*pair, error)
        return row

    calls = Calls(key, failed, limits, options.on_progress, stage="asking")
    if options.pool is not None:
        make = partial(_answers, suite.remote(work))
        sent = options.pool.run(calls, pairs, make, table, lambda pair: suite.sent(*pair))
        return run_interruptibly(sent)
    return calls.run_sync(pairs, _answers(lambda: suite), table)


def _answers(make: Callable[[], Any]) -> Callable[[_Pair], Awaitable[BaseModel]]:
    """Return what makes the row of a case, by the `answer` of a suite or its remote part."""
    answering = make()

    async def answered(pair: _Pair) -> BaseModel:
        case, system = pair
        found = answering.answer([case], system)
        (row,) = await found if inspect.isawaitable(found) else found
        made: BaseModel = row
        return made

    return answered


def write_report(
    run_dir: AnyPath,
    *,
    out_dir: AnyPath | None = None,
    compare: Sequence[AnyPath] = (),
    formats: Sequence[str] = ("html", "md", "json"),
    gates: Sequence[str] = (),
    extra: Sequence[Section] = (),
) -> ReportPaths:
    """Write the report of a run folder; nothing is written if the run is damaged.

    Args:
        run_dir: folder that a suite wrote, which is built in, registered or of an installed
            package; the report of an unfinished run says so.
        out_dir: folder for the files, made where missing; None: the run folder.
        compare: folders of other runs, for suites that compare runs.
        formats: some of `html`, `md`, `json`, `csv` (if the suite has rows) and `junit` (if it
            has checks, or with gates).
        gates: expressions that must not hold, see `offline_eval.report`. If more than 5 % of
            the rows failed, that is a failed gate, too, unless a gate names `failed`.
        extra: further sections, in front of those of the run.

    Returns:
        Where the files are, and the results of the gates.

    Raises:
        InputError: a file of the run is missing, damaged, empty or written by a newer
            knowgate; the suite is unknown; a run cannot be compared, a format cannot be made
            or a gate cannot be read; or a file cannot be written.
    """
    folder = run_dir if out_dir is None else out_dir
    writer = ReportWriter(folder, formats, gates)
    run = read_suite_run(run_dir)
    others = [read_suite_run(folder, run.suite) for folder in compare]
    suite = run.suite
    document = suite.report(suite.compare(run, others) if others else suite.score(run))
    failed = sum(map(_has_error, run.rows)) / len(run.rows) if run.rows else None
    values = {**document.values, "failed": failed}
    return writer.write(replace(document, sections=(*extra, *document.sections), values=values))
