"""Read KnowOrNot's documents into a run of replies.

The models have the names of fields in its files. What a document must have to be of use (texts
of questions and replies) is demanded, other fields have defaults.

Source of the format: the public repository govtech-responsibleai/KnowOrNot, version 0.1.1.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ....guard.errors import InputError
from ....guard.files import read_json
from ....guard.read_models import check_model
from ...run import RowError
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyContext, ReplyRow, ReplySystem
from ..fields import Identifier, NamedText, Text
from ..questions import QuestionRecord
from ._rows import RETRIEVALS, KnownBase, OnWarning, ReplyRows, plain, shared_ids


def _prompt(value: Any) -> Any:
    return {"content": value} if isinstance(value, str) else value


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
Texts = Annotated[tuple[Text, ...], BeforeValidator(_or_empty)]


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class NamedPrompt(_Stored):
    """A prompt with its name; a text alone is one without a name."""

    identifier: OptionalText = ""
    content: OptionalText = ""


Prompt = Annotated[NamedPrompt, BeforeValidator(_prompt)]


class QuestionEntry(_Stored):
    """A question of the knowledge base with its answer.

    Attributes:
        identifier: empty where a context has no ids.
    """

    question: Text
    answer: OptionalText = ""
    identifier: NamedText = ""


class NumberedQuestion(QuestionEntry):
    """A question of a question document, where it must have an id."""

    identifier: Identifier


class AskedQuestion(_Stored):
    """A question that was put to a model.

    Attributes:
        expected_answer: empty for synthetic questions.
        context_questions: what stood in the prompt, None for nothing; a file may leave
            it out, which `model_fields_set` tells.
    """

    identifier: Identifier
    question: Text
    expected_answer: OptionalText = ""
    context_questions: tuple[QuestionEntry, ...] | None = None


class ExperimentQuestion(_Stored):
    """What a model was sent."""

    prompt_to_llm: OptionalText = ""
    source_context_qa: AskedQuestion


class ModelReply(_Stored):
    """What the model said.

    Attributes:
        citation: index of an entry of the context, or `no citation`.
    """

    response: Text
    citation: int | Text | None = None


class SavedReply(_Stored):
    """One reply with what was asked."""

    experiment_input: ExperimentQuestion
    llm_response: ModelReply


class ExperimentMetadata(_Stored):
    """How an experiment was made; the same in its input, output and evaluated document.

    Attributes:
        retrieval_type: DIRECT, LONG_IN_CONTEXT, BASIC_RAG, HYDE_RAG, or another tool's.
        creation_timestamp: ISO 8601, as it stands there; empty where unknown.
        client_enum: who sold the model.
    """

    experiment_type: Literal["removal", "synthetic"] = "removal"
    system_prompt: Prompt = NamedPrompt()
    input_path: OptionalText = ""
    output_path: OptionalText = ""
    retrieval_type: OptionalText = ""
    creation_timestamp: OptionalText = ""
    client_enum: OptionalText = ""
    ai_model_used: OptionalText = ""
    knowledge_base_identifier: OptionalText = ""


class EvaluationSpec(_Stored):
    """How replies were judged by one criterion."""

    evaluation_name: Identifier
    evaluator_client_enum: OptionalText = ""
    evaluator_model: OptionalText = ""
    evaluation_prompt: Prompt = NamedPrompt()
    tag_name: OptionalText = ""
    evaluation_outcomes_list: Texts = ()
    in_context: Texts = ()
    use_default_xml_prompting: bool = True
    additional_tags: Texts = ()


class Verdict(_Stored):
    """What one criterion came to for one reply.

    Attributes:
        evaluation_outcome: `NA` where a criterion did not apply.
        additional_tags_info: further tags of the judge's text, e.g. its reasoning.
    """

    evaluation_timestamp: OptionalText = ""
    evaluation_name: Identifier
    evaluation_outcome: OptionalText = ""
    additional_tags_info: Annotated[dict[Text, tuple[Text, ...]], BeforeValidator(_tags)] = {}


class EvaluatedReply(_Stored):
    """A reply with its verdicts; in an output document, without any."""

    llm_response: SavedReply
    evaluations: Annotated[tuple[Verdict, ...], BeforeValidator(_or_empty)] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_output(cls, value: Any) -> Any:
        bare = isinstance(value, dict) and "experiment_input" in value
        return {"llm_response": value} if bare else value


class QuestionDocument(_Stored):
    """A knowledge base as questions with answers."""

    knowledge_base_identifier: OptionalText = ""
    questions: tuple[NumberedQuestion, ...]


class InputDocument(_Stored):
    """What an experiment asks."""

    metadata: ExperimentMetadata
    questions: tuple[ExperimentQuestion, ...]


class ReplyDocument(_Stored):
    """What was replied, and in an evaluated document what judges said of it."""

    path_to_store: OptionalText = ""
    metadata: ExperimentMetadata = Field(
        validation_alias=AliasChoices("experiment_metadata", "metadata")
    )
    evaluation_metadata: Annotated[tuple[EvaluationSpec, ...], BeforeValidator(_or_empty)] = ()
    responses: tuple[EvaluatedReply, ...]


Document = QuestionDocument | InputDocument | ReplyDocument


_KINDS = {"removal": CaseKind.LEFT_OUT, "synthetic": CaseKind.SYNTHETIC}
_CONTEXT = "The context is "

# What tells questions of one knowledge base apart: synthetic ones may reuse ids.
QuestionKey = tuple[str, str]


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
    experiments, documents = _gather(files)
    if not any(experiment.replies for experiment in experiments):
        what = "these documents hold no reply"
        hint = "name an output or evaluated document too"
        raise InputError(what, where=os.fspath(files[0]) if files else "knowornot", hint=hint)
    importing = _Import(*_bases(experiments, documents))
    stored = [importing.add(experiment) for experiment in experiments if experiment.replies]
    for experiment in experiments:
        if not experiment.replies:
            where = experiment.where
            detail = "the experiment has no output document; its questions are kept"
            importing.rows.warn(where, where, detail)
    bases = importing.bases.values()
    return importing.rows.write(
        out,
        settings={"source": "knowornot", "experiments": stored},
        questions=[question for base in bases for question in base.questions.values()],
        bases=bases,
        files=files,
        on_warning=on_warning,
    )


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read one of KnowOrNot's documents; which one it is, its fields tell.

    Raises:
        InputError: the file cannot be read, is no such document, or a field that is
            needed is missing or of the wrong kind; names file and field.
    """
    value = read_json(path)
    kind: type[Document] | None = None
    if isinstance(value, dict) and "responses" in value:
        kind = ReplyDocument
    elif isinstance(value, dict) and "questions" in value:
        kind = InputDocument if "metadata" in value else QuestionDocument
    if kind is None:
        raise InputError(
            "no KnowOrNot document",
            where=os.fspath(path),
            hint="name a question, input, output or evaluated document that KnowOrNot wrote",
        )
    hint = "fix the field; KnowOrNot writes it otherwise"
    return check_model(kind, value, where=os.fspath(path), hint=hint)


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
    metadata: ExperimentMetadata
    asked: dict[QuestionKey, ExperimentQuestion] = field(default_factory=dict)
    replies: dict[QuestionKey, SavedReply] = field(default_factory=dict)
    documents: list[tuple[str, ReplyDocument]] = field(default_factory=list)

    def ask(self, asked: ExperimentQuestion) -> QuestionKey:
        """Keep what was asked; of two files the one that says what the context was."""
        key = _key(asked.source_context_qa)
        known = self.asked.get(key)
        if known is None or (
            "context_questions" not in known.source_context_qa.model_fields_set
            and not known.prompt_to_llm
        ):
            self.asked[key] = asked
        return key

    def add(self, document: ReplyDocument, where: str) -> None:
        """Keep replies and verdicts."""
        self.documents.append((where, document))
        for entry in document.responses:
            reply = entry.llm_response
            key = self.ask(reply.experiment_input)
            known = self.replies.setdefault(key, reply)
            if known.llm_response.response != reply.llm_response.response:
                raise InputError(
                    f"two different replies of one experiment to question {key[0][:60]!r}",
                    where=where,
                    hint="import the files of different runs of an experiment into different "
                    "folders",
                )

    def context(self, key: QuestionKey) -> tuple[QuestionEntry, ...] | None:
        """What stood in the prompt of a question; None for nothing."""
        question = self.asked[key]
        if "context_questions" in question.source_context_qa.model_fields_set:
            return question.source_context_qa.context_questions
        return context_in_prompt(question.prompt_to_llm)


