"""Read a data set: merge the questions of a file, group them and name them."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ....guard.errors import InputError
from ....guard.files import read_text
from ....guard.matching import normalise_answer
from ...testbed import default_world
from ._cases import SuiteQuestion
from ._datasets import Dataset, PromptSet, instructed_prompts
from ._facts import FACTS, FACTS_FILE, fact_prompts, fact_questions
from ._microworld import MICROWORLD, MOST_PASSAGES, microworld_prompts, microworld_questions
from ._question_formats import (
    RawQuestion,
    is_mrqa,
    mrqa_questions,
    plain_questions,
    squad_questions,
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
