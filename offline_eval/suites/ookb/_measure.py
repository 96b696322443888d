"""Running the out-of-knowledge-base suite into a run folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ....guard import Guard, GuardOptions
from ....guard.contracts import RelevanceScorer
from ....guard.errors import InputError, KnowgateError, SignalError, SignalValueError
from ....guard.files import read_text, write_text
from ....guard.policy import Policy
from ...data import (
    Encoder,
    KnowledgeBase,
    PassageKind,
    QuestionRecord,
    build_knowledge_base,
    read_questions,
)
from ...run import CaseKind, InputFile, Manifest, MeasuredRow, OnStep, Run, TableSpec
from ...systems import Case, PassageIndex
from ._cases import build_cases

_ROWS = TableSpec("rows", MeasuredRow, "case_id")


@dataclass(frozen=True, slots=True)
class OokbSettings:
    """What decides the rows of a run, and goes into its manifest.

    Attributes:
        passage: what stands in a passage.
        top_k: passages retrieved per case, at least 1.
        aggregator: how passage scores become one value.

    Raises:
        InputError: `top_k` is below 1.
    """

    passage: PassageKind = PassageKind.ANSWER
    top_k: int = 5
    aggregator: str = "max"

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise InputError(f"top_k must be at least 1, not {self.top_k}")


def run_ookb(
    questions_path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    scorer: RelevanceScorer,
    encoder: Encoder,
    settings: OokbSettings,
    on_progress: OnStep | None = None,
) -> Path:
    """Measure every question with its passage in the knowledge base, and left out.

    Interrupted at any point and called again with the same arguments, it continues
    after the last whole row and the rows come out byte for byte the same.

    Args:
        questions_path: see `read_questions`.
        out: the run folder.
        scorer: what judges relevance, called through the guard itself.
        encoder: of the retriever; the run goes on only with the same one.
        settings: passages, retrieval, aggregation.
        on_progress: called with (cases done, cases in all).

    Returns:
        The run folder.

    Raises:
        InputError: the questions or the folder cannot be used.
    """
    questions = read_questions(questions_path)
    knowledge_base = build_knowledge_base(
        questions, settings.passage, where=os.fspath(questions_path)
    )
    cases = build_cases(questions, knowledge_base)
    guard = _measuring_guard(scorer, settings.aggregator)
    manifest = _manifest(
        Path(questions_path), scorer, encoder, settings, len(questions), len(cases)
    )
    with Run.create_or_resume(out, manifest) as run:
        # Also of a run that an older version began: it may lack fields that are read now.
        _write_questions(Path(out) / "questions.jsonl", questions, knowledge_base)
        table = run[_ROWS]
        table.require_order([case.case_id for case in cases])
        if len(table.done) < len(cases):
            index = PassageIndex(knowledge_base, encoder)
            for case in cases[len(table.done) :]:
                table.append(_row(case, guard, index, knowledge_base, settings))
                if on_progress is not None:
                    on_progress(len(table.done), len(cases))
    return Path(out)


def _measuring_guard(scorer: RelevanceScorer, aggregate: str) -> Guard:
    # The guard that serves also measures; failures must surface here as rows.
    policy = Policy(scorer=scorer.fingerprint, aggregator=aggregate, relevance_threshold=1.0)
    # No deadline: how busy the machine is must not decide which cases count as failed.
    return Guard(
        policy,
        scorer=scorer,
        options=GuardOptions(mode="shadow", on_error="raise", deadlines={"relevance": None}),
        metrics=False,
    )


def _row(
    case: Case,
    guard: Guard,
    index: PassageIndex,
    knowledge_base: KnowledgeBase,
    settings: OokbSettings,
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "case_id": case.case_id,
        "question_id": case.question_id,
        "kind": case.kind.value,
        "retrieved": [],
        "scores": [],
        "raw_relevance": None,
        "retrieval_miss": False,
        "error": None,
    }
    left_out = case.kind is CaseKind.LEFT_OUT
    try:
        found = _retrieved(index, case, settings.top_k)
        row["retrieved"] = found
        row["retrieval_miss"] = not left_out and case.passage_id not in found
        decision = guard.decide(case.question, [knowledge_base.passages[i] for i in found])
        row["scores"] = list(decision.scores)
        if decision.raw_relevance is None:
            raise SignalValueError("relevance", "the aggregate of the scores is not finite")
        row["raw_relevance"] = decision.raw_relevance
    except KnowgateError as error:
        row["error"] = {"type": type(error).__name__, "detail": str(error)}
    return row


def _retrieved(index: PassageIndex, case: Case, top_k: int) -> list[str]:
    try:
        return index.nearest_for(case, index.encoder.embed([case.question])[0], top_k)
    except Exception as error:
        # One bad question is a row, not the end of the run. The message of a foreign error
        # may quote the question: only its type is kept.
        raise SignalError("retrieval", f"raised {type(error).__name__}") from error


def _manifest(
    questions_path: Path,
    scorer: RelevanceScorer,
    encoder: Encoder,
    settings: OokbSettings,
    questions: int,
    cases: int,
) -> Manifest:
    return Manifest.new(
        suite="ookb",
        settings={
            "scorer": scorer.fingerprint.model_dump(),
            "aggregator": settings.aggregator,
            "retriever": encoder.fingerprint.model_dump(),
            "retrieval": "basic_rag",
            "top_k": settings.top_k,
            "passage": settings.passage.value,
        },
        inputs=(InputFile.of(questions_path),),
        questions=questions,
        cases=cases,
    )


def _write_questions(
    path: Path, questions: Sequence[QuestionRecord], knowledge_base: KnowledgeBase
) -> None:
    lines = []
    for record in questions:
        passage_id = knowledge_base.passage_of[record.question_id]
        fields = asdict(record)
        fields["passage"] = knowledge_base.passages[passage_id]
        fields["passage_id"] = passage_id
        lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    text = "".join(lines)
    if not path.exists() or read_text(path) != text:
        write_text(path, text)
