"""Knowledge bases that are asked about, their cases, and whether what is left out is gone."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, FiniteFloat

from ....guard.errors import DeviceError, InputError, MissingDependencyError, ModelFolderError
from ....guard.files import read_json, write_text
from ....guard.read_models import read_models
from ....guard.text import clean_text
from ...data.diversity.uniqueness import numbers_of, words_of
from ...data.questions import KnowledgeBase, PassageKind, QuestionRecord
from ...run import Question
from ...run.manifest import InputFile
from ...run.questions import CaseKind
from ...run.replies import StoredPassage
from ...systems.plan import Case
from ...systems.retrieval import PassageIndex


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


LEFT_OUT_FILE = "left_out_check.jsonl"

# Shorter answers stand in a text by chance; it must be about the question besides.
_SHORT_WORDS = 4
_ABOUT = 0.4
# Passages compared with each, and the least cosine of one that states the same.
_NEIGHBOURS, _SAME_FACT = 10, 0.85


class AnswerElsewhere(BaseModel):
    """A passage that probably answers a question although the question's own is left out.

    Attributes:
        question_id: of the left-out question.
        passage_id: of the other passage.
        similarity: cosine of the question's own passage with the other one, in [-1, 1]; None
            where it was not measured.
        how: `contains_answer`, the whole answer stands there; `same_fact`, much the same
            is said with the same numbers.
    """

    model_config = ConfigDict(frozen=True)

    question_id: str
    passage_id: str
    similarity: FiniteFloat | None = None
    how: str = ""


def left_out_check(
    questions: Sequence[QuestionRecord],
    knowledge_base: KnowledgeBase,
    index: PassageIndex,
) -> list[AnswerElsewhere]:
    """Passages that probably hold an answer besides the question's own passage.

    A left-out case whose answer stands elsewhere is none: a system that answers it is
    right. Reported is a passage that contains the whole answer word for word (an answer of
    fewer than four words only in a passage that is about the question: their cosine is at
    least 0.4), and one of the nearest passages whose cosine with the question's own is at
    least 0.85 and that has all numbers of the answer. It finds restatements, not
    what follows from several passages together; and it also reports facts that are the
    same but for a name, since an embedding hardly tells them apart.

    Args:
        questions: of the knowledge base.
        knowledge_base: that they are asked against.
        index: its embedded passages.

    Returns:
        In the order of the questions; per question `contains_answer` first, then by falling
        similarity. A passage stands there once per question. Memory grows with the
        passages, not with their pairs.
    """
    near = index.neighbours(_NEIGHBOURS)
    texts = knowledge_base.passages
    words = {name: words_of(text) for name, text in texts.items()}
    numbers = {name: numbers_of(text) for name, text in texts.items()}
    plain = {name: f" {' '.join(found)} " for name, found in words.items()}
    holders: dict[str, list[str]] = defaultdict(list)
    for name, of_passage in words.items():
        for word in dict.fromkeys(of_passage):
            holders[word].append(name)
    found: list[AnswerElsewhere] = []
    for record in questions:
        own, answer = knowledge_base.passage_of[record.question_id], words_of(record.answer)
        # Passages in which the whole answer stands have its rarest word.
        rarest = min((holders.get(word, []) for word in answer), key=len, default=[])
        wanted = f" {' '.join(answer)} "
        holding = [name for name in rarest if name != own and wanted in plain[name]]
        if holding and len(answer) < _SHORT_WORDS:
            vector = index.encoder.embed([record.question])[0]
            holding = [one for one in holding if float(vector @ index.vector(one)) >= _ABOUT]
        said = [("contains_answer", index.cosine(own, name), name) for name in holding]
        close = [one for one in near[own] if one[1] >= _SAME_FACT and one[0] not in holding]
        asked = numbers_of(record.answer)
        said += [("same_fact", cosine, name) for name, cosine in close if asked <= numbers[name]]
        for how, cosine, name in sorted(said, key=lambda one: (one[0], -one[1])):
            row = {"question_id": record.question_id, "passage_id": name, "how": how}
            found.append(AnswerElsewhere(**row, similarity=cosine))
    return found


def note_left_out_check(
    folder: Path,
    bases: Sequence[AskedBase],
    left_out: Collection[str],
    index: Callable[[str], PassageIndex],
) -> None:
    """Write which other passages may answer a question whose own was taken out.

    Nothing is written where the file is there already, where nothing was taken out of a
    known knowledge base, or where the encoder is not there: the run can do without.

    Args:
        folder: of the run.
        bases: that were asked about.
        left_out: ids of the questions whose passage was taken out.
        index: makes the embedded passages of a base, by its name.
    """
    path = folder / LEFT_OUT_FILE
    asked = {
        base.name: [record for record in base.asked if record.question_id in left_out]
        for base in bases
    }
    if path.exists() or not any(asked.values()):
        return
    found: list[AnswerElsewhere] = []
    try:
        for base in bases:
            if asked[base.name]:
                found += left_out_check(asked[base.name], base.knowledge_base, index(base.name))
    except (DeviceError, MissingDependencyError, ModelFolderError):
        return
    lines = (json.dumps(row.model_dump(), ensure_ascii=False) + "\n" for row in found)
    write_text(path, "".join(lines))


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
