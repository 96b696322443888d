"""Read a data set: MRQA, SQuAD or plain JSON lines, merged, grouped and named."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import count
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
from ...data.labels import units
from ..names import occurrences
from ._bundled import (
    FACTS,
    FACTS_FILE,
    MICROWORLD,
    fact_questions,
    microworld_questions,
    prompts_of,
)
from ._cases import Dataset, Question

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


class _Asked(BaseModel):
    """A question of a file, put together from all places that ask it; null is not there.

    Attributes:
        id: as the file has it; None where it has none.
        question: as asked.
        answers: and those that MRQA found in the context.
        passages: texts that may hold an answer, the context first.
        group: questions of one document share it; None where the file does not say.
        where: place in the file, for messages.
    """

    id: _Name | None = Field(None, validation_alias=AliasChoices("id", "qid", "question_id"))
    question: _Text
    answers: _Answers = Field((), validation_alias=AliasChoices("answers", "answer"))
    detected_answers: _Answers = ()
    context: _Passages = ()
    passages: _Passages = ()
    group: _Name | None = None
    where: str = ""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: field for name, field in value.items() if field is not None}

    @property
    def wording(self) -> str:
        """The question without case and spaces that do not matter."""
        return " ".join(self.question.casefold().split())

    @property
    def normalised(self) -> set[str]:
        """The answers as replies are compared with them."""
        return {normalise_answer(answer) for answer in self.answers} - {""}


def _checked(value: Any, where: str, hint: str) -> _Asked:
    one = check_model(_Asked, value, where=where, hint=hint)
    one.where, one.passages = where, tuple(dict.fromkeys((*one.context, *one.passages)))
    return one


def _asked(path: Path) -> Iterator[_Asked]:
    """Yield the questions of a file, in its order; the content decides which format it is."""
    text, where = _text(path), str(path)
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and "data" in document:
        for number, article in enumerate(_list(document, "data", where, _HINT_SQUAD)):
            for paragraph in _list(article, "paragraphs", where, _HINT_SQUAD):
                asked = _of_paragraph(paragraph, f"article {number}", where, _HINT_SQUAD)
                yield from map(_with_answer, asked)
        return
    lines = list(_lines(text, where))
    if not lines:
        raise InputError("the file is empty", where=where, hint=_HINT)
    first = lines[0][1]
    is_mrqa = isinstance(first, dict) and ("header" in first or {"context", "qas"} <= first.keys())
    for place, value in lines:
        if not is_mrqa:
            yield _with_answer(_checked(value, place, _HINT_PLAIN))
        elif not (isinstance(value, dict) and "header" in value and "context" not in value):
            group = f"line {place.rpartition(':')[2]}"  # no path of this machine in results
            asked = map(_tidied, _of_paragraph(value, group, place, _HINT_MRQA))
            yield from (one for one in asked if one.answers)


def _list(value: Any, name: str, where: str, hint: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise InputError(f"field {name!r} must be a list", where=where, hint=hint)
    return found


def _of_paragraph(value: Any, group: str, where: str, hint: str) -> Iterator[_Asked]:
    """Yield the questions about a context; those marked impossible are left out."""
    for one in _list(value, "qas", where, hint):
        if not isinstance(one, dict) or not value.get("context"):
            raise InputError(
                "'qas' holds no object, or no 'context' is beside it", where=where, hint=hint
            )
        if one.get("is_impossible") is not True:
            name = one.get("qid", one.get("id"))
            about = {"context": value.get("context"), "id": name, "group": group}
            yield _checked({**one, **about}, where, hint)


def _with_answer(one: _Asked) -> _Asked:
    if not one.answers:
        what = f"question {one.question[:80]!r} has no answer"
        raise InputError(what, where=one.where, hint=_HINT)
    return one


def _tidied(one: _Asked) -> _Asked:
    """Return a question of an MRQA file as prose, with the documents that hold an answer."""
    spellings = map(tidy, (*one.answers, *one.detected_answers))
    one.question, one.answers = tidy(one.question), tuple(filter(None, dict.fromkeys(spellings)))
    sources = [text for context in one.passages for text in documents(context)]
    held = [text for text in sources if occurrences(text, one.answers)]
    one.passages = tuple((held or sources)[:_HELD])
    return one


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


def _merged_questions(asked: Sequence[_Asked], of: str) -> tuple[Question, ...]:
    """Questions in the order of the file, those asked in several paragraphs once.

    Two are the same if they share the id, or the wording and an answer; sources and
    answers are put together then, and the groups of both count as one. Those that share
    the wording alone stay apart. Questions whose answers are punctuation alone are left
    out: after normalisation no reply could equal them.

    Raises:
        InputError: one id for two wordings.
    """
    taken = {one.id for one in asked if one.id is not None}
    by_id: dict[str, _Asked] = {}
    by_wording: dict[str, list[_Asked]] = {}
    groups: dict[str, set[str]] = {}
    for number, one in enumerate(asked, start=1):
        free = (f"q{number}" + "'" * more for more in count())
        name = one.id = one.id or next(one for one in free if one not in taken)
        if not one.normalised:
            continue
        found = by_id.get(name)
        if found is not None and found.wording != one.wording:
            raise InputError(
                "the id was used before for another question",
                where=one.where,
                hint="give every question an id of its own",
            )
        alike = by_wording.setdefault(one.wording, [])
        same = (other for other in alike if other.normalised & one.normalised)
        found = found or next(same, one)
        if found is one:
            alike.append(one)
        found.group = found.group or str(found.id)
        groups.setdefault(str(found.id), set()).add(one.group or found.group)
        found.answers = tuple(dict.fromkeys((*found.answers, *one.answers)))
        found.passages = tuple(dict.fromkeys((*found.passages, *one.passages)))
        by_id.setdefault(name, found)
    return tuple(
        Question(name, one.question, one.answers, of, str(by_id[first].group), one.passages)
        for name, first in units(groups).items()
        for one in [by_id[name]]
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
