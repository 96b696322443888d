"""KnowOrNot's question, input, output and evaluated documents: tolerant reading, strict writing."""

from __future__ import annotations

from ._documents import (
    CLIENTS,
    CONTEXT_PARTS,
    RETRIEVAL_TYPES,
    check_document,
    read_document,
    write_document,
)
from ._prompt_texts import context_in_prompt, prompt_text
from ._schemas import (
    NO_CITATION,
    AskedQuestion,
    Document,
    EvaluatedDocument,
    EvaluatedReply,
    EvaluationSpec,
    ExperimentMetadata,
    ExperimentQuestion,
    InputDocument,
    ModelReply,
    NamedPrompt,
    NumberedQuestion,
    OutputDocument,
    QuestionDocument,
    QuestionEntry,
    SavedReply,
    Verdict,
)

__all__ = [
    "CLIENTS",
    "CONTEXT_PARTS",
    "NO_CITATION",
    "RETRIEVAL_TYPES",
    "AskedQuestion",
    "Document",
    "EvaluatedDocument",
    "EvaluatedReply",
    "EvaluationSpec",
    "ExperimentMetadata",
    "ExperimentQuestion",
    "InputDocument",
    "ModelReply",
    "NamedPrompt",
    "NumberedQuestion",
    "OutputDocument",
    "QuestionDocument",
    "QuestionEntry",
    "SavedReply",
    "Verdict",
    "check_document",
    "context_in_prompt",
    "prompt_text",
    "read_document",
    "write_document",
]
