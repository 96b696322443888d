"""Measure the relevance of what is retrieved for each question, to calibrate on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from ....guard.errors import InputError
from ....guard.files import read_text, write_text
from ....guard.fingerprint import Fingerprint
from ....guard.fingerprint import aggregator as require_aggregator
from ...data.questions import KnowledgeBase, QuestionRecord
from ...report.document import Document
from ...run import RowError
from ...run.manifest import InputFile
from ...run.measured_run import MeasuredRun
from ...run.questions import CaseKind, MeasuredManifest, MeasuredRow
from ...run.table import TableSpec
from ..base import Suite, SuiteRun
from ..parts import ModelChoice, Overview, RunResult, System, Work, questions_tuned_on
from ._settings import MeasureSettings
from ._signals_report import WORDS, signals_document
from .instruments import Instruments, MeasuredCase
from .signals import SignalsSummary, count_duplicates


class MeasureSuite(Suite[MeasureSettings, MeasuredCase, MeasuredRow, SignalsSummary]):
    """Measure signals to calibrate on: what the guard would see, with the answer and without.

    Each question is asked with its passage in the knowledge base, and with that passage left
    out. Stored is the relevance of what basic RAG retrieves (top-k by embedding; the query is
    the question alone). A run that is killed continues when the same command is started again.

    Example: `knowgate measure --questions kb.jsonl --scorer bi_encoder --out run`
    """

    name = "measure"
    settings, key = MeasureSettings, "case_id"
    manifest_model = MeasuredManifest
    takes_model = False
    command = "knowgate measure"
    # Each row is on disk before the next case is measured.
    batch_size = 1

    def __init__(self, row: type[MeasuredRow] = MeasuredRow) -> None:
        """Make the suite; a row with further fields also holds what measuring cost."""
        self.row = row

    @property
    def rows(self) -> TableSpec[MeasuredRow]:
        """The table of rows; ids and texts may hold what JSON cannot."""
        return replace(super().rows, clean=True)

    def cases(self, settings: MeasureSettings) -> list[MeasuredCase]:
        """Read the questions: the cases of each, or one where nothing is known of its answer.

        Of questions that nothing answers, the limit counts apart. The base stays whole.
        """
        if settings.aggregator is not None:
            require_aggregator(settings.aggregator)
        records = QuestionRecord.read(settings.questions, need_answer=not settings.served)
        base = None
        if not settings.served:
            base = KnowledgeBase.of(records, settings.passage, where=os.fspath(settings.questions))
        found: list[MeasuredCase] = []
        twins = (*CaseKind.twins(), CaseKind.ECHO) if settings.echo else CaseKind.twins()
        for record in records[: settings.limit]:
            # Without answer, passage and source nobody knows whether its answer is there.
            known = record.answer or record.passage or record.source or base is not None
            kinds = twins if known else (CaseKind.LIVE,)
            found += [MeasuredCase.of_record(record, kind, base) for kind in kinds]
        if settings.unanswerable is not None:
            missing = QuestionRecord.read_unanswerable(settings.unanswerable, beside=records)
            found += [
                MeasuredCase.of_record(one, CaseKind.UNANSWERABLE, base)
                for one in missing[: settings.limit]
            ]
        return found

    def limited(self, cases: Sequence[MeasuredCase], limit: int | None) -> Sequence[MeasuredCase]:
        """Return all: the questions were limited when they were read."""
        return cases

    def row_id(self, case: MeasuredCase, system: str) -> str:
        """Return the id of the case: one system measures."""
        return case.case_id

    def load(self, settings: MeasureSettings, choice: ModelChoice) -> Sequence[System]:
        """Load what measures, and what retrieves."""
        return (Instruments.of(settings),)

    def begin(self, work: Work[MeasureSettings, MeasuredCase]) -> None:
        """Find what is left out for each question, and which questions are one unit by that."""
        found = _instruments(work.systems)
        found.settings = work.settings
        work.cases = found.located(work.cases)

    def manifest(self, work: Work[MeasureSettings, MeasuredCase]) -> MeasuredManifest:
        """Name scorer and retriever by their fingerprints."""
        settings, cases, instruments = work.settings, work.cases, _instruments(work.systems)
        fingerprint = instruments.scorer.fingerprint
        probed = fingerprint.probed(instruments.scorer)
        # They may not calibrate it.
        asked = {one.question_id: one.question for one in cases}
        tuned_on = questions_tuned_on(instruments.scorer, asked)
        files = filter(None, (settings.questions, settings.unanswerable))
        return MeasuredManifest.new(
            # The suite whose questions are measured.
            suite="ookb",
            settings={
                "scorer": fingerprint,
                "aggregator": instruments.aggregator,
                **instruments.described(cases),
            },
            inputs=tuple(map(InputFile.of, files)),
            questions=len(asked),
            cases=len(cases),
            **({} if probed == fingerprint else {"probed_scorer": probed}),
            **({"tuned_on": tuned_on} if tuned_on else {}),
        )

    def prepare(self, work: Work[MeasureSettings, MeasuredCase]) -> None:
        """Store the questions, or again where they were lost, and where their answers are."""
        folder, instruments = work.run.folder, _instruments(work.systems)
        _require_same_scores(folder, instruments)
        rows = _question_rows(work.cases, instruments.store(work.run))
        path, text = folder / "questions.jsonl", MeasuredRun.QUESTIONS.bound_text(folder, rows)
        if not path.exists() or read_text(path, links=False) != text:
            write_text(path, text)

    def answer(self, cases: Sequence[MeasuredCase], system: System) -> list[MeasuredRow]:
        """Retrieve, and measure the relevance of what was found."""
        instruments = _instruments([system])
        return [instruments.measured(case, self.row) for case in cases]

    def check_ray(self, settings: MeasureSettings) -> None:
        """Check that no chain is measured, which is asked in this process."""
        if settings.served:
            raise InputError(
                "a chain, or documents, are measured in this process",
                where="--calls engine=ray",
                hint="leave engine=ray out, or measure the passages of the questions",
            )

    def remote(self, work: Work[MeasureSettings, MeasuredCase]) -> Callable[[], Any]:
        """Return what measures in the workers of a Ray cluster.

        A scorer that was named is loaded by each worker, on its own device; one that was
        given as an object travels.
        """
        instruments = _instruments(work.systems)
        given = None if instruments.source else instruments
        fingerprint = instruments.scorer.fingerprint
        return partial(_worker, given, work.settings, tuple(work.cases), fingerprint)

    def sent(self, case: MeasuredCase, system: System) -> tuple[str, None]:
        """Return the id of the case: the workers hold questions and knowledge base."""
        return case.case_id, None

    def failed(self, case: MeasuredCase, system: System, error: Exception) -> MeasuredRow:
        """Make the row of a case that could not be measured."""
        return case.row(error=RowError.of(error))

    def finish(self, work: Work[MeasureSettings, MeasuredCase]) -> None:
        """Put rows that were measured again in the order of the cases."""
        work.run[self.rows].sort([case.case_id for case in work.cases])

    def ending(self, result: RunResult) -> Overview:
        """Count what was measured, missed, unmatched and repeated."""
        run = MeasuredRun.read(result.folder, with_calibration=False, unfinished=True)
        found, totals = Counter(row.kind for row in run.rows), result.totals
        kinds = {kind.value: found[kind] for kind in CaseKind if found[kind]}
        wrong, unmatched = [row for row in run.rows if row.error is not None], run.unmatched
        failed = sum(row.question_id not in unmatched for row in wrong)
        counts = {
            "retrieval_misses": sum(row.retrieval_miss for row in run.rows),
            "unmatched": len(unmatched),
            "duplicates": count_duplicates(run)[0],
        }
        seconds = totals.seconds / totals.stored if totals.stored else 0.0
        values: dict[str, Any] = {"cases": kinds, **counts, "seconds_per_case": seconds}
        lines = (
            *((f"cases, {kind}", number) for kind, number in kinds.items()),
            *((name.replace("_", " "), number) for name, number in counts.items()),
            ("failed", failed),
            ("time per case", f"{seconds:.3f} s"),
        )
        notes = WORDS.paragraphs("unmatched", len(unmatched))
        return Overview(("what", "number"), lines, tuple(notes), values, failed)

    def check(self, run: SuiteRun[MeasuredRow]) -> None:
        """Leave the checks to `score`, which reads the run with its questions."""

    def score(self, run: SuiteRun[MeasuredRow]) -> SignalsSummary:
        """Compute the numbers of the run, by its policy if there is one."""
        return SignalsSummary.read(run.folder)

    def report(self, summary: SignalsSummary) -> Document:
        """Write the report of the signals."""
        return signals_document(summary)

    def next_command(self, folder: Path) -> str:
        """Return the command that fits a policy on the run."""
        run = quote(str(folder))
        return f"knowgate calibrate --run {run} --risk 0.1 --delta 0.1 --out policy.json"


def _worker(
    given: Instruments | None,
    settings: MeasureSettings,
    cases: Sequence[MeasuredCase],
    fingerprint: Fingerprint,
) -> Instruments:
    """Return what measures in a worker process.

    Args:
        given: what measures; None to load the scorer that the settings name.
        settings: of the run.
        cases: all of them.
        fingerprint: that the scorer must have.

    Raises:
        InputError: the worker's scorer is another one.
    """
    found = given or Instruments.of(settings)
    if found.scorer.fingerprint != fingerprint:
        raise InputError(
            "the worker's scorer is not the one that the run was begun with",
            where="--calls engine=ray",
            hint="install the same weights and libraries on all machines",
        )
    found.settings, found.cases = settings, {one.case_id: one for one in cases}
    return found


MEASURE = MeasureSuite()


def _instruments(systems: Sequence[System]) -> Instruments:
    (system,) = systems
    assert isinstance(system, Instruments)
    return system


def _require_same_scores(folder: Path, instruments: Instruments) -> None:
    """Reject a run that was begun with a scorer of other scores.

    Raises:
        InputError: the scores of the probe differ from those in the manifest.
    """
    scorer, began_with = instruments.scorer, MeasuredManifest.read(folder).probed_scorer
    now = scorer.fingerprint.probed(scorer)
    if began_with is not None and (differences := began_with.differences(now)):
        raise InputError(
            f"the scorer is not the one that the run was begun with ({'; '.join(differences)})",
            where=str(folder),
            hint="choose another --out, or restore the libraries and the device of the run",
        )


def _question_rows(
    cases: Sequence[MeasuredCase],
    sources: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """Yield the questions, each once, with the passage that answers it, or else its source."""
    for one in {case.question_id: case for case in cases}.values():
        base, own, text = one.knowledge_base, one.passage_id, one.record.passage or ""
        if one.kind is CaseKind.UNANSWERABLE:
            text = ""
        elif base is None:
            own = sources.get(one.question_id, "")
        else:
            text = base.passages[own]
        row = {**asdict(one.record), "passage": text, "passage_id": own}
        if not one.record.made_by:
            # As in runs of before.
            del row["made_by"]
        if one.unit not in ("", own):
            row["unit"] = one.unit
        yield row
