"""Read a data set: MRQA, SQuAD or plain JSON lines, merged, grouped and named."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    model_validator,
)

from ....guard.errors import InputError
from ....guard.files import read_text
from ....guard.matching import normalise_answer
from ....guard.read_models import check_model
from ....guard.text import clean_text
from ._bundled import (
    FACTS,
    FACTS_FILE,
    MICROWORLD,
    fact_questions,
    microworld_questions,
    prompts_of,
)
from ._cases import Dataset, Question
from ._matching import occurrences

_GZIP = b"\x1f\x8b"
# The data sets that are read take a tenth of it; a packed file of kilobytes can hold more.
_MOST_UNPACKED = 1 << 30
_BUNDLED = {MICROWORLD: microworld_questions, FACTS: fact_questions}
_HINT = "use MRQA or plain JSON lines, or SQuAD-style JSON"
_HINT_PLAIN = (
    'each line needs "question" and "answers" (or "answer"), and may have "context" or '
    '"passages", "id" and "group"'
)
_HINT_MRQA = 'a line needs "context" and "qas", each with "question" and "answers"'
_HINT_SQUAD = 'expected {"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": [{"text": …}]}]}]}]}'  # noqa: E501
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
    bundled = _BUNDLED.get(os.fspath(spec))
    if bundled is not None:
        questions = bundled(seed=seed)
    else:
        path = Path(spec)
        name = path.name.split(".")[0] or path.name
        questions = _merged_questions(list(_asked(path)), name)
        if not questions:
            raise InputError("there is no question with an answer", where=str(path), hint=_HINT)
    if limit is not None and limit < len(questions):
        picked = Random(f"uniknow/limit/{seed}").sample(range(len(questions)), limit)  # noqa: S311
        questions = tuple(questions[index] for index in sorted(picked))
    return dataset_of(spec, questions)


def dataset_of(spec: str | os.PathLike[str], questions: Sequence[Question]) -> Dataset:
    """Return the data set of some questions, at least one.

    Args:
        spec: as for `read_dataset`.
        questions: that were read.
    """
    bundled = os.fspath(spec) if os.fspath(spec) in _BUNDLED else ""
    return Dataset(questions[0].dataset, tuple(questions), prompts_of(spec), bundled)


def question_file(spec: str | os.PathLike[str]) -> Path | None:
    """Return the file that the questions of a data set are read from; None for the microworld."""
    name = os.fspath(spec)
    return None if name == MICROWORLD else FACTS_FILE if name == FACTS else Path(spec)


def _filled(text: str) -> str:
    if not clean_text(text).strip():
        raise ValueError("is empty")
    return clean_text(text).strip()


def _listed(value: Any) -> Any:
    """Return a list; of objects with a text, their texts."""
    listed = value if isinstance(value, list) else [value]
    return [one["text"] if isinstance(one, dict) and "text" in one else one for one in listed]


def _different(texts: tuple[str, ...]) -> tuple[str, ...]:
    cleaned = (" ".join(clean_text(text).split()) for text in texts)
    return tuple(dict.fromkeys(text for text in cleaned if text))


def _passages(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(clean_text(text) for text in texts if clean_text(text).strip()))


_Text = Annotated[str, AfterValidator(_filled)]
# A number counts as text.
_Name = Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(_filled)]
_Answers = Annotated[
    tuple[Annotated[str, Field(coerce_numbers_to_str=True)], ...],
    BeforeValidator(_listed),
    AfterValidator(_different),
]
_Passages = Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_passages)]


class _Line(BaseModel):
    """An object of a file; a field that is null is not there."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: field for name, field in value.items() if field is not None}


class _Entry(_Line):
    """A question of any layout; those that have no answer are rejected or left out later."""

    id: _Name | None = Field(None, validation_alias=AliasChoices("qid", "id", "question_id"))
    question: _Text
    answers: _Answers = Field((), validation_alias=AliasChoices("answers", "answer"))
    detected_answers: _Answers = ()
    context: _Passages = ()
    passages: _Passages = ()
    group: _Name | None = None
    is_impossible: Any = False


class _PlainLine(_Entry):
    id: _Name | None = Field(None, validation_alias=AliasChoices("id", "qid", "question_id"))

    @model_validator(mode="after")
    def _has_an_answer(self) -> _PlainLine:
        if not self.answers:
            raise ValueError("field 'answers' holds no answer")
        return self


class _Paragraph(_Line):
    context: _Text
    qas: tuple[_Entry, ...]


class _Article(_Line):
    paragraphs: tuple[_Paragraph, ...]


class _SquadFile(_Line):
    data: tuple[_Article, ...]


