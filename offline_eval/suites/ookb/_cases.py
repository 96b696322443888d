"""Knowledge bases that are asked about, one per question file, and their cases."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class AskedBase:
    """One knowledge base.

    Attributes:
        name: unique in the run.
        records: all its questions, with ids that are unique in the run.
        asked: those of them that are put to the systems.
        questions: all of them by the id in the file, as the run stores them.
        passages: all of them by id, as the run stores them.
        knowledge_base: the same passages, and which of them answers what.
        file: that it was read from.
    """

    name: str
    records: tuple[QuestionRecord, ...]
    asked: tuple[QuestionRecord, ...]
    questions: Mapping[str, Question]
    passages: Mapping[str, StoredPassage]
    knowledge_base: KnowledgeBase
    file: InputFile


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
        renamed = tuple(replace(r, question_id=ids[r.question_id]) for r in records)
        base = KnowledgeBase.of(renamed, kind, where=os.fspath(path))
        questions = zip(ids, renamed, strict=True)
        bases.append(
            AskedBase(
                name=name,
                records=renamed,
                asked=renamed[:limit],
                questions={own: _question(record, base, name) for own, record in questions},
                passages=_passages(renamed, base, name),
                knowledge_base=base,
                file=InputFile.of(path),
            )
        )
    return tuple(bases)


def _question(record: QuestionRecord, base: KnowledgeBase, name: str) -> Question:
    passage_id = base.passage_of[record.question_id]
    return Question(
        question_id=record.question_id,
        question=record.question,
        answer=record.answer,
        passage=base.passages[passage_id],
        passage_id=passage_id,
        source=record.source,
        knowledge_base=name,
        topic=record.topic,
    )


def _passages(
    records: Sequence[QuestionRecord], base: KnowledgeBase, name: str
) -> dict[str, StoredPassage]:
    sources = {record.question_id: record.source for record in records}
    return {
        one: StoredPassage(passage_id=one, text=text, knowledge_base=name, source=sources[one])
        for one, text in base.passages.items()
    }


def _name(path: Path) -> str:
    if path.suffix.lower() == ".json":
        try:
            document = read_json(path)
        except InputError:
            document = None  # JSON lines by another name; reading the questions says what is wrong
        named = document.get("knowledge_base_identifier") if isinstance(document, dict) else None
        if isinstance(named, str) and clean_text(named).strip():
            return clean_text(named).strip()
    return path.stem


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


def cases_of(
    base: AskedBase, kinds: Sequence[CaseKind], synthetic: Sequence[Question] = ()
) -> list[Case]:
    """The cases of one knowledge base, question by question; synthetic questions last."""
    kept = [kind for kind in kinds if kind is not CaseKind.SYNTHETIC]
    made_up = synthetic if CaseKind.SYNTHETIC in kinds else ()
    return [
        *build_cases(base.asked, base.knowledge_base, kept),
        *(question_case(one, CaseKind.SYNTHETIC) for one in made_up),
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
