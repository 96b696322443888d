"""Read logs of replies, whatever tool wrote them, as rows of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, model_validator

from ....guard.errors import InputError
from ....guard.files import AnyPath, read_jsonl
from ....guard.read_models import check_model
from ....guard.text import clean_text
from ...run import Question, RowError
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyContext, ReplySystem
from ..bases import AskedBase
from ..fields import ID_FIELDS, Filled, NamedText, Text, without_nulls
from ..questions import QuestionRecord
from ._rows import RETRIEVALS, KnownBase, ReplyRows, known_bases, plain, replayed

_NEEDED = 'each line needs "response", and "id" or "question"'
# Longest first, so that HYDE_RAG is not HYDE with a prompt named RAG_….
_NAMED = re.compile(
    r"(?:(?P<knowledge_base>.+?)_)??"
    rf"(?P<retrieval>{'|'.join(sorted(RETRIEVALS, key=len, reverse=True))})"
    r"(?:_(?P<prompt>.+))?",
    re.IGNORECASE | re.DOTALL,
)
_RUNS_FOLDER = re.compile(r"(?P<model>.+)[_-]runs", re.DOTALL)
# Fields of which null says something: no call succeeded, nothing was given to read.
_NULL_TELLS = frozenset({"response", "reply", "output", "context_ids", "contexts", "context"})
_ID_NAMES = AliasChoices(*ID_FIELDS)


def _spelled(value: Any) -> Any:
    """A label in the spelling of runs."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    found = value.strip().casefold() if isinstance(value, str) else value
    return "NA" if found == "na" else found


def _retrieval(value: Any) -> Any:
    return RETRIEVALS.get(value.lower(), value) if isinstance(value, str) else value


def _passages(value: Any) -> Any:
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    return () if value is None else value


def _ids(value: Any) -> Any:
    if isinstance(value, list):
        return [{"id": item} for item in value]
    return () if value is None else value


