"""Questions about passages, as reading comprehension has them: MRQA, SQuAD and JSON lines."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
)

from ....guard.errors import NO_JSON, InputError
from ....guard.files import read_text
from ....guard.matching import normalise_answer
from ....guard.read_models import Model, check_model
from ....guard.text import clean_text
from ..answers.matching import occurrences
from ..fields import without_nulls
from ..labels import units
from ..rules import Rules

# The data sets that are read take a tenth of it; a packed file of kilobytes can hold more.
_MOST_UNPACKED = 1 << 30
_RULES = Rules(__file__, "reading_comprehension")
_RULE, _HINTS = _RULES.patterns, _RULES.table["hints"]
# Documents of a context at most; more would only repeat the answer.
_HELD = 20


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


class AskedQuestion(BaseModel):
    """A question of a file, put together from all places that ask it; null is not there.

    Attributes:
        id: as the file has it, else made up; unique once the file is read.
        question: as asked.
        answers: and those that MRQA found in the context.
        passages: texts that may hold an answer, the context first.
        group: questions of one document share it.
        where: place in the file, for messages.
    """

    id: _Name = Field("", validation_alias=AliasChoices("qid", "id", "question_id"))
    question: _Text
    answers: _Answers = Field((), validation_alias=AliasChoices("answers", "answer"))
    detected_answers: _Answers = ()
    context: _Passages = ()
    passages: _Passages = ()
    group: _Name = ""
    is_impossible: Any = False
    where: str = ""

    @property
    def wording(self) -> str:
        """The question without case and spaces that do not matter."""
        return " ".join(self.question.casefold().split())

    @property
    def normalised(self) -> set[str]:
        """The answers as replies are compared with them."""
        return {normalise_answer(answer) for answer in self.answers} - {""}

    def placed(self, where: str) -> AskedQuestion:
        """Return the question as it stands in the file, with an answer.

        Raises:
            InputError: it has none.
        """
        if not self.answers:
            what = f"question {self.question[:80]!r} has no answer"
            raise InputError(what, where=where, hint=_HINTS["any"])
        self.where, self.passages = where, tuple(dict.fromkeys((*self.context, *self.passages)))
        return self


class _Paragraph(BaseModel):
    context: Annotated[str, Field(min_length=1)]
    qas: tuple[AskedQuestion, ...]

    def asked(self, group: str) -> Iterator[AskedQuestion]:
        """Yield the questions about the context; those marked impossible are left out."""
        for one in self.qas:
            if one.is_impossible is not True:
                one.context, one.group = _passages((self.context,)), group
                yield one


class _Article(BaseModel):
    paragraphs: tuple[_Paragraph, ...]


def read_reading_comprehension(path: Path) -> list[AskedQuestion]:
    """Read the questions of a file: MRQA (perhaps packed), SQuAD-style, or JSON lines.

    Two are the same if they share the id, or the wording and an answer; sources and
    answers are put together then, and the groups of both count as one. Those that share
    the wording alone stay apart. Questions whose answers are punctuation alone are left
    out: after normalisation no reply could equal them.

    Args:
        path: the content decides which format it is, not the name.

    Returns:
        Questions in the order of the file, with unique ids; those asked in several paragraphs once.

    Raises:
        InputError: no such file, or something in it is wrong, or there is no question in it;
            names file and line, or the place inside a JSON document.
    """
    asked = list(_asked(path))
    taken = {one.id for one in asked}
    by_id: dict[str, AskedQuestion] = {}
    by_wording: dict[str, list[AskedQuestion]] = {}
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
        found.group = found.group or found.id
        groups.setdefault(found.id, set()).add(one.group or found.group)
        found.answers = tuple(dict.fromkeys((*found.answers, *one.answers)))
        found.passages = tuple(dict.fromkeys((*found.passages, *one.passages)))
        by_id.setdefault(name, found)
    merged = [
        by_id[name].model_copy(update={"id": name, "group": by_id[first].group})
        for name, first in units(groups).items()
    ]
    if not merged:
        raise InputError("there is no question with an answer", where=str(path), hint=_HINTS["any"])
    return merged


def _asked(path: Path) -> Iterator[AskedQuestion]:
    """Yield the questions of a file, in its order."""
    text, where = _text(path), str(path)
    try:
        document = json.loads(text, parse_constant=_no_number)
    except NO_JSON:
        document = None
    if isinstance(document, dict) and "data" in document:
        if not isinstance(document["data"], list):
            raise InputError("field 'data': expected a list", where=where, hint=_HINTS["squad"])
        for number, value in enumerate(document["data"]):
            article = _checked(_Article, value, f"{where}: data[{number}]", "squad")
            for paragraph in article.paragraphs:
                yield from (one.placed(where) for one in paragraph.asked(f"article {number}"))
        return
    lines = list(_lines(text, where))
    if not lines:
        raise InputError("the file is empty", where=where, hint=_HINTS["any"])
    first = lines[0][1]
    is_mrqa = isinstance(first, dict) and ("header" in first or {"context", "qas"} <= first.keys())
    for number, value in lines:
        place = f"{where}:{number}"
        if not is_mrqa:
            yield _checked(AskedQuestion, value, place, "plain").placed(place)
        elif not (isinstance(value, dict) and "header" in value and "context" not in value):
            paragraph = _checked(_Paragraph, value, place, "mrqa")
            # No path of this machine in results.
            tidied = map(_tidied, paragraph.asked(f"line {number}"))
            yield from (one.placed(place) for one in tidied if one.answers)


def _checked(model: type[Model], value: Any, where: str, form: str) -> Model:
    return check_model(model, without_nulls(value), where=where, hint=_HINTS[form])


def _tidied(one: AskedQuestion) -> AskedQuestion:
    """Return a question of an MRQA file as prose, with the documents that hold an answer."""
    spellings = map(tidy, (*one.answers, *one.detected_answers))
    one.question, one.answers = tidy(one.question), tuple(filter(None, dict.fromkeys(spellings)))
    sources = [text for context in (*one.context, *one.passages) for text in documents(context)]
    held = [text for text in sources if occurrences(text, one.answers)]
    one.context, one.passages = (), tuple((held or sources)[:_HELD])
    return one


def _text(path: Path) -> str:
    """Return the UTF-8 text of a file, unpacked if it is a gzip file."""
    where = str(path)
    try:
        with gzip.open(path) as stream:
            raw = stream.read(_MOST_UNPACKED + 1)
    except OSError:
        # Not packed; or it says why.
        return read_text(path)
    except (EOFError, zlib.error):
        raise InputError("broken gzip file", where=where, hint="fetch it again") from None
    if len(raw) > _MOST_UNPACKED:
        what = f"grows beyond {_MOST_UNPACKED:,} bytes when it is unpacked"
        raise InputError(what, where=where, hint="unpack it, and name a part of it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=where, hint="save it as UTF-8") from None


def _lines(text: str, path: str) -> Iterator[tuple[int, Any]]:
    # Not splitlines(): U+2028 and friends are legal inside JSON strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, json.loads(line, parse_constant=_no_number)
            except NO_JSON as error:
                where = f"{path}:{number}"
                raise InputError(
                    f"broken JSON ({error})",
                    where=where,
                    hint=_HINTS["any"],
                ) from None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def documents(context: str) -> tuple[str, ...]:
    """The documents of a context as plain prose, markers and HTML tags taken out.

    A title stays in front of its document, with a full stop.

    Example:
        >>> documents("[PAR] [TLE] Rome [SEP] It is old . [PAR] [TLE] Oslo [SEP] It is cold .")
        ('Rome. It is old.', 'Oslo. It is cold.')
    """
    found = []
    for part in _RULE["document"].split(context):
        titled = _RULE["title"].sub(lambda match: f"{match.group(1).rstrip('.')}. ", part, count=1)
        text = tidy(_RULE["mark"].sub(" ", titled))
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
    text = re.sub(r"``|''", '"', _RULE["tag"].sub(" ", text))
    text = _RULE["space_inside"].sub("", " ".join(text.split()))
    return _RULE["space_before"].sub("", text)
