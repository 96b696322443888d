"""SQuAD-style JSON: articles, their paragraphs, and the questions to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...guard import InputError
from ._raw_questions import RawQuestion, answer_texts, identifier, objects, text_field

_MEND = 'expected {"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": [{"text": …}]}]}]}]}'  # noqa: E501


def squad_questions(document: Mapping[str, Any], path: str) -> Iterator[RawQuestion]:
    """The questions of a document, in its order; those marked impossible are left out.

    Args:
        document: the whole file.
        path: named in errors, with the place inside the document.

    Raises:
        InputError: a field is missing or of the wrong type.
    """
    articles = objects(document.get("data"), "field 'data'", path, _MEND)
    for a, article in enumerate(articles):
        where = f"{path}: data[{a}]"
        paragraphs = objects(article.get("paragraphs"), "field 'paragraphs'", where, _MEND)
        for p, paragraph in enumerate(paragraphs):
            place = f"{where}.paragraphs[{p}]"
            context = text_field(paragraph, "context", place, _MEND)
            for q, entry in enumerate(objects(paragraph.get("qas"), "field 'qas'", place, _MEND)):
                at = f"{place}.qas[{q}]"
                if entry.get("is_impossible") is True:
                    continue
                yield RawQuestion(
                    id=identifier(entry, ("id",), at),
                    question=text_field(entry, "question", at, _MEND).strip(),
                    answers=_answers(entry, at),
                    sources=(context,),
                    group=f"article {a}",
                    where=at,
                )


def _answers(entry: Mapping[str, Any], where: str) -> tuple[str, ...]:
    listed = objects(entry.get("answers"), "field 'answers'", where, _MEND)
    if not listed:
        raise InputError("field 'answers' is empty", where=where, mend=_MEND)
    return answer_texts(
        [text_field(answer, "text", where, _MEND) for answer in listed], "'answers'", where, _MEND
    )