@dataclass(slots=True)
class _Asked:
    """A question of a file, put together from all places that ask it.

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

    @property
    def wording(self) -> str:
        """The question without case and spaces that do not matter."""
        return " ".join(self.question.casefold().split())

    @property
    def normalised(self) -> set[str]:
        """The answers as replies are compared with them."""
        return {normalise_answer(answer) for answer in self.answers} - {""}


def _asked(path: Path) -> Iterator[_Asked]:
    """Yield the questions of a file, in its order; the content decides which format it is."""
    text, where = _text(path), str(path)
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and "data" in document:
        yield from _squad(check_model(_SquadFile, document, where=where, hint=_HINT_SQUAD), where)
        return
    lines = list(_lines(text, where))
    if not lines:
        raise InputError("the file is empty", where=where, hint=_HINT)
    first = lines[0][1]
    is_mrqa = isinstance(first, dict) and ("header" in first or {"context", "qas"} <= first.keys())
    for place, value in lines:
        if is_mrqa:
            yield from _mrqa(value, place)
        else:
            line = check_model(_PlainLine, value, where=place, hint=_HINT_PLAIN)
            sources = tuple(dict.fromkeys((*line.context, *line.passages)))
            yield _Asked(line.id, line.question, line.answers, sources, line.group, place)


def _mrqa(value: Any, where: str) -> Iterator[_Asked]:
    """Yield the questions of a line; answers are those listed and those found in the context."""
    if isinstance(value, dict) and "header" in value and "context" not in value:
        return
    line = check_model(_Paragraph, value, where=where, hint=_HINT_MRQA)
    sources = documents(line.context)
    for one in line.qas:
        spellings = map(tidy, (*one.answers, *one.detected_answers))
        answers = tuple(filter(None, dict.fromkeys(spellings)))
        if answers:
            held = [text for text in sources if occurrences(text, answers)]
            group = f"line {where.rpartition(':')[2]}"  # no path of this machine in results
            some = tuple((held or sources)[:_HELD])
            yield _Asked(one.id, tidy(one.question), answers, some, group, where)


def _squad(file: _SquadFile, where: str) -> Iterator[_Asked]:
    """Yield the questions of a document; those marked impossible are left out."""
    for number, article in enumerate(file.data):
        for paragraph in article.paragraphs:
            for one in paragraph.qas:
                if one.is_impossible is True:
                    continue
                if not one.answers:
                    what = f"question {one.question[:80]!r} has no answer"
                    raise InputError(what, where=where, hint=_HINT_SQUAD)
                sources = (paragraph.context,)
                yield _Asked(one.id, one.question, one.answers, sources, f"article {number}", where)


def _text(path: Path) -> str:
    """Return the UTF-8 text of a file, unpacked if it is a gzip file."""
    try:
        with path.open("rb") as stream:
            packed = stream.read(len(_GZIP)) == _GZIP
    except OSError:
        packed = False  # `read_text` says why
    if not packed:
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


def _lines(text: str, path: str) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): U+2028 and friends are legal inside JSON strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}:{number}"
            try:
                yield where, json.loads(line, parse_constant=_no_number)
            except (ValueError, RecursionError) as error:
                raise InputError(f"broken JSON ({error})", where=where, hint=_HINT) from None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _merged_questions(asked: Sequence[_Asked], name: str) -> tuple[Question, ...]:
    """Questions in the order of the file, those asked in several paragraphs once.

    Two are the same if they share the id, or the wording and an answer; sources and
    answers are put together then, and the groups of both count as one. Those that share
    the wording alone stay apart. Questions whose answers are punctuation alone are left
    out: after normalisation no reply could equal them.

    Raises:
        InputError: one id for two wordings.
    """
    taken = {one.id for one in asked if one.id is not None}
    joined: dict[str, str] = {}  # group → the one that stands for it
    by_id: dict[str, _Asked] = {}
    by_wording: dict[str, list[_Asked]] = {}

    def group_of(group: str) -> str:
        while group in joined:
            group = joined[group]
        return group

    for number, one in enumerate(asked, start=1):
        one.id = one.id or _free_id(number, taken)
        if not one.normalised:
            continue
        found = by_id.get(one.id)
        if found is not None and found.wording != one.wording:
            raise InputError(
                "the id was used before for another question",
                where=one.where,
                hint="give every question an id of its own",
            )
        alike = by_wording.setdefault(one.wording, [])
        same = (other for other in alike if other.normalised & one.normalised)
        found = found or next(same, None)
        if found is None:
            one.group = one.group or one.id
            alike.append(one)
            found = one
        else:
            found.answers = tuple(dict.fromkeys((*found.answers, *one.answers)))
            found.sources = tuple(dict.fromkeys((*found.sources, *one.sources)))
            first, second = group_of(str(found.group)), group_of(one.group or str(found.group))
            if first != second:
                joined[second] = first
        by_id.setdefault(one.id, found)
    return tuple(
        Question(
            str(one.id), one.question, one.answers, name, group_of(str(one.group)), one.sources
        )
        for one in {id(found): found for found in by_id.values()}.values()
    )


def _free_id(number: int, taken: Iterable[str]) -> str:
    name = f"q{number}"
    while name in taken:
        name += "'"
    return name


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
