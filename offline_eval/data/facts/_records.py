"""Read tables and JSON files: questions with answers, or rows of values."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....guard.text import clean_text
from ._blocks import Block, BlockKind, Content, DocumentError, Pair, joined
from ._html import table_line

_QUESTION_NAMES = ("question", "questions", "q", "query", "prompt", "问题", "題目", "问")
_ANSWER_NAMES = ("answer", "answers", "a", "response", "reply", "expected_answer", "答案", "答")
_TOPIC_NAMES = ("topic", "category", "section", "subject", "主题", "类别")
_LIST_NAMES = ("questions", "faq", "faqs", "items", "data", "records", "rows")
_MAX_CELL = 1_000_000


def read_table(text: str, *, tabs: bool) -> Content:
    """The content of a CSV or TSV file with a head.

    With a column of questions and one of answers its rows are pairs, otherwise lines
    of `head: value`.

    Raises:
        DocumentError: `empty` or `broken`.
    """
    csv.field_size_limit(_MAX_CELL)
    delimiter = "\t" if tabs else _delimiter(text)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise DocumentError("broken", f"no readable table ({error})") from None
    rows = [[clean_text(cell).strip() for cell in row] for row in rows]
    rows = [row for row in rows if any(row)]
    if len(rows) < 2:
        raise DocumentError("empty", "a head and at least one row are needed")
    head = [" ".join(cell.split()) for cell in rows[0]]
    names = [name.lower() for name in head]
    question, answer = _column(names, _QUESTION_NAMES), _column(names, _ANSWER_NAMES)
    if question is None or answer is None:
        lines = [joined([table_line(head, row)]) for row in rows[1:]]
        blocks = tuple(Block(BlockKind.TABLE_ROW, line) for line in lines if line)
        return Content("table", blocks, text=blocks)
    values = [dict(zip(names, row, strict=False)) for row in rows[1:]]
    places = [f"row {number}" for number in range(2, len(rows) + 1)]
    return _content(zip(places, values, strict=True), "table")


def read_json_records(text: str) -> Content:
    """Pairs of a JSON list of objects, or of an object with such a list (`questions`, `faq` …).

    Raises:
        DocumentError: `broken`, or `no_questions`.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise DocumentError("broken", "no readable JSON") from None
    if isinstance(value, dict):
        lists = [value[name] for name in _LIST_NAMES if isinstance(value.get(name), list)]
        value = lists[0] if lists else [value]
    if not isinstance(value, list):
        raise DocumentError("no_questions", "no list of questions with answers in it")
    return _content(((f"item {n}", item) for n, item in enumerate(value, start=1)), "records")


def read_jsonl_records(text: str) -> Content:
    """Pairs of a JSON-lines file, one object a line.

    Raises:
        DocumentError: `no_questions`: no line has both.
    """

    def lines() -> Iterable[tuple[str, Any]]:
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError):
                yield f"line {number}", None

    return _content(lines(), "records")


def _content(records: Iterable[tuple[str, Any]], kind: str) -> Content:
    pairs: list[Pair] = []
    faults: list[tuple[str, str]] = []
    for place, record in records:
        if not isinstance(record, Mapping):
            faults.append(("bad_record", f"{place}: no JSON object"))
            continue
        names = {str(name).lower(): value for name, value in record.items()}
        question, answer = _value(names, _QUESTION_NAMES), _value(names, _ANSWER_NAMES)
        if question is None or answer is None:
            missing = "question" if question is None else "answer"
            faults.append(("bad_record", f"{place}: no {missing}"))
            continue
        pairs.append(Pair(question, answer, _value(names, _TOPIC_NAMES)))
    if not pairs:
        raise DocumentError("no_questions", "no record has a question and an answer")
    text = tuple(pair.as_block() for pair in pairs)
    return Content(kind, (), tuple(pairs), tuple(faults), text)


def _value(record: Mapping[str, Any], names: Sequence[str]) -> str | None:
    for name in names:
        found = record.get(name)
        if isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, str) and (text := joined([clean_text(found)])):
            return text
    return None


def _column(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def _delimiter(text: str) -> str:
    """Comma, semicolon or tab, whichever the head has most of."""
    head = text.partition("\n")[0]
    return max(",;\t", key=head.count)
