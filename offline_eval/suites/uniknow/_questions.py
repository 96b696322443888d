"""Read a data set: MRQA, SQuAD or plain JSON lines, merged, grouped and named."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ....guard.errors import InputError
from ....guard.files import read_text
from ....guard.matching import normalise_answer
from ....guard.text import clean_text
from ...data import Fields
from ...testbed import default_world
from ._bundled import (
    FACTS,
    FACTS_FILE,
    MICROWORLD,
    MOST_PASSAGES,
    fact_prompts,
    fact_questions,
    microworld_prompts,
    microworld_questions,
)
from ._cases import Dataset, PromptSet, SuiteQuestion, instructed_prompts
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


_HINT_PLAIN = (
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
            raise InputError("field 'answers' is missing", where=where, hint=_HINT_PLAIN)
        yield RawQuestion(
            id=_identifier(line, where, "id", "qid", "question_id"),
            question=Fields(line, where, _HINT_PLAIN).text("question").strip(),
            answers=answer_texts(answers, "'answers'", where, _HINT_PLAIN),
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
                    f"field '{name}' must be text or a list of texts", where=where, hint=_HINT_PLAIN
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


_GZIP = b"\x1f\x8b"
# The data sets that are read take a tenth of it; a packed file of kilobytes can hold more.
_MOST_UNPACKED = 1 << 30
_BUNDLED = {MICROWORLD: microworld_questions, FACTS: fact_questions}
_HINT = "use MRQA or plain JSON lines, or SQuAD-style JSON"


def read_dataset(
    spec: str | os.PathLike[str], *, limit: int | None = None, seed: int = 0
) -> Dataset:
    """Read a data set of the suite.

    Args:
        spec: `microworld`, `facts`, or a file: MRQA `.jsonl` or `.jsonl.gz`, SQuAD-style
            `.json`, or JSON lines with `question` and `answers` (or `answer`), `context` or
            `passages`, `id` and `group`. The content decides which format it is, not the name.
        limit: at most that many questions, drawn by `seed`, in their order; all by default.
        seed: also picks the phrasing of each bundled question.

    Returns:
        At least one question.

    Raises:
        InputError: no such file, or something in it is wrong; the message names file and
            line, or the place inside a JSON document.
    """
    if limit is not None and limit < 1:
        raise InputError("must be at least 1", where="limit")
    bundled = _BUNDLED.get(os.fspath(spec))
    if bundled is not None:
        questions = bundled(seed=seed)
    else:
        path = Path(spec)
        name = path.name.split(".")[0] or path.name
        questions = _merged_questions(_raw_questions(path), name)
        if not questions:
            raise InputError("there is no question with an answer", where=str(path), hint=_HINT)
    return dataset_of(spec, _drawn(questions, limit, seed))


def dataset_of(spec: str | os.PathLike[str], questions: Sequence[SuiteQuestion]) -> Dataset:
    """Return the data set of some questions, at least one.

    Args:
        spec: as for `read_dataset`.
        questions: that were read.
    """
    name, prompts = questions[0].dataset, prompts_of(spec)
    if os.fspath(spec) == MICROWORLD:
        return Dataset(name, tuple(questions), prompts, default_world(), MOST_PASSAGES)
    return Dataset(name, tuple(questions), prompts)


def prompts_of(spec: str | os.PathLike[str]) -> PromptSet:
    """Return the prompts of a data set."""
    made = {MICROWORLD: microworld_prompts, FACTS: fact_prompts}
    return made.get(os.fspath(spec), instructed_prompts)()


def question_file(spec: str | os.PathLike[str]) -> Path | None:
    """Return the file that the questions of a data set are read from; None for the microworld."""
    name = os.fspath(spec)
    return None if name == MICROWORLD else FACTS_FILE if name == FACTS else Path(spec)


def completes(spec: str | os.PathLike[str]) -> bool:
    """Return whether the prompts of a data set are continued, outside of a chat template."""
    return os.fspath(spec) == FACTS


def _drawn(
    questions: tuple[SuiteQuestion, ...], limit: int | None, seed: int
) -> tuple[SuiteQuestion, ...]:
    if limit is None or limit >= len(questions):
        return questions
    picked = Random(f"uniknow/limit/{seed}").sample(range(len(questions)), limit)  # noqa: S311
    return tuple(questions[index] for index in sorted(picked))


def _raw_questions(path: Path) -> Iterator[RawQuestion]:
    text = _text(path)
    if (document := _whole_document(text)) is not None:
        return squad_questions(document, str(path))
    lines = list(_lines(text, str(path)))
    if not lines:
        raise InputError("the file is empty", where=str(path), hint=_HINT)
    return mrqa_questions(lines) if is_mrqa(lines[0][1]) else plain_questions(lines)


def _text(path: Path) -> str:
    """Return the UTF-8 text of a file, unpacked if it is a gzip file."""
    if not (path.is_file() and _begins_with(path, _GZIP)):
        return read_text(path)
    try:
        with gzip.open(path, "rb") as stream:
            raw = stream.read(_MOST_UNPACKED + 1)
        if len(raw) > _MOST_UNPACKED:
            raise InputError(
                f"grows beyond {_MOST_UNPACKED:,} bytes when it is unpacked",
                where=str(path),
                hint="unpack it, and name a part of it",
            )
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(path), hint="save it as UTF-8") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError("broken gzip file", where=str(path), hint="fetch it again") from None


def _begins_with(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(start)) == start
    except OSError:
        return False  # `read_text` says why


def _whole_document(text: str) -> Mapping[str, Any] | None:
    """The SQuAD-style document that the text is; None where it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "data" in value else None


def _lines(text: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # Not splitlines(): U+2028 and friends are legal inside JSON strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            fallback = "nested too deeply" if isinstance(error, RecursionError) else "a long number"
            raise InputError(
                f"broken JSON ({getattr(error, 'msg', fallback)})", where=where, hint=_HINT
            ) from None
        if not isinstance(value, dict):
            raise InputError(
                f"expected a JSON object, found {type(value).__name__}",
                where=where,
                hint=_HINT,
            )
        yield where, value


@dataclass(slots=True)
class _Merged:
    id: str
    question: str
    answers: dict[str, None]
    sources: dict[str, None]
    group: str
    normalised: set[str] = field(default_factory=set)


def _merged_questions(raw: Iterable[RawQuestion], name: str) -> tuple[SuiteQuestion, ...]:
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
                hint="give every question an id of its own",
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