class LoggedPassage(BaseModel):
    """One entry of a logged context: an id, a text, or both.

    Attributes:
        passage_id: as the log names it; None where it holds the text alone.
        text: None where the log names it only. Texts in a list of contexts may turn out
            to be ids of questions that are known.
    """

    passage_id: Filled | None = Field(None, validation_alias=_ID_NAMES)
    text: Text | None = Field(
        None, validation_alias=AliasChoices("text", "page_content", "passage", "content")
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text_or_id(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"text": value}
        return without_nulls(value) if isinstance(value, dict) else {"id": value}

    @model_validator(mode="after")
    def _has_either(self) -> LoggedPassage:
        if self.passage_id is None and self.text is None:
            raise ValueError("must be a text, an id, or an object with either")
        return self


_Context = tuple[LoggedPassage, ...] | None
_Label = BeforeValidator(_spelled)
_Count = Annotated[int, Field(strict=True, ge=0)]


class LoggedReply(BaseModel):
    """One line of a log; all but the response and the question is optional.

    Attributes:
        where: file and line.
        question_id: None where the log gives the question alone.
        question: None where the log gives the id alone.
        expected_answer: as the log has it.
        context_ids: what the model was given to read, by id; null for nothing.
        contexts: likewise, ids or texts.
        response: as the log has it.
        error: why there is none.
        citation: what the reply names as its source.
        abstained: by whoever judged the log, None unjudged.
        factuality: likewise.
        kind: what the knowledge base held of the answer, None where the log does not say.
        model: of the line, of the file, or of its folder.
        retrieval: likewise; empty where unknown.
        prompt: likewise; empty where unknown.
        knowledge_base: likewise; empty where unknown.
        input_tokens: None where not logged.
        output_tokens: likewise.
    """

    where: str
    question_id: Filled | None = Field(None, validation_alias=_ID_NAMES)
    question: Text | None = Field(None, validation_alias=AliasChoices("question", "query"))
    expected_answer: Text = Field("", validation_alias=AliasChoices("expected_answer", "answer"))
    context_ids: Annotated[_Context, BeforeValidator(_ids)] = None
    contexts: Annotated[_Context, BeforeValidator(_passages)] = Field(
        None, validation_alias=AliasChoices("contexts", "context")
    )
    response: Text | None = Field(
        None, validation_alias=AliasChoices("response", "reply", "output")
    )
    error: Any = None
    citation: NamedText | None = None
    abstained: Annotated[Literal["yes", "no"] | None, _Label] = Field(
        None, validation_alias=AliasChoices("abstained", "abstention")
    )
    factuality: Annotated[Literal["tier_1", "tier_2", "tier_3", "NA"] | None, _Label] = None
    kind: Annotated[CaseKind | None, _Label] = None
    model: Text = "replay"
    retrieval: Annotated[Text, BeforeValidator(_retrieval)] = ""
    prompt: Text = ""
    knowledge_base: Text = ""
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None

    @model_validator(mode="after")
    def _is_a_reply(self) -> LoggedReply:
        if self.question_id is None and not (self.question or "").strip():
            raise ValueError("the line names no question")
        if not {"response", "error"} & self.model_fields_set:
            raise ValueError("field 'response' is missing")
        if self.kind is CaseKind.LIVE:
            raise ValueError("field 'kind': a logged reply is not live")
        return self

    @property
    def context(self) -> tuple[LoggedPassage, ...] | None:
        """What the model was given to read; () for nothing, None where the log does not say."""
        found = self.contexts if self.context_ids is None else self.context_ids
        return () if found is None and self.retrieval == "direct" else found

    @property
    def failure(self) -> str | None:
        """Why there is no reply; None where there is one."""
        if self.error not in (None, False, ""):
            told = isinstance(self.error, str)
            return clean_text(self.error) if told else "the logged call failed"
        return "the log holds no reply" if self.response is None else None

    def system(self) -> ReplySystem:
        """Who replied."""
        file = Path(self.where.rpartition(":")[0]).stem
        return replayed(self.model, self.retrieval, self.prompt, file=file)


def read_replay_log(path: AnyPath) -> list[LoggedReply]:
    """Read a log of replies, one JSON object per line.

    A line needs `response` (or `reply`, `output`) and one of `id` (`question_id`,
    `identifier`) and `question` (`query`). All else is optional: `expected_answer`
    (`answer`), `context_ids` (null for none) or `contexts` (ids or texts), `citation`,
    the labels `abstained` (yes, no) and `factuality` (tier_1, tier_2, tier_3, NA),
    `kind` (left_out, in_kb, synthetic), `model`, `retrieval`, `prompt`,
    `knowledge_base`, `input_tokens`, `output_tokens`. A response of null, or a field
    `error`, is a call that failed.

    Args:
        path: named `domain_retrieval_prompt.jsonl` it says what its lines need not;
            retrievals are BASIC_RAG, HYDE_RAG, LONG_IN_CONTEXT and DIRECT, or the
            names used here. A folder `<model>_runs` names the model.

    Returns:
        At least one reply, in the order of the file.

    Raises:
        InputError: no such file, a broken line, a field of the wrong kind, or no line at
            all; names file and line.
    """
    file = Path(path)
    by_name: dict[str, Any] = {}
    for pattern, text in (
        (_NAMED, file.name.removesuffix(file.suffix)),
        (_RUNS_FOLDER, file.absolute().parent.name),
    ):
        if named := pattern.fullmatch(text):
            by_name |= without_nulls(named.groupdict())
    replies = []
    for line, row in read_jsonl(path):
        where = f"{os.fspath(path)}:{line}"
        fields = {**by_name, **without_nulls(row, _NULL_TELLS), "where": where}
        replies.append(check_model(LoggedReply, fields, where=where, hint=_NEEDED))
    if not replies:
        raise InputError("the log is empty", where=os.fspath(path), hint=_NEEDED)
    return replies


def read_logs(
    paths: Sequence[AnyPath], bases: Iterable[AskedBase] = ()
) -> tuple[ReplyRows, list[KnownBase]]:
    """Read logs of replies, and match them with the questions that they answer.

    Texts that contexts hold are added to the bases. Replies to unknown questions are left out
    with a warning.

    Args:
        paths: of the logs, see `read_replay_log`; without any there are no rows.
        bases: that the questions are from. Without any, the questions and expected answers in the
            logs are used.

    Returns:
        The rows: systems in the order of their first line, replies in that of the logs, labels as
        judgements of the judge `given`; and the knowledge bases.

    Raises:
        InputError: a log cannot be read, ids and texts belong to different questions, no question
            is known, a case is answered twice by one system, or a question that the log says
            was left out is in its own context.
    """
    replies = [reply for path in paths for reply in read_replay_log(path)]
    known = [KnownBase(one.name, one.questions, one.passages) for one in bases]
    if not known:
        known = _bases_of_logs(replies)
    rows = ReplyRows()
    for reply in replies:
        system, found = reply.system(), _match(reply, known)
        rows.systems.setdefault(system.system_id, system)
        if found is not None:
            _add(rows, reply, *found)
        else:
            detail = "the question documents do not hold this question; the reply is left out"
            rows.warn(reply.where, detail)
    if paths and not rows.replies:
        what = "no reply answers a question of the question documents"
        hint = "give the documents that the logged questions come from"
        raise InputError(what, where=os.fspath(paths[0]), hint=hint)
    return rows, known


def _bases_of_logs(replies: Iterable[LoggedReply]) -> list[KnownBase]:
    """Knowledge bases of the questions and expected answers that the logs hold themselves.

    A question without an id goes by its text.
    """
    found: dict[str, dict[str, QuestionRecord]] = {}
    ids: dict[tuple[str, str], str] = {}
    for reply in replies:
        records = found.setdefault(reply.knowledge_base, {})
        question, what = reply.question or "", ""
        text = reply.knowledge_base, plain(question)
        unused = (f"q{n}" for n in count(len(records) + 1) if f"q{n}" not in records)
        name = reply.question_id or ids.get(text) or next(unused)
        ids.setdefault(text, name)
        known = records.get(name)
        if not question.strip():
            what = "the line names its question by id alone"
        elif known is not None and plain(known.question) != text[1]:
            what = f"question {name[:60]!r} has another text than before"
        if what:
            hint = "give the question documents with --questions"
            raise InputError(what, where=reply.where, hint=hint)
        if known is None or not known.answer:
            records[name] = QuestionRecord(name, question, reply.expected_answer)
    return list(known_bases(found).values())


def _match(reply: LoggedReply, bases: Sequence[KnownBase]) -> tuple[KnownBase, Question] | None:
    """The question that was asked, and its base; None where nobody knows it.

    Raises:
        InputError: the id is that of another question.
    """
    name = reply.knowledge_base.casefold()
    named = [base for base in bases if base.name.casefold() == name] or bases
    found = [(base, base.questions.get(reply.question_id or "")) for base in named]
    same_id = [(base, known) for base, known in found if known is not None]
    for base, known in same_id:
        if reply.question is None or plain(reply.question) == plain(known.question):
            return base, known
    if same_id:
        what = f"{(reply.question_id or '')[:60]!r} is the id of one question, the text of another"
        hint = "give the question documents that the log was made from"
        raise InputError(what, where=reply.where, hint=hint)
    asked = ((base, base.asked(reply.question or "")) for base in named)
    return next(((base, known) for base, known in asked if known is not None), None)


def _add(rows: ReplyRows, reply: LoggedReply, base: KnownBase, question: Question) -> None:
    context, own = _context(rows, reply, base, question)
    if own and reply.kind in (CaseKind.LEFT_OUT, CaseKind.SYNTHETIC):
        what = f"question {question.question_id[:60]!r} was not left out of its own context"
        hint = "use logs made under leave-one-out, or give kind in_kb"
        raise InputError(what, where=reply.where, hint=hint)
    # Its own answer in its context is what in_kb means, whether or not the log says so.
    kind, failure = reply.kind or (CaseKind.IN_KB if own else CaseKind.LEFT_OUT), reply.failure
    row = rows.reply(
        reply.where,
        reply.system(),
        question,
        kind,
        context=context,
        response=None if failure else reply.response,
        error=RowError(type="LoggedFailure", detail=failure) if failure else None,
        **reply.model_dump(include={"citation", "input_tokens", "output_tokens"}),
    )
    labels = {Judgement.ABSTENTION: reply.abstained, Judgement.FACTUALITY: reply.factuality}
    for criterion, outcome in labels.items():
        if outcome is not None and row.response is not None:
            rows.judgement(reply.where, row.reply_id, criterion, Judgement.GIVEN, outcome=outcome)


def _context(
    rows: ReplyRows, reply: LoggedReply, base: KnownBase, question: Question
) -> tuple[ReplyContext, bool]:
    """The context by reference, and whether the question's own passage stands in it."""
    if not reply.context:
        return ReplyContext(kind="unknown" if reply.context is None else "none"), False
    names, own = [], False
    for entry in reply.context:
        named = base.questions.get(entry.passage_id or plain(entry.text or ""))
        if named is not None:
            name = named.own_passage
        elif entry.text is not None:
            name = base.passage_id(entry.text)
        else:
            name = entry.passage_id or ""
            if name not in base.passages:
                detail = f"the context names {name[:60]!r}, whose text nobody gave"
                rows.warn(reply.where, "unknown context", detail)
        # Another question with the same answer may share the passage: ids decide.
        own = own or (named is question if named else name == question.own_passage)
        names.append(name)
    return base.context(tuple(names)), own