def _key(question: AskedQuestion | QuestionEntry) -> QuestionKey:
    return question.identifier, plain(question.question)


def context_in_prompt(prompt: str) -> tuple[QuestionEntry, ...] | None:
    """Return the entries that stand in a prompt, without ids; None where there is no context."""
    start = prompt.find(f"\n{_CONTEXT}Question 0: ")
    if start < 0:
        return None
    rest = prompt[start + 1 + len(_CONTEXT) :]
    entries: list[QuestionEntry] = []
    while rest.startswith(head := f"Question {len(entries)}: "):
        question, found, rest = rest[len(head) :].partition(f"\nAnswer {len(entries)}: ")
        if not found:
            break
        answer, found, rest = rest.partition(f"\nQuestion {len(entries) + 1}: ")
        if found:
            rest = found[1:] + rest
        else:
            answer = answer.removesuffix("\n")
        entries.append(QuestionEntry(question=question, answer=answer))
    return tuple(entries)


def _gather(
    files: Sequence[str | os.PathLike[str]],
) -> tuple[list[_Experiment], list[QuestionDocument]]:
    """Read documents and put together those whose metadata are the same."""
    found: dict[ExperimentMetadata, _Experiment] = {}
    documents: list[QuestionDocument] = []
    for path in files:
        where, document = os.fspath(path), read_document(path)
        if isinstance(document, QuestionDocument):
            documents.append(document)
            continue
        # Files are moved: their paths tell nothing.
        identity = document.metadata.model_copy(update={"input_path": "", "output_path": ""})
        experiment = found.setdefault(identity, _Experiment(where, document.metadata))
        if isinstance(document, ReplyDocument):
            experiment.add(document, where)
        else:
            for asked in document.questions:
                experiment.ask(asked)
    return list(found.values()), documents


