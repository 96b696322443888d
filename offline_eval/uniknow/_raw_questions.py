"""What readers hand over, and how it becomes questions: merged, named and grouped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...guard import InputError, clean_text, normalise_answer
from ._cases import SuiteQuestion


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


@dataclass(slots=True)
class _Merged:
    id: str
    question: str
    answers: dict[str, None]
    sources: dict[str, None]
    group: str
    normalised: set[str] = field(default_factory=set)


def merged_questions(raw: Iterable[RawQuestion], name: str) -> tuple[SuiteQuestion, ...]:
    """Questions in the order of the file, those asked in several paragraphs once.

    Two are the same if they share the id, or the wording and an answer; sources and
    answers are put together then, and the groups of both count as one. Those that share
    the wording alone stay apart. Questions whose answers are punctuation alone are left
    out: after normalisation no reply could equal them.

    Raises:
        InputError: one id for two wordings.
    """
    raw = list(raw)
    taken = {one.id for one in raw if one.id is not None}
    groups = _Groups()
    by_id: dict[str, _Merged] = {}
    by_wording: dict[str, list[_Merged]] = {}
    merged: list[_Merged] = []
    for number, one in enumerate(raw, start=1):
        name_of = one.id or _free_id(number, taken)
        wording = " ".join(one.question.casefold().split())
        normalised = {normalise_answer(answer) for answer in one.answers} - {""}
        if not normalised:
            continue
        found = by_id.get(name_of)
        if found is not None and " ".join(found.question.casefold().split()) != wording:
            raise InputError(
                "the id was used before for another question",
                where=one.where,
                mend="give every question an id of its own",
            )
        if found is None:
            alike = by_wording.setdefault(wording, [])
            found = next((other for other in alike if other.normalised & normalised), None)
            if found is None:
                found = _Merged(name_of, one.question, {}, {}, one.group or name_of)
                merged.append(found)
                alike.append(found)
            by_id[name_of] = found
        found.answers.update(dict.fromkeys(one.answers))
        found.sources.update(dict.fromkeys(one.sources))
        found.normalised |= normalised
        groups.join(found.group, one.group or found.group)
    return tuple(
        SuiteQuestion(
            one.id, one.question, tuple(one.answers), name, groups.of(one.group), tuple(one.sources)
        )
        for one in merged
    )


def _free_id(number: int, taken: set[str]) -> str:
    name = f"q{number}"
    while name in taken:
        name += "'"
    return name


class _Groups:
    """Groups that turn out to be one; the name of the first stands for all."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def of(self, name: str) -> str:
        while (first := self._first.get(name, name)) != name:
            name = first
        return name

    def join(self, name: str, other: str) -> None:
        first, second = self.of(name), self.of(other)
        if first != second:
            self._first[second] = first


def text_field(value: Mapping[str, Any], name: str, where: str, mend: str) -> str:
    """A field that must be text with something in it, cleaned.

    Raises:
        InputError: it is missing, no text, or empty.
    """
    found = value.get(name)
    if found is None:
        raise InputError(f"field '{name}' is missing", where=where, mend=mend)
    if not isinstance(found, str):
        raise InputError(
            f"field '{name}' must be text, found {type(found).__name__}", where=where, mend=mend
        )
    text = clean_text(found)
    if not text.strip():
        raise InputError(f"field '{name}' is empty", where=where, mend=mend)
    return text


def identifier(value: Mapping[str, Any], names: tuple[str, ...], where: str) -> str | None:
    """The first of several fields that is there, as text; None without one.

    Raises:
        InputError: it is neither text nor a whole number, or empty.
    """
    for name in names:
        found = value.get(name)
        if found is None:
            continue
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise InputError(
                f"field '{name}' must be text or a whole number, found {type(found).__name__}",
                where=where,
            )
        text = clean_text(str(found)).strip()
        if not text:
            raise InputError(f"field '{name}' is empty", where=where)
        return text
    return None


def objects(value: object, what: str, where: str, mend: str) -> list[Mapping[str, Any]]:
    """`value` as a list of JSON objects.

    Raises:
        InputError: it is anything else.
    """
    if not isinstance(value, list):
        raise InputError(f"{what} must be a list", where=where, mend=mend)
    for item in value:
        if not isinstance(item, dict):
            raise InputError(
                f"{what} must hold JSON objects, found {type(item).__name__}",
                where=where,
                mend=mend,
            )
    return value


def answer_texts(value: object, what: str, where: str, mend: str) -> tuple[str, ...]:
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
                mend=mend,
            )
        if isinstance(item, float) and not math.isfinite(item):
            raise InputError(f"{what} holds NaN or infinity", where=where, mend=mend)
        text = " ".join(clean_text(str(item)).split())
        if text:
            found[text] = None
    if not found:
        raise InputError(f"{what} holds no answer", where=where, mend=mend)
    return tuple(found)
