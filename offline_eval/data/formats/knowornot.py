"""Read KnowOrNot's documents into a run of replies.

What a document must have to be of use (texts of questions and replies) is demanded, other fields
have defaults.

Source of the format: the public repository govtech-responsibleai/KnowOrNot, version 0.1.1.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    model_validator,
)

from ....guard.errors import InputError
from ....guard.files import AnyPath, read_json
from ....guard.read_models import check_model
from ...run import RowError
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyContext, ReplyRow, ReplySystem
from ..fields import Filled, NamedText, Text, without_nulls
from ..questions import QuestionRecord
from ._rows import KnownBase, OnWarning, ReplyRows, known_bases, plain, replayed


def _tags(value: Any) -> Any:
    """Tags with the list of their texts; a text alone is a list of one."""
    tags = value.items() if isinstance(value, dict) else ()
    return {tag: (texts,) if isinstance(texts, str) else texts for tag, texts in tags} or value


def _content(value: Any) -> Any:
    return value.get("content", "") if isinstance(value, dict) else value


# The text of a prompt, alone or with its name.
_PromptText = Annotated[Text, BeforeValidator(_content)]


class _Entry(BaseModel):
    """A question with its answer, as it stands in a context; there it may have no id."""

    question: Text
    answer: Text = ""
    identifier: NamedText = ""

    @property
    def key(self) -> str:
        """What tells questions of one knowledge base apart: synthetic ones may reuse ids."""
        return f"{self.identifier}\n{plain(self.question)}"


def _of_question(name: str, plainly: str = "") -> AliasChoices:
    # Alone in a question document, below what was asked in an experiment.
    return AliasChoices(AliasPath("source_context_qa", name), plainly or name)


class _Asked(_Entry):
    """A question of the knowledge base; what it may leave out, `model_fields_set` tells.

    Attributes:
        context: what stood in the prompt, None for nothing.
    """

    identifier: Filled = Field(validation_alias=_of_question("identifier"))
    question: Text = Field(validation_alias=_of_question("question"))
    answer: Text = Field("", validation_alias=_of_question("expected_answer", "answer"))
    context: tuple[_Entry, ...] | None = Field(
        None, validation_alias=_of_question("context_questions")
    )


class _Evaluation(BaseModel):
    """One criterion: how it was put, and to whom."""

    evaluation_name: Filled
    evaluator_model: Text = ""
    evaluation_prompt: _PromptText = ""


class _Verdict(BaseModel):
    """What one criterion came to for one reply; `NA` where it did not apply."""

    evaluation_name: Filled
    evaluation_outcome: Text = ""
    additional_tags_info: Annotated[dict[Text, tuple[Text, ...]], BeforeValidator(_tags)] = {}


def _of_reply(*path: str) -> AliasChoices:
    # An evaluated document wraps each reply once more.
    return AliasChoices(AliasPath("llm_response", *path), AliasPath(*path))


class _Reply(BaseModel):
    """A reply, what was asked, and in an evaluated document the verdicts.

    Attributes:
        citation: index of an entry of the context, or `no citation`.
    """

    asked: _Asked = Field(validation_alias=_of_reply("experiment_input"))
    response: Text = Field(validation_alias=_of_reply("llm_response", "response"))
    citation: int | Text | None = Field(
        None, validation_alias=_of_reply("llm_response", "citation")
    )
    evaluations: tuple[_Verdict, ...] = ()


class _Metadata(BaseModel, frozen=True):
    """How an experiment was made; the same in its input, output and evaluated document.

    Attributes:
        retrieval_type: DIRECT, LONG_IN_CONTEXT, BASIC_RAG, HYDE_RAG, or another tool's.
        creation_timestamp: tells experiments apart.
    """

    experiment_type: Literal["removal", "synthetic"] = "removal"
    prompt_name: Text = Field("", validation_alias=AliasPath("system_prompt", "identifier"))
    prompt: _PromptText = Field("", validation_alias="system_prompt")
    retrieval_type: Text = ""
    creation_timestamp: Text = ""
    client_enum: Text = ""
    ai_model_used: Text = ""
    knowledge_base_identifier: Text = ""

    @property
    def kind(self) -> CaseKind:
        synthetic = self.experiment_type == "synthetic"
        return CaseKind.SYNTHETIC if synthetic else CaseKind.LEFT_OUT

    def system(self) -> ReplySystem:
        """Who replied."""
        told = self.ai_model_used, self.retrieval_type, self.prompt_name
        return replayed(*told, prompt_sha256=_sha256(self.prompt))


class Document(BaseModel):
    """A knowledge base, what an experiment asks, or what was replied.

    Attributes:
        metadata: of the experiment; None of a knowledge base alone.
        questions: of the knowledge base, or that the experiment asks.
        responses: with the verdicts on them, in an evaluated document.
    """

    metadata: _Metadata | None = Field(
        None, validation_alias=AliasChoices("experiment_metadata", "metadata")
    )
    knowledge_base_identifier: Text = ""
    evaluation_metadata: tuple[_Evaluation, ...] = ()
    questions: tuple[_Asked, ...] = ()
    responses: tuple[_Reply, ...] = ()

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if not {"questions", "responses"} & self.model_fields_set:
            raise ValueError("no KnowOrNot document")
        if self.responses and self.metadata is None:
            raise ValueError("field 'metadata' is missing")
        return self

    @property
    def asked(self) -> Iterator[_Asked]:
        """All that was asked."""
        yield from self.questions
        yield from (reply.asked for reply in self.responses)


def read_document(path: AnyPath) -> Document:
    """Read one of KnowOrNot's documents: with questions, an experiment's input, or its output.

    Raises:
        InputError: the file cannot be read, is no such document, or a field that is
            needed is missing or of the wrong kind; names file and field.
    """
    hint = "name a question, input, output or evaluated document as KnowOrNot writes it"
    value = without_nulls(read_json(path), kept=("context_questions",))
    return check_model(Document, value, where=os.fspath(path), hint=hint)


_Asking = defaultdict[_Metadata, dict[str, _Asked]]


def import_knowornot(
    files: Sequence[AnyPath], out: AnyPath, *, on_warning: OnWarning | None = None
) -> Path:
    """Make a run of replies from KnowOrNot's documents.

    Input, output and evaluated document of one experiment become one system; its
    verdicts become judgements of judge `given`. Contexts become passages by reference.

    Args:
        files: question, input, output and evaluated documents, in any mix and order, of
            any number of experiments.
        out: run folder; done again with the same files, it changes nothing.
        on_warning: called with what was left out.

    Returns:
        The run folder.

    Raises:
        InputError: a document cannot be read, two contradict each other, none holds a
            reply, or the folder holds something else.
    """
    documents = [(os.fspath(path), read_document(path)) for path in files]
    if not any(document.responses for _, document in documents):
        where = documents[0][0] if documents else "knowornot"
        hint = "name an output or evaluated document too"
        raise InputError("these documents hold no reply", where=where, hint=hint)
    experiments = [(*one, one[1].metadata) for one in documents if one[1].metadata is not None]
    asking: _Asking = defaultdict(dict)
    for _, document, metadata in experiments:
        # Also of a document without questions: the first one fixes the order.
        known = asking[metadata]
        for asked in document.asked:
            # Of two files the one that says what the context was.
            if "context" not in known.setdefault(asked.key, asked).model_fields_set:
                known[asked.key] = asked
    rows, bases = ReplyRows(), _bases(_entries(documents, asking))
    replies: defaultdict[_Metadata, dict[str, ReplyRow]] = defaultdict(dict)
    first_judges: dict[tuple[_Metadata, str], _Evaluation] = {}
    for where, document, metadata in experiments:
        evaluators = {one.evaluation_name: one for one in document.evaluation_metadata}
        for reply in document.responses:
            base = bases[metadata.knowledge_base_identifier]
            asked = asking[metadata][reply.asked.key]
            row = _reply(rows, replies[metadata], where, metadata, base, asked, reply)
            for verdict in reply.evaluations:
                name = verdict.evaluation_name
                by = evaluators.get(name) or _Evaluation(evaluation_name=name)
                own = first_judges.setdefault((metadata, name), by) == by
                _judge(rows, where, row.reply_id, verdict, by, own=own)
    for where, _, metadata in experiments:
        if metadata not in replies:
            detail = "the experiment has no output document; its questions are kept"
            rows.warn(where, detail)
    return rows.write(
        out,
        settings={"source": "knowornot"},
        questions=[question for base in bases.values() for question in base.questions.values()],
        bases=bases.values(),
        files=files,
        on_warning=on_warning,
    )


def _entries(
    documents: Iterable[tuple[str, Document]], asking: _Asking
) -> Iterator[tuple[str, _Entry]]:
    """All questions that stand anywhere, with the name of their knowledge base."""
    for _, document in documents:
        if document.metadata is None:
            yield from ((document.knowledge_base_identifier, one) for one in document.questions)
    for metadata, found in asking.items():
        yield from ((metadata.knowledge_base_identifier, one) for one in found.values())
    # After those: a context never decides the order of what was asked.
    for metadata, found in asking.items():
        pairs = (pair for asked in found.values() for pair in asked.context or ())
        named = (pair for pair in pairs if pair.identifier and pair.question)
        yield from ((metadata.knowledge_base_identifier, pair) for pair in named)


def _bases(entries: Iterable[tuple[str, _Entry]]) -> dict[str, KnownBase]:
    """The knowledge bases by name, with their questions by key.

    Where one id has two texts, the second gets a number.
    """
    found: dict[str, dict[str, QuestionRecord]] = {}
    for name, entry in entries:
        records, known = found.setdefault(name, {}), found[name].get(entry.key)
        if known is None or not known.answer:
            records[entry.key] = QuestionRecord(entry.identifier, entry.question, entry.answer)
    for records in found.values():
        taken, seen = {record.question_id for record in records.values()}, set[str]()
        for key, record in records.items():
            own = record.question_id
            numbered = (f"{own}~{number}" for number in count(2))
            if own in seen:
                free = next(one for one in numbered if one not in taken)
                taken.add(free)
                records[key] = replace(record, question_id=free)
            seen.add(own)
    return known_bases(found)


def _reply(
    rows: ReplyRows,
    known: dict[str, ReplyRow],
    where: str,
    metadata: _Metadata,
    base: KnownBase,
    asked: _Asked,
    reply: _Reply,
) -> ReplyRow:
    """Add the reply of an experiment to a question, which stands in several of its files."""
    if asked.key not in known:
        context = ReplyContext(kind="none" if "context" in asked.model_fields_set else "unknown")
        if asked.context is not None:
            context = base.context(tuple(_passage(base, pair) for pair in asked.context))
        known[asked.key] = rows.reply(
            where,
            metadata.system(),
            base.questions[asked.key],
            metadata.kind,
            context=context,
            response=reply.response,
            citation=None if reply.citation is None else str(reply.citation),
        )
    if known[asked.key].response != reply.response:
        name = reply.asked.identifier[:60]
        what = f"two different replies of one experiment to question {name!r}"
        hint = "import the files into different folders"
        raise InputError(what, where=where, hint=hint)
    return known[asked.key]


def _passage(base: KnownBase, pair: _Entry) -> str:
    """The passage of a pair: that of its id if the text is the same, else of its text."""
    text = f"{pair.question}\n{pair.answer}" if pair.question else pair.answer
    known = base.questions.get(pair.key)
    own = known.own_passage if known is not None else ""
    if own in base.passages and base.passages[own].text == text:
        return own
    return base.passage_id(text)


def _judge(
    rows: ReplyRows, where: str, reply_id: str, verdict: _Verdict, by: _Evaluation, *, own: bool
) -> None:
    """Add a verdict: of the judge `given`, or where another gave the first, of `given:MODEL`."""
    name, outcome = verdict.evaluation_name, verdict.evaluation_outcome.strip()
    if name == Judgement.ABSTENTION and outcome.casefold() in ("yes", "no"):
        outcome = outcome.casefold()
    rows.judgement(
        where,
        reply_id,
        name,
        Judgement.GIVEN if own else f"{Judgement.GIVEN}:{by.evaluator_model}",
        outcome=outcome or None,
        reasoning=_reasoning(verdict.additional_tags_info),
        judge_sha256=_sha256(by.evaluation_prompt),
        error=None if outcome else RowError(type="NoOutcome", detail="logged without one"),
    )


def _reasoning(tags: Mapping[str, Sequence[str]]) -> str:
    """A judge's further tags as its reasoning; several of them keep their names."""
    if list(tags) == ["reasoning"] and len(tags["reasoning"]) == 1:
        return tags["reasoning"][0]
    return "\n".join(f"<{tag}>{text}</{tag}>" for tag, texts in tags.items() for text in texts)


def _sha256(text: str) -> str:
    """Hash of a text; empty for none."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""
