"""Reading questions with their answers: KnowOrNot documents, JSON lists and JSON lines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...guard import InputError, clean_text
from ...guard.files import read_json, read_jsonl, read_text

_ID_FIELDS = ("id", "question_id", "identifier")
_MEND = 'each record needs "question" and "answer", and may have "id", "passage" and "source"'


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """One question with the answer that the knowledge base holds.

    Attributes:
        question_id: unique within its file.
        question: as a user would ask it.
        answer: as the knowledge base has it.
        passage: the text of the knowledge base that holds the answer, if given.
        source: where that text is from, if given.
    """

    question_id: str
    question: str
    answer: str
    passage: str | None = None
    source: str | None = None


def read_questions(path: str | os.PathLike[str]) -> list[QuestionRecord]:
    """Questions from a KnowOrNot question document, a JSON list, or JSON lines.

    Args:
        path: `.jsonl` with one object per line, or `.json` with a list of objects
            or a document whose field `questions` is such a list. The id may be
            called `id`, `question_id` or `identifier`; without one it is `q<n>`.

    Returns:
        At least two records, in the order of the file, with unique ids.

    Raises:
        InputError: missing or broken file, wrong field, duplicate id, fewer than
            two questions; the message names file and line.
    """
    records: list[QuestionRecord] = []
    seen: dict[str, str] = {}
    for where, value in _objects(Path(path)):
        record = _record(value, where, default_id=f"q{len(records) + 1}")
        if record.question_id in seen:
            raise InputError(
                f"the id {_short(record.question_id)!r} was used before "
                f"({seen[record.question_id]})",
                where=where,
                mend="give every question an id of its own",
            )
        seen[record.question_id] = where
        records.append(record)
    if not records:
        raise InputError("the knowledge base is empty", where=os.fspath(path), mend=_MEND)
    if len(records) == 1:
        raise InputError(
            "there is one question only",
            where=os.fspath(path),
            mend="leaving one out needs at least two questions",
        )
    return records


def _objects(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        for number, value in read_jsonl(path):
            yield f"{path}:{number}", value
        return
    value = read_json(path)
    items = value.get("questions") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise InputError(
            "expected a list of questions, or an object whose field 'questions' is one",
            where=f"{path}:1",
            mend="use a KnowOrNot question document, or JSON lines in a .jsonl file",
        )
    lines = _item_lines(read_text(path), within_document=isinstance(value, dict))
    for index, item in enumerate(items):
        where = f"{path}:{lines[index]}" if index < len(lines) else f"{path}: questions[{index}]"
        if not isinstance(item, dict):
            raise InputError(
                f"expected a JSON object, found {type(item).__name__}", where=where, mend=_MEND
            )
        yield where, item


def _item_lines(text: str, *, within_document: bool) -> list[int]:
    """The line on which each item of the list of questions begins."""
    start = 0
    if within_document:
        found = re.search(r'"questions"\s*:\s*(?=\[)', text)
        if found is None:
            return []
        start = found.end()
    position = text.find("[", start) + 1
    lines: list[int] = []
    decoder, line, counted = json.JSONDecoder(), 1, 0
    while True:
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1
        if position >= len(text) or text[position] == "]":
            return lines
        line += text.count("\n", counted, position)
        counted = position
        lines.append(line)
        try:
            _, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError:
            return lines


def _record(value: Mapping[str, Any], where: str, *, default_id: str) -> QuestionRecord:
    return QuestionRecord(
        question_id=_identifier(value, where, default_id),
        question=_text(value, "question", where),
        answer=_text(value, "answer", where),
        passage=_optional_text(value, "passage", where),
        source=_optional_text(value, "source", where),
    )


def _identifier(value: Mapping[str, Any], where: str, default_id: str) -> str:
    for name in _ID_FIELDS:
        found = value.get(name)
        if found is None:
            continue
        if isinstance(found, bool) or not isinstance(found, str | int) or not str(found).strip():
            raise InputError(f"field '{name}' must be text or a number", where=where, mend=_MEND)
        return clean_text(str(found))
    return default_id


def _text(value: Mapping[str, Any], name: str, where: str) -> str:
    if name not in value:
        raise InputError(f"field '{name}' is missing", where=where, mend=_MEND)
    found = value[name]
    if not isinstance(found, str):
        raise InputError(
            f"field '{name}' must be text, found {type(found).__name__}", where=where, mend=_MEND
        )
    if not found.strip():
        raise InputError(f"field '{name}' is empty", where=where, mend=_MEND)
    return clean_text(found)


def _optional_text(value: Mapping[str, Any], name: str, where: str) -> str | None:
    return _text(value, name, where) if value.get(name) is not None else None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
