"""Combine KnowOrNot's documents into experiments, one per set of metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ....guard.errors import InputError
from ...run import CaseKind, ReplyContext, ReplySystem
from ._knowornot_documents import CLIENTS, RETRIEVAL_TYPES, context_in_prompt, read_document
from ._knowornot_names import RETRIEVALS, guarded_model
from ._knowornot_schemas import (
    AskedQuestion,
    EvaluatedDocument,
    EvaluationSpec,
    ExperimentMetadata,
    ExperimentQuestion,
    InputDocument,
    NamedPrompt,
    OutputDocument,
    QuestionDocument,
    QuestionEntry,
    SavedReply,
    Verdict,
)
from ._run_parts import plain

QuestionKey = tuple[str, str]


@dataclass(slots=True)
class Judged:
    """The verdicts of one evaluated document.

    Attributes:
        where: the file.
        path_to_store: as the document has it.
        specs: how it was judged, by criterion.
        verdicts: with the question that the reply answers.
    """

    where: str
    path_to_store: str
    specs: dict[str, EvaluationSpec]
    verdicts: list[tuple[QuestionKey, Verdict]]


@dataclass(slots=True)
class Experiment:
    """Input, output and evaluations that belong together.

    Attributes:
        where: the first file of it.
        metadata: of that file.
        asked: what was asked, by id and text of the question.
        replies: likewise.
        judged: one per evaluated document.
    """

    where: str
    metadata: ExperimentMetadata
    asked: dict[QuestionKey, ExperimentQuestion] = field(default_factory=dict)
    replies: dict[QuestionKey, SavedReply] = field(default_factory=dict)
    judged: list[Judged] = field(default_factory=list)

    def context(self, key: QuestionKey) -> tuple[QuestionEntry, ...] | None:
        """What stood in the prompt of a question; None for nothing."""
        question = self.asked[key]
        if "context_questions" in question.source_context_qa.model_fields_set:
            return question.source_context_qa.context_questions
        return context_in_prompt(question.prompt_to_llm)


@dataclass(slots=True)
class Gathered:
    """All documents of an import.

    Attributes:
        experiments: in the order of their first file.
        documents: question documents.
    """

    experiments: list[Experiment]
    documents: list[QuestionDocument]


def key_of(question: AskedQuestion) -> QuestionKey:
    """What tells questions of one knowledge base apart: synthetic ones may reuse ids."""
    return question.identifier, plain(question.question)


def gather(files: Sequence[str | os.PathLike[str]]) -> Gathered:
    """Read documents and put together those whose metadata are the same.

    Raises:
        InputError: a document cannot be read, or two of one experiment contradict each
            other.
    """
    found: dict[tuple[str, ...], Experiment] = {}
    documents: list[QuestionDocument] = []
    for path in files:
        where = os.fspath(path)
        document = read_document(path)
        if isinstance(document, QuestionDocument):
            documents.append(document)
            continue
        metadata = (
            document.experiment_metadata
            if isinstance(document, EvaluatedDocument)
            else document.metadata
        )
        experiment = found.setdefault(_identity(metadata), Experiment(where, metadata))
        _add(experiment, document, where)
    return Gathered(list(found.values()), documents)


def _identity(metadata: ExperimentMetadata) -> tuple[str, ...]:
    # Not the paths: files are moved.
    return (
        metadata.knowledge_base_identifier,
        metadata.experiment_type,
        metadata.retrieval_type,
        metadata.client_enum,
        metadata.ai_model_used,
        metadata.system_prompt.identifier,
        metadata.system_prompt.content,
        metadata.creation_timestamp,
    )


def _add(
    experiment: Experiment, document: InputDocument | OutputDocument | EvaluatedDocument, where: str
) -> None:
    match document:
        case InputDocument():
            for asked in document.questions:
                _ask(experiment, asked)
        case OutputDocument():
            for reply in document.responses:
                _reply(experiment, reply, where)
        case EvaluatedDocument():
            judged = Judged(
                where,
                document.path_to_store,
                {spec.evaluation_name: spec for spec in document.evaluation_metadata},
                [],
            )
            for entry in document.responses:
                key = _reply(experiment, entry.llm_response, where)
                judged.verdicts.extend((key, verdict) for verdict in entry.evaluations)
            experiment.judged.append(judged)


def _ask(experiment: Experiment, asked: ExperimentQuestion) -> QuestionKey:
    """Keep what was asked; of two files the one that says what the context was."""
    key = key_of(asked.source_context_qa)
    known = experiment.asked.get(key)
    if known is None or (
        "context_questions" not in known.source_context_qa.model_fields_set
        and not known.prompt_to_llm
    ):
        experiment.asked[key] = asked
    return key


def _reply(experiment: Experiment, reply: SavedReply, where: str) -> QuestionKey:
    key = _ask(experiment, reply.experiment_input)
    known = experiment.replies.setdefault(key, reply)
    if known.llm_response.response != reply.llm_response.response:
        raise InputError(
            f"two different replies of one experiment to question {key[0][:60]!r}",
            where=where,
            hint="import the files of different runs of an experiment into different folders",
        )
    return key


# KnowOrNot knows four sellers of models and no "other".
OTHER_CLIENT = "OPENAI"

_BY_CONTEXT = {"none": "DIRECT", "all_but": "LONG_IN_CONTEXT", "passages": "BASIC_RAG"}


@dataclass(frozen=True, slots=True)
class KeptSpec:
    """How an import found a criterion judged."""

    judge: str
    spec: EvaluationSpec
    path_to_store: str = ""
    first_timestamp: str = ""


@dataclass(frozen=True, slots=True)
class KeptExperiment:
    """What an import kept of an experiment; nothing, for other runs."""

    metadata: ExperimentMetadata | None = None
    specs: tuple[KeptSpec, ...] = ()


def kept_experiments(
    settings: Mapping[str, Any],
) -> dict[tuple[str, str, CaseKind], KeptExperiment]:
    """By system, knowledge base and kind, what the run's settings keep of KnowOrNot's files.

    What is not as an import writes it counts as not there: settings are anybody's.
    """
    found: dict[tuple[str, str, CaseKind], KeptExperiment] = {}
    entries = settings.get("experiments")
    for entry in entries if isinstance(entries, list) else ():
        try:
            key = (str(entry["system_id"]), str(entry["knowledge_base"]), CaseKind(entry["kind"]))
            specs = tuple(
                KeptSpec(
                    str(one["judge"]),
                    EvaluationSpec.model_validate(one),
                    str(one["path_to_store"]),
                    str(one["first_timestamp"]),
                )
                for one in entry["evaluations"]
            )
            metadata = ExperimentMetadata.model_validate(entry["metadata"])
        except (KeyError, TypeError, ValueError, ValidationError):
            continue
        found[key] = KeptExperiment(metadata, specs)
    return found


def experiment_metadata(
    system: ReplySystem,
    contexts: Sequence[ReplyContext | None],
    kept: KeptExperiment,
    made: ExperimentMetadata,
) -> ExperimentMetadata:
    """Metadata that KnowOrNot accepts, kept as they were wherever they can be.

    Args:
        system: who answered.
        contexts: of its replies; they tell the retrieval where its name does not.
        kept: of an import.
        made: type, paths, time and knowledge base of the documents that are written.
    """
    old = kept.metadata or ExperimentMetadata(
        system_prompt=NamedPrompt(identifier=system.prompt),
        retrieval_type=next((k for k, v in RETRIEVALS.items() if v == system.retrieval), ""),
        ai_model_used=guarded_model(system.model, system.guard),
    )
    return made.model_copy(
        update={
            "system_prompt": old.system_prompt,
            "input_path": old.input_path or made.input_path,
            "output_path": old.output_path or made.output_path,
            "creation_timestamp": time_or(old.creation_timestamp, made.creation_timestamp),
            "retrieval_type": old.retrieval_type
            if old.retrieval_type in RETRIEVAL_TYPES
            else _retrieval_of(contexts),
            "client_enum": client_or_other(old.client_enum),
            "ai_model_used": old.ai_model_used,
        }
    )


def time_or(text: str, otherwise: str) -> str:
    """`text` if it is an ISO 8601 time."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return text


def client_or_other(name: str) -> str:
    """`name` if KnowOrNot knows that seller of models."""
    return name if name in CLIENTS else OTHER_CLIENT


def _retrieval_of(contexts: Sequence[ReplyContext | None]) -> str:
    for context in contexts:
        if context is not None and context.kind in _BY_CONTEXT:
            return _BY_CONTEXT[context.kind]
    return "DIRECT"
