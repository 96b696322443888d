"""Read KnowOrNot's documents into a run of replies.

What a document must have to be of use (texts of questions and replies) is demanded, other fields
have defaults.

Source of the format: the public repository govtech-responsibleai/KnowOrNot, version 0.1.1.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from ....guard.errors import InputError
from ....guard.files import read_json
from ....guard.read_models import check_model
from ...run import RowError
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyContext, ReplyRow, ReplySystem
from ..fields import Identifier, NamedText, Text
from ..questions import QuestionRecord
from ._rows import RETRIEVALS, KnownBase, OnWarning, ReplyRows, plain, shared_ids

# What tells questions of one knowledge base apart: synthetic ones may reuse ids.
QuestionKey = tuple[str, str]


def _or_empty(value: Any) -> Any:
    return () if value is None else value


def _or_blank(value: Any) -> Any:
    return "" if value is None else value


def _tags(value: Any) -> Any:
    """Tags with the list of their texts; a text alone is a list of one."""
    if not isinstance(value, dict):
        return {} if value is None else value
    return {
        name: (texts,) if isinstance(texts, str) else _or_empty(texts)
        for name, texts in value.items()
    }


OptionalText = Annotated[Text, BeforeValidator(_or_blank)]


def _prompt(name: str) -> Any:
    """The text of a prompt, alone or with its name."""
    return Field("", validation_alias=AliasChoices(AliasPath(name, "content"), name))


class _Entry(BaseModel):
    """A question with its answer; in a context it may have no id."""

    question: Text
    answer: OptionalText = ""
    identifier: NamedText = ""

    @property
    def key(self) -> QuestionKey:
        return self.identifier, plain(self.question)


class _Numbered(_Entry):
    identifier: Identifier


def _of_question(name: str) -> AliasPath:
    return AliasPath("source_context_qa", name)


class _Asked(_Entry):
    """A question that was put to a model; what it may leave out, `model_fields_set` tells.

    Attributes:
        context: what stood in the prompt, None for nothing.
    """

    identifier: Identifier = Field(validation_alias=_of_question("identifier"))
    question: Text = Field(validation_alias=_of_question("question"))
    answer: OptionalText = Field("", validation_alias=_of_question("expected_answer"))
    context: tuple[_Entry, ...] | None = Field(
        None, validation_alias=_of_question("context_questions")
    )


class _Verdict(BaseModel):
    """What one criterion came to for one reply; `NA` where it did not apply."""

    evaluation_name: Identifier
    evaluation_outcome: OptionalText = ""
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
    evaluations: Annotated[tuple[_Verdict, ...], BeforeValidator(_or_empty)] = ()


class _Metadata(BaseModel):
    """How an experiment was made; the same in its input, output and evaluated document.

    Attributes:
        retrieval_type: DIRECT, LONG_IN_CONTEXT, BASIC_RAG, HYDE_RAG, or another tool's.
        creation_timestamp: tells experiments apart.
    """

    model_config = ConfigDict(frozen=True)

    experiment_type: Literal["removal", "synthetic"] = "removal"
    prompt_name: OptionalText = Field("", validation_alias=AliasPath("system_prompt", "identifier"))
    prompt: OptionalText = _prompt("system_prompt")
    retrieval_type: OptionalText = ""
    creation_timestamp: OptionalText = ""
    client_enum: OptionalText = ""
    ai_model_used: OptionalText = ""
    knowledge_base_identifier: OptionalText = ""

    @property
    def kind(self) -> CaseKind:
        synthetic = self.experiment_type == "synthetic"
        return CaseKind.SYNTHETIC if synthetic else CaseKind.LEFT_OUT


class _Evaluation(BaseModel):
    """Who judged by one criterion, and how it was put."""

    evaluation_name: Identifier
    evaluator_model: OptionalText = ""
    evaluation_prompt: OptionalText = _prompt("evaluation_prompt")


class QuestionDocument(BaseModel):
    """A knowledge base as questions with answers."""

    knowledge_base_identifier: OptionalText = ""
    questions: tuple[_Numbered, ...]


class InputDocument(BaseModel):
    """What an experiment asks."""

    metadata: _Metadata
    questions: tuple[_Asked, ...]


class ReplyDocument(BaseModel):
    """What was replied, and in an evaluated document what judges said of it."""

    metadata: _Metadata = Field(validation_alias=AliasChoices("experiment_metadata", "metadata"))
    evaluation_metadata: Annotated[tuple[_Evaluation, ...], BeforeValidator(_or_empty)] = ()
    responses: tuple[_Reply, ...]


Document = QuestionDocument | InputDocument | ReplyDocument


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read one of KnowOrNot's documents; which one it is, its fields tell.

    Raises:
        InputError: the file cannot be read, is no such document, or a field that is
            needed is missing or of the wrong kind; names file and field.
    """
    value, where = read_json(path), os.fspath(path)
    kind: type[Document] | None = None
    if isinstance(value, dict) and "responses" in value:
        kind = ReplyDocument
    elif isinstance(value, dict) and "questions" in value:
        kind = InputDocument if "metadata" in value else QuestionDocument
    if kind is None:
        hint = "name a question, input, output or evaluated document that KnowOrNot wrote"
        raise InputError("no KnowOrNot document", where=where, hint=hint)
    return check_model(
        kind, value, where=where, hint="fix the field; KnowOrNot writes it otherwise"
    )


