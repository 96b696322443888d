"""Question files as knowledge bases with ids that say one thing in a whole run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...guard.errors import InputError
from ...guard.files import read_json
from ...guard.text import clean_text
from ..run import Question
from ..run.manifest import InputFile
from ..run.replies import StoredPassage
from .questions import KnowledgeBase, PassageKind, QuestionRecord


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
        passages = (base.passage_of[record.question_id] for record in self.records)
        self.questions = {
            given.question_id: question_of(name, record, passage, base.passages[passage])
            for given, record, passage in zip(read, self.records, passages, strict=True)
        }
        self.passages = {
            one: StoredPassage(passage_id=one, text=text, knowledge_base=name, source=sources[one])
            for one, text in base.passages.items()
        }


def question_of(base: str, record: QuestionRecord, passage_id: str, passage: str) -> Question:
    """Return a question of a knowledge base as a run stores it.

    Args:
        base: its name.
        record: with an id that is unique in the run.
        passage_id: of what answers it, unique in the run.
        passage: the text of that; empty where nobody gave it.
    """
    return Question(
        question_id=record.question_id,
        question=record.question,
        answer=record.answer,
        source=record.source,
        topic=record.topic,
        passage=passage,
        passage_id=passage_id,
        knowledge_base=base,
    )


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
