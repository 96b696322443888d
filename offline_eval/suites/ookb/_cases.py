"""Knowledge bases that are asked about, their cases, and whether what is left out is gone."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ....guard.errors import InputError
from ....guard.files import read_json, write_text
from ....guard.read_models import read_models
from ....guard.text import clean_text
from ...data.diversity.uniqueness import words_of
from ...data.questions import KnowledgeBase, PassageKind, QuestionRecord
from ...run import Question
from ...run.manifest import InputFile
from ...run.questions import CaseKind, MeasuredRow
from ...run.replies import StoredPassage
from ...systems.plan import Case


class AskedBase:
    """One knowledge base.

    Args:
        name: unique in the run.
        path: of its file.
        read: what the file holds.
        kind: what stands in a passage.
        limit: of questions that are asked.
        taken: ids that stand in other files as well: they get the name in front, so that every id
            says one thing in the run.

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
        kind: PassageKind,
        limit: int | None,
        taken: Collection[str] = (),
    ) -> None:
        self.name, self.file = name, InputFile.of(path)
        self.records = tuple(
            replace(one, question_id=f"{name}/{own}") if (own := one.question_id) in taken else one
            for one in read
        )
        self.asked = self.records[:limit]
        self.knowledge_base = base = KnowledgeBase.of(self.records, kind, where=os.fspath(path))
        sources = {record.question_id: record.source for record in self.records}
        self.questions: dict[str, Question] = {}
        for given, record in zip(read, self.records, strict=True):
            passage_id = base.passage_of[record.question_id]
            fields = {of: getattr(record, of) for of in ("question", "answer", "source", "topic")}
            self.questions[given.question_id] = Question(
                question_id=record.question_id,
                passage=base.passages[passage_id],
                passage_id=passage_id,
                knowledge_base=name,
                **fields,
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
        InputError: a file that cannot be used, or two bases of one name.
    """
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
    taken = {name for name, times in count.items() if times > 1}
    return tuple(
        AskedBase(name, path, records, kind, limit, taken)
        for name, path, records in zip(names, paths, found, strict=True)
    )


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
class MeasuredCase(Case):
    """A case, with the question that it was made of.

    Attributes:
        record: the question.
        knowledge_base: that is searched; None where a chain has its own.
        left_out: ids of the passages in it that a left-out case lacks.
        unit: what it is evidence about, where that is more than its passage.
    """

    record: QuestionRecord
    knowledge_base: KnowledgeBase | None = None
    left_out: frozenset[str] = frozenset()
    unit: str = ""

    @classmethod
    def of(
        cls, record: QuestionRecord, kind: CaseKind, base: KnowledgeBase | None = None
    ) -> MeasuredCase:
        """Make a case of a question, whose passage is in the knowledge base if that has any."""
        passage = "" if base is None else base.passage_of.get(record.question_id, "")
        case = question_case(record, kind, passage)
        return cls(**asdict(case), record=record, knowledge_base=base)

    def row(self, **measured: Any) -> MeasuredRow:
        """Make the row of the case; what is not measured is empty."""
        known: dict[str, Any] = {"retrieved": (), "scores": (), "raw_relevance": None}
        named = {name: getattr(self, name) for name in ("case_id", "question_id", "kind")}
        return MeasuredRow(**named, **{"retrieval_miss": False, "error": None, **known, **measured})


LEFT_OUT_FILE = "left_out_check.jsonl"

# Shorter answers stand in a text by chance.
_FEWEST_WORDS = 4


class AnswerElsewhere(BaseModel):
    """A passage that holds the whole answer of a question whose own passage is left out."""

    model_config = ConfigDict(frozen=True)

    question_id: str
    passage_id: str


def left_out_check(
    questions: Sequence[QuestionRecord], knowledge_base: KnowledgeBase
) -> list[AnswerElsewhere]:
    """Find passages besides the question's own that contain its whole answer word for word.

    A left-out case whose answer stands elsewhere is none: a system that answers it is right.
    Answers of fewer than four words are not looked for, nor what is said in other words.
    """
    words = {name: words_of(text) for name, text in knowledge_base.passages.items()}
    plain = {name: f" {' '.join(found)} " for name, found in words.items()}
    holders: dict[str, list[str]] = defaultdict(list)
    for name, of_passage in words.items():
        for word in dict.fromkeys(of_passage):
            holders[word].append(name)
    found: list[AnswerElsewhere] = []
    for record in questions:
        own, answer = knowledge_base.passage_of[record.question_id], words_of(record.answer)
        if len(answer) < _FEWEST_WORDS:
            continue
        # Passages in which the whole answer stands have its rarest word.
        rarest = min((holders.get(word, []) for word in answer), key=len)
        found += [
            AnswerElsewhere(question_id=record.question_id, passage_id=name)
            for name in rarest
            if name != own and f" {' '.join(answer)} " in plain[name]
        ]
    return found


def note_left_out_check(
    folder: Path, bases: Sequence[AskedBase], left_out: Collection[str]
) -> None:
    """Write which other passages may answer a question whose own was taken out.

    Nothing is written where the file is there already, or where nothing was taken out of a known
    knowledge base.

    Args:
        folder: of the run.
        bases: that were asked about.
        left_out: ids of the questions whose passage was taken out.
    """
    path = folder / LEFT_OUT_FILE
    asked = [
        ([record for record in base.asked if record.question_id in left_out], base)
        for base in bases
    ]
    if path.exists() or not any(records for records, _ in asked):
        return
    found = [one for some, base in asked for one in left_out_check(some, base.knowledge_base)]
    write_text(
        path, "".join(json.dumps(row.model_dump(), ensure_ascii=False) + "\n" for row in found)
    )


def read_left_out_check(folder: Path) -> tuple[AnswerElsewhere, ...] | None:
    """Read what the check found, in the order of the file; None where it was not made.

    Raises:
        InputError: a line of the file is broken; names file and line.
    """
    path = folder / LEFT_OUT_FILE
    if not path.exists():
        return None
    hint = "remove the file, or make the check again"
    return tuple(one for _, one in read_models(path, AnswerElsewhere, hint=hint, links=False))