@dataclass(slots=True)
class _Experiment:
    """Input, output and evaluations that belong together.

    Attributes:
        where: the first file of it.
        metadata: of that file.
        asked: what was asked.
        replies: likewise.
        documents: with replies, and the file of each.
    """

    where: str
    metadata: _Metadata
    asked: dict[QuestionKey, _Asked] = field(default_factory=dict)
    replies: dict[QuestionKey, _Reply] = field(default_factory=dict)
    documents: list[tuple[str, ReplyDocument]] = field(default_factory=list)

    def ask(self, asked: _Asked) -> None:
        """Keep what was asked; of two files the one that says what the context was."""
        known = self.asked.get(asked.key)
        if known is None or "context" not in known.model_fields_set:
            self.asked[asked.key] = asked

    def add(self, document: ReplyDocument, where: str) -> None:
        """Keep replies and verdicts."""
        self.documents.append((where, document))
        for reply in document.responses:
            self.ask(reply.asked)
            key = reply.asked.key
            if self.replies.setdefault(key, reply).response != reply.response:
                what = f"two different replies of one experiment to question {key[0][:60]!r}"
                hint = "import the files of different runs of an experiment into different folders"
                raise InputError(what, where=where, hint=hint)


def import_knowornot(
    files: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    on_warning: OnWarning | None = None,
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
    found: dict[_Metadata, _Experiment] = {}
    documents: list[QuestionDocument] = []
    for path in files:
        where, document = os.fspath(path), read_document(path)
        if isinstance(document, QuestionDocument):
            documents.append(document)
            continue
        metadata = document.metadata
        experiment = found.setdefault(metadata, _Experiment(where, metadata))
        if isinstance(document, ReplyDocument):
            experiment.add(document, where)
        else:
            for asked in document.questions:
                experiment.ask(asked)
    experiments = list(found.values())
    if not any(experiment.replies for experiment in experiments):
        what = "these documents hold no reply"
        hint = "name an output or evaluated document too"
        raise InputError(what, where=os.fspath(files[0]) if files else "knowornot", hint=hint)
    importing = _Import(*_bases(_entries(experiments, documents)))
    for experiment in experiments:
        if experiment.replies:
            importing.add(experiment)
        else:
            detail = "the experiment has no output document; its questions are kept"
            importing.rows.warn(experiment.where, experiment.where, detail)
    bases = importing.bases.values()
    return importing.rows.write(
        out,
        settings={"source": "knowornot"},
        questions=[question for base in bases for question in base.questions.values()],
        bases=bases,
        files=files,
        on_warning=on_warning,
    )


def _entries(
    experiments: Sequence[_Experiment], documents: Iterable[QuestionDocument]
) -> Iterator[tuple[str, _Entry]]:
    """All questions that stand anywhere, with the name of their knowledge base."""
    for document in documents:
        for entry in document.questions:
            yield document.knowledge_base_identifier, entry
    for experiment in experiments:
        for asked in experiment.asked.values():
            yield experiment.metadata.knowledge_base_identifier, asked
    # After those: a context never decides the order of what was asked.
    for experiment in experiments:
        for asked in experiment.asked.values():
            for pair in asked.context or ():
                if pair.identifier and pair.question:
                    yield experiment.metadata.knowledge_base_identifier, pair


_Ids = Mapping[tuple[str, QuestionKey], str]


def _bases(entries: Iterable[tuple[str, _Entry]]) -> tuple[dict[str, KnownBase], _Ids]:
    """The knowledge bases by name, and the ids of their questions there."""
    found: dict[str, dict[QuestionKey, QuestionRecord]] = {}
    for name, entry in entries:
        records, known = found.setdefault(name, {}), found[name].get(entry.key)
        if known is None or not known.answer:
            records[entry.key] = QuestionRecord(entry.identifier, entry.question, entry.answer)
    ids = {(name, key): one for name, rows in found.items() for key, one in _local_ids(rows)}
    local = {
        name: {ids[name, key]: record for key, record in rows.items()}
        for name, rows in found.items()
    }
    shared = shared_ids(local.values())
    return {name: KnownBase.of_records(name, rows, shared) for name, rows in local.items()}, ids


def _local_ids(keys: Iterable[QuestionKey]) -> Iterator[tuple[QuestionKey, str]]:
    """An id for each question: where one has two texts, the second gets a number."""
    wanted = list(keys)
    taken = {identifier for identifier, _ in wanted}
    first: set[str] = set()
    for key in wanted:
        name, number = key[0], 1
        while name in taken and key[0] in first:
            number += 1
            name = f"{key[0]}~{number}"
        taken.add(name)
        first.add(key[0])
        yield key, name


@dataclass(slots=True)
class _Import:
    bases: dict[str, KnownBase]
    ids: _Ids
    rows: ReplyRows = field(default_factory=ReplyRows)
    _done: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, experiment: _Experiment) -> None:
        """Add the rows of an experiment."""
        metadata, replies = experiment.metadata, dict[QuestionKey, ReplyRow]()
        system_id = self._system(metadata)
        base = self.bases[metadata.knowledge_base_identifier]
        for key, reply in experiment.replies.items():
            question = base.questions[self.ids[base.name, key]]
            asked, context = experiment.asked[key], ReplyContext()
            if asked.context is not None:
                context = base.context(tuple(self._passage(base, one) for one in asked.context))
            elif "context" in asked.model_fields_set:
                context = ReplyContext(kind="none")
            replies[key] = self.rows.reply(
                system_id,
                self.rows.case(question.question_id, metadata.kind, base.name),
                context=context,
                response=reply.response,
                citation=None if reply.citation is None else str(reply.citation),
            )
        self._judge(experiment.documents, replies)

    def _system(self, metadata: _Metadata) -> str:
        """The id of an experiment's system; repeated, or with another prompt, it is another one."""
        retrieval = RETRIEVALS.get(metadata.retrieval_type.lower(), metadata.retrieval_type)
        told = [metadata.ai_model_used or "unknown", retrieval, metadata.prompt_name]
        plain_id = "·".join(filter(None, told))
        system = ReplySystem(
            system_id=plain_id,
            model=metadata.ai_model_used,
            prompt=metadata.prompt_name,
            prompt_sha256=_sha256(metadata.prompt),
            retrieval=retrieval,
            replayed=True,
        )
        number = 1
        while True:
            asked = system.system_id, metadata.knowledge_base_identifier, metadata.experiment_type
            if asked not in self._done and self.rows.systems.get(asked[0], system) == system:
                self._done.add(asked)
                self.rows.systems[asked[0]] = system
                return asked[0]
            number += 1
            system = system.model_copy(update={"system_id": f"{plain_id}·{number}"})

    def _passage(self, base: KnownBase, pair: _Entry) -> str:
        """The passage of a pair: that of its id if the text is the same, else of its text."""
        text = f"{pair.question}\n{pair.answer}" if pair.question else pair.answer
        local = self.ids.get((base.name, pair.key))
        own = base.questions[local].own_passage if local is not None else ""
        if own in base.passages and base.passages[own].text == text:
            return own
        return base.passage_id(text)

    def _judge(
        self,
        documents: Iterable[tuple[str, ReplyDocument]],
        replies: Mapping[QuestionKey, ReplyRow],
    ) -> None:
        """Add the verdicts.

        The first evaluator of a criterion is judge `given`; a second one, with another model
        or prompt, is `given:<model>`.
        """
        judges: dict[_Evaluator, str] = {}
        for where, document in documents:
            evaluators = {one.evaluation_name: one for one in document.evaluation_metadata}
            for reply in document.responses:
                for verdict in reply.evaluations:
                    name = verdict.evaluation_name
                    by = evaluators.get(name) or _Evaluation(evaluation_name=name)
                    judge = _judge(judges, (name, by.evaluator_model, by.evaluation_prompt))
                    prompt = _sha256(by.evaluation_prompt)
                    self._verdict(replies[reply.asked.key].reply_id, verdict, judge, prompt, where)

    def _verdict(
        self, reply_id: str, verdict: _Verdict, judge: str, prompt: str, where: str
    ) -> None:
        criterion, outcome = verdict.evaluation_name, verdict.evaluation_outcome.strip()
        if criterion == Judgement.ABSTENTION and outcome.casefold() in ("yes", "no"):
            outcome = outcome.casefold()
        kept = self.rows.judgement(
            reply_id,
            criterion,
            judge,
            outcome=outcome or None,
            reasoning=_reasoning(verdict.additional_tags_info),
            judge_sha256=prompt,
            error=None if outcome else RowError(type="NoOutcome", detail="logged without one"),
        )
        if kept.outcome != (outcome or None):
            what = f"two verdicts of one judge on {criterion[:60]!r} contradict each other"
            hint = "import evaluations of one output by one judge into different folders"
            raise InputError(what, where=where, hint=hint)


_Evaluator = tuple[str, str, str]


def _judge(known: dict[_Evaluator, str], evaluator: _Evaluator) -> str:
    """The name of an evaluator among those of its criterion, to which it is added."""
    criterion, model, _ = evaluator
    taken = {name for (other, _, _), name in known.items() if other == criterion}
    name, number = Judgement.GIVEN, 1
    while evaluator not in known and name in taken:
        name = f"{Judgement.GIVEN}:{model}" + (f"·{number}" if number > 1 else "")
        number += 1
    return known.setdefault(evaluator, name)


def _reasoning(tags: Mapping[str, Sequence[str]]) -> str:
    """A judge's further tags as its reasoning; several of them keep their names."""
    if list(tags) == ["reasoning"] and len(tags["reasoning"]) == 1:
        return tags["reasoning"][0]
    return "\n".join(f"<{tag}>{text}</{tag}>" for tag, texts in tags.items() for text in texts)


def _sha256(text: str) -> str:
    """Hash of a text; empty for none."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""
