"""Read questions with answers, and say how much of their wording is their passages'."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from pydantic import AliasChoices, Field, RootModel

from ...guard.errors import InputError
from ...guard.files import AnyPath
from ...guard.read_models import check_model
from ...guard.text import clean_text
from .fields import ID_FIELDS, Numbered, Said, Text, read_questions
from .rules import Rules

_RULES = Rules(__file__, "questions")
# Mean over 225 questions on four documentations, written by hand as users put them, and the
# chunk of 150 words that answers each (`benchmarks/generated_questions.py`).
SHARED_BY_PEOPLE = 0.39


def shared_words(question: str, passage: str) -> float | None:
    """Share of a question's content words that its passage holds, whatever their endings.

    Questions of people share less than questions that were made from the passage, and less is
    harder: a scorer then has to tell that other words mean the same.

    Returns:
        From 0 to 1; None for a question of function words alone.

    Example:
        >>> shared_words("How long can I try it for free?", "Trials end after 21 days.")
        0.0
        >>> shared_words("How many days does a trial last?", "Trials end after 21 days.")
        0.5
    """
    asked, told = content_words(question), content_words(passage)
    return len(asked & told) / len(asked) if asked else None


def mean_shared_words(pairs: Iterable[tuple[str, str]]) -> float | None:
    """Mean of `shared_words` over questions with their passages; None without any."""
    found = [share for pair in pairs if (share := shared_words(*pair)) is not None]
    return sum(found) / len(found) if found else None


def content_words(text: str) -> set[str]:
    """Words that say what a text is about, without their endings."""
    words = _RULES.patterns["word"].findall(text.casefold())
    ending, aside = _RULES.patterns["ending"], _RULES.words["aside"]
    return {ending.sub("", word) for word in words if word not in aside}


# False abstention of policies from questions by rules, on three documentations: what they claimed,
# and what they did to questions as users put them (`benchmarks/generated_questions.py`).
_MEASURED = (
    ": on three documentations such policies claimed to abstain from 17 to 32 % of what they could "
    "answer, and abstained from 75 to 91 % of what users asked"
)


def note_on_makers(makers: Mapping[str, int], questions: int) -> str:
    """Say which share of the questions programs made, and what that means; empty for none.

    Args:
        makers: by `QuestionRecord.made_by`, how many questions; people's are left out.
        questions: in all.

    Example:
        >>> note_on_makers({"rules": 3}, 30)[:47]
        'Rules made 10 % of the questions behind this; p'
    """
    count = sum(makers.values())
    if not count:
        return ""
    kinds = sorted({name.partition(":")[0] for name in makers}, reverse=True)
    who = " and ".join("a model" if kind == "model" else kind for kind in kinds)
    share = "all" if count >= questions else f"{min(99, round(100 * count / questions))} %"
    text = f"{who} made {share} of the questions behind this; people's are usually harder"
    if "rules" in kinds:
        text += _MEASURED
    return f"{text[0].upper()}{text[1:]}. A smoke test, no promise about people's questions."


_OWN_ID = "give every question an id of its own"
_HINT = 'each record needs "question" and "answer", and may have "id", "passage" and "source"'


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """One question with the answer that the knowledge base holds.

    Attributes:
        question_id: unique within its file.
        question: as a user would ask it.
        answer: as the knowledge base has it.
        passage: the text of the knowledge base that holds the answer, if given.
        source: where that text is from, if given.
        topic: what it is about, if given.
        made_by: empty for people, `rules`, or `model:NAME`. What programs make from a passage is
            easier than what people ask, so that a policy must know.
    """

    question_id: Annotated[Numbered, Field(validation_alias=AliasChoices(*ID_FIELDS))]
    question: Said
    answer: Said = ""
    passage: Said | None = None
    source: Said | None = None
    topic: Said | None = None
    made_by: Text = ""

    @classmethod
    def read(cls, path: AnyPath, *, need_answer: bool = True) -> list[QuestionRecord]:
        """Read questions from a KnowOrNot question document, a JSON list, JSON lines, or CSV.

        Args:
            path: one object per line (JSON lines), `.json` with a list of objects or a
                document whose field `questions` is such a list, or `.csv` or `.tsv` whose first
                line names the columns. The id may be called `id`, `question_id` or
                `identifier`; without one it is `q<n>`, with `'` after it as long as a record
                has that for its own.
            need_answer: False also takes records without "answer", which is then empty.

        Returns:
            At least two records, in the order of the file, with unique ids.

        Raises:
            InputError: missing or broken file, wrong field, duplicate id, fewer than
                two questions; the message names file and line.
        """
        records = _records(path, "q", need_answer=need_answer)
        if not records:
            raise InputError("the knowledge base is empty", where=os.fspath(path), hint=_HINT)
        if len(records) == 1:
            hint = "leaving one out needs at least two questions"
            raise InputError("there is one question only", where=os.fspath(path), hint=hint)
        return records

    @classmethod
    def read_unanswerable(
        cls, path: AnyPath, *, beside: Iterable[QuestionRecord] = ()
    ) -> list[QuestionRecord]:
        """Read questions that users ask and the documents do not answer.

        Args:
            path: as for `read`. Only "question" is needed; "id" may be given (`u<n>` without),
                and "topic", which questions on one subject share. Other fields are ignored.
            beside: questions that are asked in the same run; their ids are taken.

        Returns:
            At least one record, in the order of the file; answer, passage and source are empty.

        Raises:
            InputError: as `read`; or a question stands among those beside it, too.
        """
        hint = 'each record needs "question", and may have "id", "topic" and "note"'
        known = {record.question_id: record for record in beside}
        asked = {" ".join(record.question.split()).casefold() for record in known.values()}
        found = []
        for record in _records(path, "u", need_answer=False, hint=hint):
            if record.question_id in known:
                name = _short(record.question_id)
                what = f"the id {name!r} is that of an answerable question, too"
                raise InputError(what, where=os.fspath(path), hint=_OWN_ID)
            if " ".join(record.question.split()).casefold() in asked:
                name = _short(record.question)
                what = f"the question {name!r} is one of the answerable ones, too"
                hint = "a question is answered by the documents or not: remove one of both"
                raise InputError(what, where=os.fspath(path), hint=hint)
            found.append(replace(record, answer="", passage=None, source=None))
        if not found:
            raise InputError("holds no question", where=os.fspath(path), hint=hint)
        return found


# A question as it stands in a file.
_Line = RootModel[QuestionRecord]


def _records(
    path: AnyPath, prefix: str, *, need_answer: bool, hint: str = _HINT
) -> list[QuestionRecord]:
    """Read records with unique ids; one without an id gets `prefix` and its number."""
    records: list[QuestionRecord] = []
    seen: dict[str, str] = {}
    found = read_questions(path)
    taken = {clean_text(str(value.get(name))) for _, value in found for name in ID_FIELDS}
    for where, value in found:
        default_id = f"{prefix}{len(records) + 1}"
        while default_id in taken:
            default_id += "'"
        told = {name: one for name, one in value.items() if one is not None}
        given = {ID_FIELDS[-1]: default_id} | told
        record = check_model(_Line, given, where=where, hint=hint).root
        if need_answer and not record.answer:
            raise InputError("field 'answer' is missing", where=where, hint=hint)
        if record.question_id in seen:
            what = f"the id {_short(record.question_id)!r} was used before"
            what += f" ({seen[record.question_id]})"
            raise InputError(what, where=where, hint=_OWN_ID)
        seen[record.question_id] = where
        records.append(record)
    return records


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


class PassageKind(StrEnum):
    """The content of a passage.

    The answer; question and answer; the passage that the record names; or that passage below its
    source, where this is its title. A title of its own tells what a passage is about. One that
    many passages share, such as the name of a page of FAQs, makes them look alike.

    With the question inside, a passage is easy to tell apart (AUROC ≥ .97 where
    answers alone give .86).
    """

    ANSWER = "answer"
    QUESTION_ANSWER = "question_answer"
    PASSAGE = "passage"
    TITLED = "titled"

    @classmethod
    def of(cls, questions: Iterable[QuestionRecord]) -> PassageKind:
        """Return the default: the questions' own passages if all have one, else their answers."""
        return cls.PASSAGE if all(one.passage for one in questions) else cls.ANSWER


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """Distinct passages, and which of them holds each question's answer.

    Attributes:
        passages: passage id → text; the id is that of the first question whose
            passage it is.
        passage_of: question id → passage id.
        kind: what the passages hold.
    """

    passages: dict[str, str]
    passage_of: dict[str, str]
    kind: PassageKind = PassageKind.PASSAGE

    @classmethod
    def of(
        cls, questions: Sequence[QuestionRecord], kind: PassageKind | None, *, where: str
    ) -> KnowledgeBase:
        """Build the knowledge base that `questions` are asked against.

        Questions with the same text as passage share it (white space aside), so that
        leaving that passage out leaves it nowhere else word for word. With
        `question_answer`, two questions with one answer still have two passages.

        Args:
            questions: at least two.
            kind: what goes into a passage; None for the default, see `PassageKind.of`.
            where: named in errors.

        Raises:
            InputError: fewer than two distinct passages, or a record lacks its passage.
        """
        kind = kind or PassageKind.of(questions)
        first: dict[str, str] = {}
        passages: dict[str, str] = {}
        passage_of: dict[str, str] = {}
        for record in questions:
            text = _passage_text(record, kind, where)
            # Two titles do not make two passages of one text.
            plain = record.passage if kind is PassageKind.TITLED and record.passage else text
            key = " ".join(plain.split())
            passage_of[record.question_id] = first.setdefault(key, record.question_id)
            passages.setdefault(passage_of[record.question_id], text)
        if len(passages) < 2:
            hint = "leaving one out needs at least two different passages"
            raise InputError("all questions share one passage", where=where, hint=hint)
        return cls(passages, passage_of, kind)


def _passage_text(record: QuestionRecord, kind: PassageKind, where: str) -> str:
    if kind is PassageKind.ANSWER:
        return record.answer
    if kind is PassageKind.QUESTION_ANSWER:
        return f"{record.question}\n{record.answer}"
    if record.passage is None:
        what = f"question {record.question_id!r} has no field 'passage'"
        raise InputError(what, where=where, hint="add it, or use --passage answer")
    if kind is PassageKind.PASSAGE:
        return record.passage
    if not record.source:
        what = f"question {record.question_id!r} has no field 'source', its passage's title"
        raise InputError(what, where=where, hint="add it, or use --passage passage")
    return f"{record.source}\n{record.passage}"
