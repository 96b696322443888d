"""Measure the relevance of what is retrieved for each question, to calibrate on."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import Field

from ....guard import Guard, GuardOptions
from ....guard.contracts import RelevanceScorer
from ....guard.engine import BiEncoderScorer
from ....guard.errors import KnowgateError, SignalError, SignalValueError
from ....guard.files import read_text, write_text
from ....guard.policy import Policy
from ....guard.policy import aggregator as require_aggregator
from ....guard.signals.relevance import DEFAULT_SCORER, default_aggregator, load_scorer
from ...data import (
    Encoder,
    KnowledgeBase,
    PassageKind,
    QuestionRecord,
    build_knowledge_base,
    read_questions,
)
from ...report import Document
from ...run import (
    TWINS,
    CaseKind,
    InputFile,
    MeasuredManifest,
    MeasuredRow,
    MeasuredRun,
    RowError,
    TableSpec,
    read_measured_run,
)
from ...systems import Case, PassageIndex
from ..base import ModelChoice, Suite, SuiteRun, SuiteSettings, System, Work
from ._cases import build_cases
from ._signals_report import signals_document


class MeasureSettings(SuiteSettings):
    """What decides the rows of a run.

    Attributes:
        questions: see `read_questions`.
        scorer: name or folder, for `load_scorer`.
        passage: what a passage holds.
        top_k: passages retrieved per case.
        aggregator: how passage scores become one value; None for the scorer's own.
    """

    questions: Path = Field(
        description="KnowOrNot question document (.json), or JSON lines (.jsonl)."
    )
    scorer: str = Field(
        DEFAULT_SCORER,
        description="Scorer by name, or a tuned or sentence-transformers folder.",
    )
    passage: PassageKind = Field(
        PassageKind.ANSWER,
        description="What a passage holds: the answer (hard), question and answer, or the "
        "record's own passage",
    )
    top_k: int = Field(5, ge=1, description="Passages retrieved per case.")
    aggregator: str | None = Field(
        None,
        description="Passage scores to one value; by default the scorer's: joint for fused and "
        "sufficiency, max for others.",
    )


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """A case, with the question that it was made of and the knowledge base that is searched."""

    case: Case
    record: QuestionRecord
    knowledge_base: KnowledgeBase

    @property
    def case_id(self) -> str:
        """Identify the case in the run."""
        return self.case.case_id


class Instruments(System):
    """What measures: a scorer of relevance, and the encoder of the retriever.

    Args:
        scorer: called through the guard itself.
        encoder: of questions and passages.
    """

    def __init__(self, scorer: RelevanceScorer, encoder: Encoder) -> None:
        super().__init__("ookb")
        self.scorer, self.encoder = scorer, encoder
        self._index: PassageIndex | None = None

    def aggregator(self, settings: MeasureSettings) -> str:
        """Return the aggregator, by default the one that the scorer goes with."""
        return settings.aggregator or default_aggregator(self.scorer.fingerprint.kind)

    def index(self, knowledge_base: KnowledgeBase) -> PassageIndex:
        """Return the embedded passages; they are embedded once."""
        if self._index is None:
            self._index = PassageIndex(knowledge_base, self.encoder)
        return self._index

    @cached_property
    def measuring(self) -> Guard:
        """The guard that measures: the same that serves, but failures become rows."""
        policy = Policy(
            scorer=self.scorer.fingerprint,
            aggregator=self.aggregator(self.settings),
            relevance_threshold=1.0,
        )
        # No deadline: how busy the machine is must not decide which cases count as failed.
        options = GuardOptions(mode="shadow", on_error="raise", deadlines={"relevance": None})
        return Guard(policy, scorer=self.scorer, options=options, metrics=False)


class MeasureSuite(Suite[MeasureSettings, MeasuredCase, MeasuredRow, MeasuredRun]):
    """Measure signals to calibrate on: what the guard would see, with the answer and without.

    Each question is asked with its passage in the knowledge base, and with that passage left
    out. Stored is the relevance of what basic RAG retrieves (top-k by embedding; the query is
    the question alone). A run that is killed continues when the same command is started again.

    Example: `knowgate measure --questions kb.jsonl --scorer bi_encoder --out run`
    """

    name = "ookb"
    settings, row, key = MeasureSettings, MeasuredRow, "case_id"
    manifest_model = MeasuredManifest
    takes_model = False
    command = "knowgate measure"
    # Each row is on disk before the next case is measured.
    batch_size = 1

    @property
    def rows(self) -> TableSpec[MeasuredRow]:
        """The table of rows; ids and texts may hold what JSON cannot."""
        return replace(super().rows, clean=True)

    def cases(self, settings: MeasureSettings) -> list[MeasuredCase]:
        """Read the questions: two cases of each."""
        if settings.aggregator is not None:
            require_aggregator(settings.aggregator)
        records = read_questions(settings.questions)
        base = build_knowledge_base(records, settings.passage, where=os.fspath(settings.questions))
        by_id = {record.question_id: record for record in records}
        return [
            MeasuredCase(case, by_id[case.question_id], base) for case in build_cases(records, base)
        ]

    def limited(self, cases: Sequence[MeasuredCase], limit: int | None) -> Sequence[MeasuredCase]:
        """Return the cases of the first questions; the knowledge base stays whole."""
        return cases if limit is None else cases[: limit * len(TWINS)]

    def row_id(self, case: MeasuredCase, system: str) -> str:
        """Return the id of the case: one system measures."""
        del system
        return case.case_id

    def load(self, settings: MeasureSettings, choice: ModelChoice) -> Sequence[System]:
        """Load the scorer, and the encoder where the scorer is none itself."""
        del choice
        scorer = load_scorer(settings.scorer)
        encoder = scorer if isinstance(scorer, BiEncoderScorer) else BiEncoderScorer()
        return (Instruments(scorer, encoder),)

    def manifest(
        self,
        settings: MeasureSettings,
        cases: Sequence[MeasuredCase],
        systems: Sequence[System],
    ) -> MeasuredManifest:
        """Name scorer and retriever by their fingerprints."""
        (instruments,) = systems
        assert isinstance(instruments, Instruments)
        return MeasuredManifest.new(
            suite=self.name,
            settings={
                "scorer": instruments.scorer.fingerprint,
                "aggregator": instruments.aggregator(settings),
                "retriever": instruments.encoder.fingerprint,
                "retrieval": "basic_rag",
                "top_k": settings.top_k,
                "passage": settings.passage.value,
            },
            inputs=(InputFile.of(settings.questions),),
            questions=len({case.case.question_id for case in cases}),
            cases=len(cases),
        )

    def prepare(self, work: Work[MeasureSettings, MeasuredCase]) -> None:
        """Store the questions, or again where they were lost."""
        path, text = work.run.folder / "questions.jsonl", _question_lines(work.cases)
        if not path.exists() or read_text(path) != text:
            write_text(path, text)

    def answer(self, cases: Sequence[MeasuredCase], system: System) -> list[MeasuredRow]:
        """Retrieve, and measure the relevance of what was found."""
        assert isinstance(system, Instruments)
        return [_measured(case, system) for case in cases]

    def failed(self, case: MeasuredCase, system: System, error: Exception) -> MeasuredRow:
        """Make the row of a case that could not be measured."""
        del system
        return _row(case.case, error=RowError.of(error))

    def finish(self, work: Work[MeasureSettings, MeasuredCase]) -> None:
        """Put rows that were measured again in the order of the cases."""
        work.run[self.rows].sort([case.case_id for case in work.cases])

    def check(self, run: SuiteRun[MeasuredRow]) -> None:
        """Leave the checks to `score`, which reads the run with its questions."""

    def score(self, run: SuiteRun[MeasuredRow]) -> MeasuredRun:
        """Read the run with its questions and its policy, if there is one."""
        return read_measured_run(run.folder, unfinished=True)

    def report(self, summary: MeasuredRun) -> Document:
        """Write the report of the signals."""
        return signals_document(summary)

    def next_command(self, folder: Path) -> str:
        """Return the command that fits a policy on the run."""
        run = quote(str(folder))
        return f"knowgate calibrate --run {run} --risk 0.1 --delta 0.1 --out policy.json"


MEASURE = MeasureSuite()


def _question_lines(cases: Sequence[MeasuredCase]) -> str:
    """Return the questions as JSON lines, each once, with the passage that answers it."""
    passages = {one.case.question_id: one.case.passage_id for one in cases}
    records = {one.case.question_id: one.record for one in cases}
    texts = cases[0].knowledge_base.passages
    lines = []
    for name, record in records.items():
        passage = {"passage": texts[passages[name]], "passage_id": passages[name]}
        lines.append(json.dumps({**asdict(record), **passage}, ensure_ascii=False) + "\n")
    return "".join(lines)


def _measured(asked: MeasuredCase, system: Instruments) -> MeasuredRow:
    """Measure one case; a failure keeps what was known before it."""
    case, passages = asked.case, asked.knowledge_base.passages
    fields: dict[str, Any] = {}
    try:
        index = system.index(asked.knowledge_base)
        found = fields["retrieved"] = _retrieved(index, case, system.settings.top_k)
        missed = case.kind is CaseKind.IN_KB and case.passage_id not in found
        fields["retrieval_miss"] = missed
        decision = system.measuring.decide(case.question, [passages[name] for name in found])
        fields["scores"] = decision.scores
        if decision.raw_relevance is None:
            raise SignalValueError("relevance", "the aggregate of the scores is not finite")
        fields["raw_relevance"] = decision.raw_relevance
    except KnowgateError as error:
        fields["error"] = RowError.of(error)
    return _row(case, **fields)


def _row(case: Case, **measured: Any) -> MeasuredRow:
    fields: dict[str, Any] = {
        "case_id": case.case_id,
        "question_id": case.question_id,
        "kind": case.kind,
        "retrieved": (),
        "scores": (),
        "raw_relevance": None,
        "retrieval_miss": False,
        "error": None,
    }
    return MeasuredRow(**{**fields, **measured})


def _retrieved(index: PassageIndex, case: Case, top_k: int) -> list[str]:
    try:
        return index.nearest_for(case, index.encoder.embed([case.question])[0], top_k)
    except Exception as error:
        # One bad question is a row, not the end of the run. The message of a foreign error
        # may quote the question: only its type is kept.
        raise SignalError("retrieval", f"raised {type(error).__name__}") from error
