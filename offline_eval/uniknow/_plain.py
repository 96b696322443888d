"""Plain JSON lines: a question, its answers, and texts that may hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...guard import InputError, clean_text
from ._raw_questions import RawQuestion, answer_texts, identifier, text_field

_MEND = (
    'each line needs "question" and "answers" (or "answer"), and may have "context" or '
    '"passages", "id" and "group"'
)


def plain_questions(lines: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[RawQuestion]:
    """One question a line.

    Args:
        lines: place in the file and object of each line.

    Raises:
        InputError: a field is missing or of the wrong type.
    """
    for where, line in lines:
        answers = line.get("answers") if line.get("answers") is not None else line.get("answer")
        if answers is None:
            raise InputError("field 'answers' is missing", where=where, mend=_MEND)
        yield RawQuestion(
            id=identifier(line, ("id", "qid", "question_id"), where),
            question=text_field(line, "question", where, _MEND).strip(),
            answers=answer_texts(answers, "'answers'", where, _MEND),
            sources=_sources(line, where),
            group=identifier(line, ("group",), where),
            where=where,
        )


def _sources(line: Mapping[str, Any], where: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in ("context", "passages"):
        value = line.get(name)
        if value is None:
            continue
        for text in value if isinstance(value, list) else [value]:
            if not isinstance(text, str):
                raise InputError(
                    f"field '{name}' must be text or a list of texts", where=where, mend=_MEND
                )
            if clean_text(text).strip():
                found[clean_text(text)] = None
    return tuple(found)
