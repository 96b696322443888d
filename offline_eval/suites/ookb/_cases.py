"""Knowledge bases that are asked about, one per question file, and their cases."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ....guard.errors import InputError
from ....guard.files import read_json
from ....guard.text import clean_text
from ...data.questions import KnowledgeBase, PassageKind, QuestionRecord
from ...run import Question
from ...run.manifest import InputFile
from ...run.questions import CaseKind
from ...run.replies import StoredPassage
from ...systems.plan import Case


class AskedBase:
    """One knowledge base.

    Args:
        name: unique in the run.
        path: of its file.
        read: what the file holds.
        ids: in the run, by those in the file.
        kind: what stands in a passage.
        limit: of questions that are asked.

    Attributes:
        records: all its questions, with ids that are unique in the run.
        asked: those of them that are put to the systems.
        questions: all of them by the id in the file, as the run stores them.
        passages: all of them by id, as the run stores them.
        knowledge_base: the same passages, and which of them answers what.
        file: that it was read from.
    """

    def __init__(
        self,
        name: str,
        path: str | os.PathLike[str],
        read: Sequence[QuestionRecord],
        ids: Mapping[str, str],
        kind: PassageKind,
        limit: int | None,
    ) -> None:
        self.name, self.file = name, InputFile.of(path)
        self.records = tuple(replace(one, question_id=ids[one.question_id]) for one in read)
        self.asked = self.records[:limit]
        self.knowledge_base = base = KnowledgeBase.of(self.records, kind, where=os.fspath(path))
        self.questions: dict[str, Question] = {}
        sources: dict[str, str | None] = {}
        for own, record in zip(ids, self.records, strict=True):
            sources[record.question_id] = record.source
            passage_id = base.passage_of[record.question_id]
            self.questions[own] = Question(
                question_id=record.question_id,
                question=record.question,
                answer=record.answer,
                passage=base.passages[passage_id],
                passage_id=passage_id,
                source=record.source,
                knowledge_base=name,
                topic=record.topic,
            )
        self.passages = {
            one: StoredPassage(passage_id=one, text=text, knowledge_base=name, source=sources[one])
            for one, text in base.passages.items()
        }


def read_bases(
    paths: Sequence[str | os.PathLike[str]],
    passage: PassageKind | None = None,
    *,
    limit: int | None = None,
) -> tuple[AskedBase, ...]:
    """The knowledge bases of several question files.

    A base is called what the document's `knowledge_base_identifier` says, else what
    the file is called. Ids that stand in more than one file get the base's name in
    front, so that every id says one thing in the run.

    Args:
        paths: see `QuestionRecord.read`.
        passage: what stands in a passage; None for the default, over all files together.
        limit: ask at most so many questions per base, the first ones; its passages stay
            whole.

    Raises:
        InputError: no file, a file that cannot be used, or two bases of one name.
    """
    if not paths:
        raise InputError("none is named", where="--questions", hint="name a file of questions")
    names = [_name(Path(path)) for path in paths]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise InputError(
                f"two knowledge bases are called {name!r}",
                where=os.fspath(paths[at]),
                hint="rename the file, or its field 'knowledge_base_identifier'",
            )
    found = [QuestionRecord.read(path) for path in paths]
    kind = passage or PassageKind.of(record for records in found for record in records)
    count = Counter(record.question_id for records in found for record in records)
    bases = []
    for name, path, records in zip(names, paths, found, strict=True):
        clashing = {r.question_id for r in records if count[r.question_id] > 1}
        ids = {
            r.question_id: f"{name}/{r.question_id}" if r.question_id in clashing else r.question_id
            for r in records
        }
        bases.append(AskedBase(name, path, records, ids, kind, limit))
    return tuple(bases)


def _name(path: Path) -> str:
    named = None
    # JSON lines by another name: reading the questions says what is wrong.
    with suppress(InputError):
        document = read_json(path) if path.suffix.lower() == ".json" else None
        named = document.get("knowledge_base_identifier") if isinstance(document, dict) else None
    return (clean_text(named).strip() if isinstance(named, str) else "") or path.stem


def build_cases(
    questions: Sequence[QuestionRecord],
    knowledge_base: KnowledgeBase,
    kinds: Sequence[CaseKind] = CaseKind.twins(),
) -> list[Case]:
    """One case per question and kind, in the order of the questions.

    Source: leave-one-out construction of KnowOrNot, with the in-KB twin added so
    that false abstention can be measured on the same questions.
    """
    return [
        question_case(record, kind, knowledge_base.passage_of[record.question_id])
        for record in questions
        for kind in kinds
    ]


def question_case(record: QuestionRecord | Question, kind: CaseKind, passage_id: str = "") -> Case:
    """Make a case of a question; without a passage nothing of the knowledge base answers it."""
    return Case(
        case_id=f"{record.question_id}/{kind.value}",
        question_id=record.question_id,
        kind=kind,
        question=record.question,
        passage_id=passage_id,
    )


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """A case, with the question that it was made of.

    Attributes:
        case: to be measured.
        record: the question.
        knowledge_base: that is searched; None where a chain has its own.
        left_out: ids of the passages in it that a left-out case lacks.
        unit: what it is evidence about, where that is more than its passage.
    """

    case: Case
    record: QuestionRecord
    knowledge_base: KnowledgeBase | None
    left_out: frozenset[str] = frozenset()
    unit: str = ""

    @property
    def case_id(self) -> str:
        """Identify the case in the run."""
        return self.case.case_id
