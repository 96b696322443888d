"""Measure several scorers on the same cases of a knowledge base, each into a run of its own.

    questions ─► cases ─► one retrieval for all ─► each scorer ─► run per scorer ─► comparison

What was measured of a scorer is kept when another one is added, and a run that was killed
continues, as with `knowgate measure`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....guard.contracts import RelevanceScorer
from ....guard.engine import BiEncoderScorer
from ....guard.errors import InputError
from ....guard.signals.relevance import load_scorer
from ...report import ReportWriter
from ...run import MeasuredRow, MeasuredRun
from ...systems import ServedChain
from .._driver import run_suite
from .._parts import RunOptions, System, require_not_tuned_on
from ._instruments import Instruments, MeasuredCase, ServedInstruments, over_documents
from ._measure import MeasureSuite
from ._scorer_comparison import MeasuredScorer, ScorerComparison
from ._scorers_report import scorers_document
from ._settings import MeasureSettings

_SLUG_LENGTH = 60


class TimedRow(MeasuredRow):
    """A measured case with what it cost.

    Attributes:
        milliseconds: that the scorer took, without retrieval; None where it failed.
        calls: of a language model; None where the scorer asks none.
    """

    milliseconds: float | None = None
    calls: int | None = None


class _TimedMeasure(MeasureSuite):
    """Measure signals as `knowgate measure` does, with time and calls in each row."""

    row = TimedRow
    command = "knowgate compare-scorers"

    def answer(self, cases: Sequence[MeasuredCase], system: System) -> list[MeasuredRow]:
        """Retrieve, judge, and note what judging cost."""
        assert isinstance(system, Instruments)
        return [self._timed(case, system) for case in cases]

    def _timed(self, case: MeasuredCase, system: Instruments) -> TimedRow:
        before = _calls(system.scorer)
        (row,) = super().answer([case], system)
        after = _calls(system.scorer)
        return TimedRow(
            **row.model_dump(),
            milliseconds=None if row.error is not None else 1e3 * system.seconds,
            calls=None if before is None or after is None else after - before,
        )


_TIMED = _TimedMeasure()


def compare_scorers(
    settings: MeasureSettings,
    scorers: Sequence[str],
    out: Path,
    *,
    risk: float,
    options: RunOptions | None = None,
) -> ScorerComparison:
    """Measure each scorer on the same cases, compare them, and write the report.

    Interrupted at any point and called again with the same arguments, it continues and asks
    nothing twice. Scorers may be added.

    Args:
        settings: of the cases and their retrieval; its `scorer` is not used.
        scorers: names for `load_scorer`, at least two.
        out: folder with a run folder for each scorer, and the report.
        risk: share α of the left-out questions that may pass, in (0, 1).
        options: retries, progress; the stage of the progress is the scorer.

    Raises:
        InputError: fewer than two scorers, one that cannot be loaded, was tuned on these
            questions or is named twice; or data or folder cannot be used.
        MissingDependencyError: a package is missing.
    """
    if len(set(scorers)) < max(2, len(scorers)):
        what = "a scorer is named twice" if len(scorers) > 1 else "only one is named"
        raise InputError(what, where="--scorer", hint="name two different scorers or more")
    cases = _TIMED.limited(_TIMED.cases(settings), settings.limit)
    loaded = {name: load_scorer(name) for name in scorers}
    instruments = _instruments(settings, loaded)
    questions = {one.record.question_id: one.record.question for one in cases}
    for name, scorer in loaded.items():
        require_not_tuned_on(scorer, questions, name)
    measured = []
    for name, one in instruments.items():
        own = settings.model_copy(update={"scorer": name})
        folder = out / folder_name(name)
        run_suite(_TIMED, own, folder, [one], _staged(options or RunOptions(), name))
        measured.append(read_measured_scorer(name, folder))
    found = ScorerComparison.of(measured, risk=risk)
    ReportWriter(out).write(scorers_document(found))
    return found


def read_measured_scorer(name: str, folder: Path) -> MeasuredScorer:
    """Read what was measured of one scorer.

    Raises:
        InputError: no finished run is there.
    """
    run = MeasuredRun.read(folder, with_calibration=False)
    spent = {row.case_id: row for row in _TIMED.rows.read(folder)}
    assert all(isinstance(row, TimedRow) for row in spent.values())
    return MeasuredScorer(
        name,
        run,
        tuple(
            ms for row in spent.values() if (ms := getattr(row, "milliseconds", None)) is not None
        ),
        _total(getattr(row, "calls", None) for row in spent.values()),
    )


def folder_name(scorer: str) -> str:
    """Return the name of a scorer's run folder: readable, and different for each scorer.

    Example:
        >>> folder_name("sufficiency"), folder_name("judge:openai:gpt-4o-mini")
        ('sufficiency', 'judge_openai_gpt-4o-mini-8b852e')
    """
    plain = re.sub(r"[^A-Za-z0-9.-]+", "_", scorer).strip("._-")[:_SLUG_LENGTH]
    if plain == scorer and plain == plain.lower():
        return plain
    # File systems may not tell upper from lower case.
    return f"{plain}-{hashlib.sha256(scorer.encode()).hexdigest()[:6]}"


def _instruments(
    settings: MeasureSettings, scorers: Mapping[str, RelevanceScorer]
) -> dict[str, Instruments]:
    """One retrieval for all scorers."""
    if not settings.served:
        encoder = BiEncoderScorer()
        return {name: Instruments(scorer, encoder) for name, scorer in scorers.items()}
    details: dict[str, Any] = {}
    labels: tuple[str, ...] = ()
    if settings.chain is not None:
        chain = ServedChain.load(settings.chain)
    else:
        chain, details, labels = over_documents(settings, BiEncoderScorer())
    return {
        name: ServedInstruments(scorer, chain, details=details, labels=labels)
        for name, scorer in scorers.items()
    }


def _staged(options: RunOptions, stage: str) -> RunOptions:
    told = options.on_progress
    if told is None:
        return options
    return replace(options, on_progress=lambda progress: told(replace(progress, stage=stage)))


def _calls(scorer: RelevanceScorer) -> int | None:
    """Calls of a language model so far, of a scorer that counts them."""
    found = getattr(scorer, "calls", None)
    return found if isinstance(found, int) else None


def _total(calls: Iterable[int | None]) -> int | None:
    known = [number for number in calls if number is not None]
    return sum(known) if known else None
