"""Read and write KnowOrNot's documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ....guard.errors import InputError
from ....guard.files import read_json, read_text, write_text
from ._knowornot_schemas import (
    NO_CITATION,
    Document,
    EvaluatedDocument,
    ExperimentMetadata,
    InputDocument,
    ModelReply,
    OutputDocument,
    QuestionDocument,
    QuestionEntry,
)

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Line (from 1) of the value that `path` leads to, or of the last step that is there.

    Args:
        text: whole, valid JSON.
        path: keys of objects and indices of lists, from the outermost.
    """
    try:
        return text.count("\n", 0, _position(text, path)) + 1
    except (ValueError, IndexError, RecursionError):
        return 1


def _position(text: str, path: Sequence[str | int]) -> int:
    position = _past(text, 0, _SPACE)
    for step in path:
        if text[position] == "{" and isinstance(step, str):
            found = _member(text, position, step)
        elif text[position] == "[" and isinstance(step, int):
            found = _item(text, position, step)
        else:
            found = None
        if found is None:
            break
        position = found
    return position


def _member(text: str, position: int, name: str) -> int | None:
    """Where the last member of this name has its value, as readers of JSON take the last."""
    found = None
    position = _past(text, position + 1, _SPACE)
    while text[position] != "}":
        key, position = _DECODER.raw_decode(text, position)
        position = _past(text, position, _SPACE + ":")
        if key == name:
            found = position
        _, position = _DECODER.raw_decode(text, position)
        position = _past(text, position, _SPACE + ",")
    return found


def _item(text: str, position: int, index: int) -> int | None:
    position = _past(text, position + 1, _SPACE)
    for _ in range(index):
        if text[position] == "]":
            return None
        _, position = _DECODER.raw_decode(text, position)
        position = _past(text, position, _SPACE + ",")
    return None if text[position] == "]" else position


def _past(text: str, position: int, skipped: str) -> int:
    while text[position] in skipped:
        position += 1
    return position


RETRIEVAL_TYPES = ("DIRECT", "LONG_IN_CONTEXT", "BASIC_RAG", "HYDE_RAG")
CLIENTS = ("AZURE_OPENAI", "GEMINI", "OPENAI", "OPENROUTER")
CONTEXT_PARTS = ("question", "expected_answer", "context", "cited_qa")

_HINT = "name a question, input, output or evaluated document that KnowOrNot wrote"


def read_document(path: str | os.PathLike[str]) -> Document:
    """One of KnowOrNot's documents; which one it is, its fields tell.

    Raises:
        InputError: the file cannot be read, is no such document, or a field that is
            needed is missing or of the wrong kind; names file and line.
    """
    value = read_json(path)
    kind = _kind(value)
    if kind is None:
        raise InputError("no KnowOrNot document", where=f"{os.fspath(path)}:1", hint=_HINT)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        line = line_of(read_text(path), fault["loc"])
        raise InputError(
            f"field {place!r}: {fault['msg']}",
            where=f"{os.fspath(path)}:{line}",
            hint="fix the field; KnowOrNot writes it otherwise",
        ) from None


def write_document(path: str | os.PathLike[str], document: Document) -> None:
    """Write a document that KnowOrNot itself can load.

    Raises:
        InputError: something that it demands is missing or unknown to it, see
            `check_document`; or the file cannot be written.
    """
    check_document(document, where=os.fspath(path))
    write_text(path, document.model_dump_json(indent=2) + "\n")


def check_document(document: Document, *, where: str) -> None:
    """Reject what KnowOrNot would not load.

    Raises:
        InputError: a missing path or time, or a retrieval or client that it does not know.
    """
    match document:
        case QuestionDocument():
            _require("path_to_store", document.path_to_store, where)
            _require_time(document.creation_timestamp, where)
        case InputDocument():
            _check_metadata(document.metadata, where)
        case OutputDocument():
            _check_metadata(document.metadata, where)
            for reply in document.responses:
                _check_reply(reply.llm_response, where)
        case EvaluatedDocument():
            _require("path_to_store", document.path_to_store, where)
            _check_metadata(document.experiment_metadata, where)
            for spec in document.evaluation_metadata:
                _one_of("evaluator_client_enum", spec.evaluator_client_enum, CLIENTS, where)
                for part in spec.in_context:
                    _one_of("in_context", part, CONTEXT_PARTS, where)
            for judged in document.responses:
                _check_reply(judged.llm_response.llm_response, where)
                for verdict in judged.evaluations:
                    _require_time(verdict.evaluation_timestamp, where)


def _kind(value: Any) -> type[Document] | None:
    if not isinstance(value, dict):
        return None
    if "responses" in value:
        judged = "experiment_metadata" in value or "evaluation_metadata" in value
        return EvaluatedDocument if judged else OutputDocument
    if "questions" in value:
        return InputDocument if "metadata" in value else QuestionDocument
    return None


def _check_metadata(metadata: ExperimentMetadata, where: str) -> None:
    _require("input_path", metadata.input_path, where)
    _require("output_path", metadata.output_path, where)
    _require_time(metadata.creation_timestamp, where)
    _one_of("retrieval_type", metadata.retrieval_type, RETRIEVAL_TYPES, where)
    _one_of("client_enum", metadata.client_enum, CLIENTS, where)


def _check_reply(reply: ModelReply, where: str) -> None:
    if not isinstance(reply.citation, int):
        _one_of("citation", reply.citation or "", (NO_CITATION,), where)


def _require(name: str, value: str, where: str) -> None:
    if not value:
        raise InputError(f"field '{name}' is empty", where=where, hint="give it a value")


def _require_time(value: str, where: str) -> None:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise InputError(
            f"{value[:40]!r} is not an ISO 8601 time", where=where, hint="give the time of the file"
        ) from None


def _one_of(name: str, value: str, allowed: tuple[str, ...], where: str) -> None:
    if value not in allowed:
        raise InputError(
            f"KnowOrNot knows no {name} {value[:40]!r}",
            where=where,
            hint=f"use one of {', '.join(allowed)}",
        )


_CONTEXT = "The context is "


def prompt_text(system_prompt: str, question: str, context: Iterable[QuestionEntry] | None) -> str:
    """The whole prompt, character by character as KnowOrNot sends it; None is no context."""
    if context is None:
        return f"{system_prompt}\n{question}"
    pairs = "".join(
        f"Question {number}: {entry.question}\nAnswer {number}: {entry.answer}\n"
        for number, entry in enumerate(context)
    )
    return f"{system_prompt}{question}\n{_CONTEXT}{pairs}"


def context_in_prompt(prompt: str) -> tuple[QuestionEntry, ...] | None:
    """The entries that stand in a prompt, without ids; None where there is no context."""
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
