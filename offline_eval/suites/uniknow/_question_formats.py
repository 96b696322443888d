"""Read questions from the formats that files come in: plain JSON lines, MRQA and SQuAD."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....guard.errors import InputError
from ....guard.text import clean_text
from ...data import Fields
from ._matching import occurrences


@dataclass(frozen=True, slots=True)
class RawQuestion:
    """One question in one paragraph of a file.

    Attributes:
        id: as the file has it; None where it has none.
        question: as asked.
        answers: at least one.
        sources: texts that may hold an answer.
        group: questions of one document share it; None where the file does not say.
        where: place in the file, for messages.
    """

    id: str | None
    question: str
    answers: tuple[str, ...]
    sources: tuple[str, ...]
    group: str | None
    where: str


def _identifier(value: Mapping[str, Any], where: str, *names: str) -> str | None:
    found = Fields(value, where).identifier(*names)
    return None if found is None else found.strip()


def objects(value: object, what: str, where: str, hint: str) -> list[Mapping[str, Any]]:
    """`value` as a list of JSON objects.

    Raises:
        InputError: it is anything else.
    """
    if not isinstance(value, list):
        raise InputError(f"{what} must be a list", where=where, hint=hint)
    for item in value:
        if not isinstance(item, dict):
            raise InputError(
                f"{what} must hold JSON objects, found {type(item).__name__}",
                where=where,
                hint=hint,
            )
    return value


def answer_texts(value: object, what: str, where: str, hint: str) -> tuple[str, ...]:
    """One answer or a list of them, as distinct clean texts; numbers count as text.

    Raises:
        InputError: anything else, or no answer at all.
    """
    listed = value if isinstance(value, list) else [value]
    found: dict[str, None] = {}
    for item in listed:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise InputError(
                f"{what} must be text or a list of texts, found {type(item).__name__}",
                where=where,
                hint=hint,
            )
        if isinstance(item, float) and not math.isfinite(item):
            raise InputError(f"{what} holds NaN or infinity", where=where, hint=hint)
        text = " ".join(clean_text(str(item)).split())
        if text:
            found[text] = None
    if not found:
        raise InputError(f"{what} holds no answer", where=where, hint=hint)
    return tuple(found)


_HINT = (
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
            raise InputError("field 'answers' is missing", where=where, hint=_HINT)
        yield RawQuestion(
            id=_identifier(line, where, "id", "qid", "question_id"),
            question=Fields(line, where, _HINT).text("question").strip(),
            answers=answer_texts(answers, "'answers'", where, _HINT),
            sources=_sources(line, where),
            group=_identifier(line, where, "group"),
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
                    f"field '{name}' must be text or a list of texts", where=where, hint=_HINT
                )
            if clean_text(text).strip():
                found[clean_text(text)] = None
    return tuple(found)


_HINT_MRQA = 'a line needs "context" and "qas", each with "question" and "answers"'
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9_]*(?:=[^<>]*)?/?>")
# A paragraph with a title of its own is a document of its own.
_DOCUMENT = re.compile(r"\[DOC\]|\[PAR\](?=\s*\[TLE\])")
_TITLE = re.compile(r"\[TLE\]\s*(.*?)\s*(?:\[SEP\]|\[PAR\])", re.DOTALL)
_MARK = re.compile(r"\[(?:TLE|SEP|PAR)\]")
_SPACE_BEFORE = re.compile(r"(?<=\w) (?=[,.;:!?](?:\s|$))")
# Brackets, and endings that a tokeniser has split off: `( born 1815 )`, `he 's`, `did n't`.
_SPACE_INSIDE = re.compile(
    r"(?<=[(\[]) +| +(?=[)\]])|(?<=\w) (?=(?:'(?:s|re|ve|ll|d|m|t)|n't)\b)", re.IGNORECASE
)
_QUOTE_PAIR = re.compile(r"(?:``|'')")
_HELD = 20  # documents of a context at most; more would only repeat the answer


def is_mrqa(value: Mapping[str, Any]) -> bool:
    """Whether a first line is a header or a context with its questions."""
    return "header" in value or ("context" in value and "qas" in value)


def mrqa_questions(lines: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[RawQuestion]:
    """The questions of each line.

    Args:
        lines: place in the file and object of each line; headers are skipped.

    Yields:
        Answers are the listed ones and the spellings detected in the context. Questions
        without an answer are left out.

    Raises:
        InputError: a field is missing or of the wrong type.
    """
    for where, line in lines:
        if "header" in line and "context" not in line:
            continue
        sources = documents(Fields(line, where, _HINT_MRQA).text("context"))
        for entry in objects(line.get("qas"), "field 'qas'", where, _HINT_MRQA):
            answers = _answers(entry, where)
            if not answers:
                continue
            held = [text for text in sources if occurrences(text, answers)]
            yield RawQuestion(
                id=_identifier(entry, where, "qid", "id"),
                question=tidy(Fields(entry, where, _HINT_MRQA).text("question")),
                answers=answers,
                sources=tuple((held or sources)[:_HELD]),
                group=f"line {where.rpartition(':')[2]}",  # no path of this machine in results
                where=where,
            )


def documents(context: str) -> tuple[str, ...]:
    """The documents of a context as plain prose, markers and HTML tags taken out.

    A title stays in front of its document, with a full stop.

    Example:
        >>> documents("[PAR] [TLE] Rome [SEP] It is old . [PAR] [TLE] Oslo [SEP] It is cold .")
        ('Rome. It is old.', 'Oslo. It is cold.')
    """
    found = []
    for part in _DOCUMENT.split(context):
        titled = _TITLE.sub(lambda match: f"{match.group(1).rstrip('.')}. ", part, count=1)
        text = tidy(_MARK.sub(" ", titled))
        if re.search(r"\w", text):
            found.append(text)
    return tuple(found)


def tidy(text: str) -> str:
    """Text without HTML tags, with quotation marks, and without a tokeniser's spaces.

    Example:
        >>> tidy("<P> It was `` big '' , they said . </P>")
        'It was " big ", they said.'
        >>> tidy("Ada ( born 1815 ) did n't , Byron 's friend did .")
        "Ada (born 1815) didn't, Byron's friend did."
    """
    text = _QUOTE_PAIR.sub('"', _TAG.sub(" ", text))
    text = _SPACE_INSIDE.sub("", " ".join(text.split()))
    return _SPACE_BEFORE.sub("", re.sub(r'(?<=["\')\]]) (?=[,.;:!?](?:\s|$))', "", text))


def _answers(entry: Mapping[str, Any], where: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    listed = entry.get("answers")
    if isinstance(listed, list):
        listed = [answer for answer in listed if answer != ""]
    if listed:
        found.update(dict.fromkeys(answer_texts(listed, "'answers'", where, _HINT_MRQA)))
    detected = entry.get("detected_answers")
    if detected:
        for answer in objects(detected, "'detected_answers'", where, _HINT_MRQA):
            found[Fields(answer, where, _HINT_MRQA).text("text")] = None
    tidied = (tidy(answer) for answer in found)
    return tuple(dict.fromkeys(answer for answer in tidied if answer))


_HINT_SQUAD = 'expected {"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": [{"text": …}]}]}]}]}'  # noqa: E501


def squad_questions(document: Mapping[str, Any], path: str) -> Iterator[RawQuestion]:
    """The questions of a document, in its order; those marked impossible are left out.

    Args:
        document: the whole file.
        path: named in errors, with the place inside the document.

    Raises:
        InputError: a field is missing or of the wrong type.
    """
    articles = objects(document.get("data"), "field 'data'", path, _HINT_SQUAD)
    for a, article in enumerate(articles):
        where = f"{path}: data[{a}]"
        paragraphs = objects(article.get("paragraphs"), "field 'paragraphs'", where, _HINT_SQUAD)
        for p, paragraph in enumerate(paragraphs):
            place = f"{where}.paragraphs[{p}]"
            context = Fields(paragraph, place, _HINT_SQUAD).text("context")
            for q, entry in enumerate(
                objects(paragraph.get("qas"), "field 'qas'", place, _HINT_SQUAD)
            ):
                at = f"{place}.qas[{q}]"
                if entry.get("is_impossible") is True:
                    continue
                yield RawQuestion(
                    id=_identifier(entry, at, "id"),
                    question=Fields(entry, at, _HINT_SQUAD).text("question").strip(),
                    answers=_answers_squad(entry, at),
                    sources=(context,),
                    group=f"article {a}",
                    where=at,
                )


def _answers_squad(entry: Mapping[str, Any], where: str) -> tuple[str, ...]:
    listed = objects(entry.get("answers"), "field 'answers'", where, _HINT_SQUAD)
    if not listed:
        raise InputError("field 'answers' is empty", where=where, hint=_HINT_SQUAD)
    return answer_texts(
        [Fields(answer, where, _HINT_SQUAD).text("text") for answer in listed],
        "'answers'",
        where,
        _HINT_SQUAD,
    )
