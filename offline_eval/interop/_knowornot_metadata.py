"""How an experiment was made: what an import kept, and what KnowOrNot demands besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ...adapters.knowornot import (
    CLIENTS,
    RETRIEVAL_TYPES,
    EvaluationSpec,
    ExperimentMetadata,
    NamedPrompt,
)
from ..ookb import CaseKind
from ..replies import ReplyContext, ReplySystem
from ._knowornot_names import RETRIEVALS, guarded_model

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