_Ids = Mapping[tuple[str, QuestionKey], str]


def _bases(
    experiments: Sequence[_Experiment], documents: Sequence[QuestionDocument]
) -> tuple[dict[str, KnownBase], _Ids]:
    """All questions with answers that stand anywhere in the documents, by knowledge base.

    Returns:
        The knowledge bases by name, and the ids of their questions there.
    """
    found: dict[str, dict[QuestionKey, QuestionRecord]] = {}
    for name, question, answer in _entries(experiments, documents):
        records, key = found.setdefault(name, {}), _key(question)
        known = records.get(key)
        if known is None or not known.answer:
            records[key] = QuestionRecord(key[0], question.question, answer)
    ids = {(name, key): one for name, rows in found.items() for key, one in _local_ids(rows)}
    local = {
        name: {ids[name, key]: record for key, record in rows.items()}
        for name, rows in found.items()
    }
    shared = shared_ids(local.values())
    return {name: KnownBase.of_records(name, rows, shared) for name, rows in local.items()}, ids


def _entries(
    experiments: Sequence[_Experiment], documents: Sequence[QuestionDocument]
) -> Iterator[tuple[str, AskedQuestion | QuestionEntry, str]]:
    for document in documents:
        for entry in document.questions:
            yield document.knowledge_base_identifier, entry, entry.answer
    for experiment in experiments:
        for asked in experiment.asked.values():
            question = asked.source_context_qa
            yield (
                experiment.metadata.knowledge_base_identifier,
                question,
                question.expected_answer,
            )
    # After those: a context never decides the order of what was asked.
    for experiment in experiments:
        for key in experiment.asked:
            for pair in experiment.context(key) or ():
                if pair.identifier and pair.question:
                    yield experiment.metadata.knowledge_base_identifier, pair, pair.answer


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

    def add(self, experiment: _Experiment) -> dict[str, Any]:
        """Add the rows of an experiment; returns what the run's settings keep of it."""
        metadata = experiment.metadata
        system = self._system(metadata)
        base = self.bases[metadata.knowledge_base_identifier]
        replies = {
            key: self._reply(system.system_id, base, experiment, key) for key in experiment.replies
        }
        return {
            "system_id": system.system_id,
            "knowledge_base": base.name,
            "kind": _KINDS[metadata.experiment_type].value,
            "metadata": metadata.model_dump(mode="json"),
            "evaluations": self._judge(experiment.documents, replies),
        }

    def _system(self, metadata: ExperimentMetadata) -> ReplySystem:
        """The system of an experiment; repeated, or with another prompt, it is another one."""
        prompt = metadata.system_prompt
        retrieval = RETRIEVALS.get(metadata.retrieval_type.lower(), metadata.retrieval_type)
        told = [metadata.ai_model_used or "unknown", retrieval, prompt.identifier]
        plain_id = "·".join(filter(None, told))
        system = ReplySystem(
            system_id=plain_id,
            model=metadata.ai_model_used,
            prompt=prompt.identifier,
            prompt_sha256=_sha256(prompt.content),
            retrieval=retrieval,
            replayed=True,
        )
        number = 1
        while True:
            asked = (system.system_id, metadata.knowledge_base_identifier, metadata.experiment_type)
            known = self.rows.systems.get(system.system_id, system)
            if known == system and asked not in self._done:
                self._done.add(asked)
                return self.rows.systems.setdefault(system.system_id, system)
            number += 1
            system = system.model_copy(update={"system_id": f"{plain_id}·{number}"})

    def _reply(
        self, system_id: str, base: KnownBase, experiment: _Experiment, key: QuestionKey
    ) -> ReplyRow:
        question = base.questions[self.ids[base.name, key]]
        kind = _KINDS[experiment.metadata.experiment_type]
        pairs = experiment.context(key)
        said = experiment.replies[key].llm_response
        return self.rows.reply(
            system_id,
            self.rows.case(question.question_id, kind, base.name),
            context=ReplyContext(kind="none")
            if pairs is None
            else base.context(tuple(self._passage(base, pair) for pair in pairs)),
            response=said.response,
            citation=None if said.citation is None else str(said.citation),
        )

    def _passage(self, base: KnownBase, pair: QuestionEntry) -> str:
        """The passage of a pair: that of its id if the text is the same, else of its text."""
        text = f"{pair.question}\n{pair.answer}" if pair.question else pair.answer
        local = self.ids.get((base.name, _key(pair)))
        own = base.questions[local].own_passage if local is not None else ""
        if own in base.passages and base.passages[own].text == text:
            return own
        return base.passage_id(text)

    def _judge(
        self,
        documents: Sequence[tuple[str, ReplyDocument]],
        replies: Mapping[QuestionKey, ReplyRow],
    ) -> list[dict[str, Any]]:
        """Add the verdicts; returns how replies were judged, an entry per judge and criterion.

        The first evaluator of a criterion is judge `given`; a second one, with another model
        or prompt, is `given:<model>`.
        """
        judges: dict[tuple[str, str, str], str] = {}
        stored: dict[tuple[str, str], dict[str, Any]] = {}
        for where, document in documents:
            specs = {spec.evaluation_name: spec for spec in document.evaluation_metadata}
            times: dict[str, str] = {}
            for entry in document.responses:
                key = _key(entry.llm_response.experiment_input.source_context_qa)
                for verdict in entry.evaluations:
                    criterion = verdict.evaluation_name
                    times.setdefault(criterion, verdict.evaluation_timestamp)
                    spec = specs.get(criterion) or EvaluationSpec(evaluation_name=criterion)
                    self._verdict(replies[key].reply_id, verdict, spec, _judge(judges, spec), where)
            for criterion, spec in specs.items():
                judge = _judge(judges, spec)
                entry_of_spec = {
                    **spec.model_dump(mode="json"),
                    "judge": judge,
                    "path_to_store": document.path_to_store,
                    "first_timestamp": times.get(criterion, ""),
                }
                stored.setdefault((criterion, judge), entry_of_spec)
        return list(stored.values())

    def _verdict(
        self, reply_id: str, verdict: Verdict, spec: EvaluationSpec, judge: str, where: str
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
            judge_sha256=_sha256(spec.evaluation_prompt.content),
            error=None if outcome else RowError(type="NoOutcome", detail="logged without one"),
        )
        if kept.outcome != (outcome or None):
            what = f"two verdicts of one judge on {criterion[:60]!r} contradict each other"
            hint = "import evaluations of one output by one judge into different folders"
            raise InputError(what, where=where, hint=hint)


def _judge(known: dict[tuple[str, str, str], str], spec: EvaluationSpec) -> str:
    """The name of an evaluator among those of its criterion, to which it is added."""
    criterion, model = spec.evaluation_name, spec.evaluator_model
    key = criterion, model, spec.evaluation_prompt.content
    if key not in known:
        taken = {name for (other, _, _), name in known.items() if other == criterion}
        name, number = Judgement.GIVEN, 1
        while name in taken:
            name = f"{Judgement.GIVEN}:{model}" + (f"·{number}" if number > 1 else "")
            number += 1
        known[key] = name
    return known[key]


def _reasoning(tags: Mapping[str, Sequence[str]]) -> str:
    """A judge's further tags as its reasoning; several of them keep their names."""
    if list(tags) == ["reasoning"] and len(tags["reasoning"]) == 1:
        return tags["reasoning"][0]
    return "\n".join(f"<{tag}>{text}</{tag}>" for tag, texts in tags.items() for text in texts)


def _sha256(text: str) -> str:
    """Hash of a text; empty for none."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""
