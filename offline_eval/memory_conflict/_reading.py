"""Reading questions with several answers: three layouts, told apart by their fields."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...guard import InputError, clean_text
from ...guard.files import read_json, read_jsonl, read_text
from ._items import Candidate, ConflictItem, UnusableQuestionError

_MEND = (
    "each line has `memory_answer` and `counter_answer` (ConflictQA), `context1`, `answer1`, "
    "`context2` and `answer2` (WikiContradict), or `question` and `answers`"
)
_SUFFIXES = (".json", ".jsonl", ".csv")
_Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConflictSet:
    """Questions, and what was odd in their files.

    Attributes:
        items: in the order of files and lines.
        quirks: one sentence per question that was left out, with its place.
    """

    items: tuple[ConflictItem, ...]
    quirks: tuple[str, ...] = ()


def read_conflict_set(path: str | os.PathLike[str]) -> ConflictSet:
    """The questions of a file, or of all files in a folder.

    Files are JSON lines, JSON (a list, or an object that holds one) or CSV. Lines of three
    layouts are understood, each also with further fields:

    - ConflictQA: what a named model believes (`memory_answer`, `parametric_memory`) and the
      opposite (`counter_answer`, `counter_memory`), each with a second passage (`…_aligned_
      evidence`). The belief is given.
    - WikiContradict: `question`, `context1`, `answer1`, `context2`, `answer2`.
    - any set: `question` and `answers`, a list of texts or of objects with `text`, `aliases`,
      `evidence` (one passage or several) and `implausible`; besides, where wanted, `id`,
      `belief` (the text of an answer), `wordings` and `distractors`.

    Keys are `<file>/<id or number of the line>`. A question from which no conflict can be made,
    because both answers are the same, say, is left out and listed.

    Raises:
        InputError: nothing there, or a line that is none of these; names file and line.
    """
    files = conflict_files(path)
    items: dict[str, ConflictItem] = {}
    quirks = []
    for file in files:
        for where, number, fields in _lines(file):
            try:
                item = _item(fields, f"{file.stem}/{number}", where)
            except UnusableQuestionError as error:
                quirks.append(f"{file.name}, {number}: {error.what}; left out")
                continue
            if item.key in items:
                raise InputError(f"the id of {item.key[:80]!r} came before", where=where)
            items[item.key] = item
    if quirks and not items:
        raise InputError(
            f"no question is left of {len(quirks)}", where=os.fspath(path), mend=quirks[0]
        )
    if not items:
        raise InputError("holds no questions", where=os.fspath(path), mend=_MEND)
    return ConflictSet(tuple(items.values()), tuple(quirks))


def conflict_files(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """The files of questions in a folder, by name; a file stands for itself."""
    root = Path(path)
    if not root.is_dir():
        return (root,)
    return tuple(sorted(file for file in root.iterdir() if file.suffix in _SUFFIXES))


def _lines(file: Path) -> Iterator[tuple[str, int, _Fields]]:
    if file.suffix == ".jsonl":
        for number, value in read_jsonl(file):
            yield f"{file}:{number}", number, value
        return
    if file.suffix == ".csv":
        text = io.StringIO(read_text(file), newline="")
        try:
            for number, row in enumerate(csv.DictReader(text, strict=True), start=1):
                yield f"{file}, row {number}", number, {k: v for k, v in row.items() if k}
        except csv.Error as error:
            raise InputError(f"broken CSV ({error})", where=str(file), mend="mend it") from None
        return
    for number, fields in enumerate(_entries(file), start=1):
        if not isinstance(fields, dict):
            raise InputError("is no object", where=f"{file}, entry {number}", mend=_MEND)
        yield f"{file}, entry {number}", number, fields


def _entries(file: Path) -> list[Any]:
    found = read_json(file)
    if isinstance(found, dict) and "question" in found:
        found = [found]
    elif isinstance(found, dict):
        # {"data": […]}, or questions by their ids.
        lists = [value for value in found.values() if isinstance(value, list)]
        found = lists[0] if len(lists) == 1 else [*found.values()]
    if not isinstance(found, list):
        raise InputError("expected a list of questions", where=str(file), mend=_MEND)
    return found


def _item(fields: _Fields, key: str, where: str) -> ConflictItem:
    try:
        for name, read in _LAYOUTS.items():
            if name in fields:
                return read(fields, key)
    except UnusableQuestionError:
        raise
    except InputError as error:
        # The lead is the line; what the item says of itself is its key.
        raise InputError(error.what, where=where, mend=error.mend or _MEND) from None
    raise InputError("is no question with several answers", where=where, mend=_MEND)


def _conflictqa(fields: _Fields, key: str) -> ConflictItem:
    return ConflictItem(
        key=key,
        question=_text(fields, "question"),
        answers=tuple(
            Candidate(
                _text(fields, f"{side}_answer"),
                passages=_some(fields, passage, f"{passage}_aligned_evidence"),
            )
            for side, passage in (("memory", "parametric_memory"), ("counter", "counter_memory"))
        ),
        given=0,
    )


def _wikicontradict(fields: _Fields, key: str) -> ConflictItem:
    number = fields.get("question_ID", fields.get("question_id"))
    stem = key.rpartition("/")[0]
    return ConflictItem(
        key=key if number in (None, "") else f"{stem}/{clean_text(str(number))}",
        question=_text(fields, "question"),
        answers=tuple(
            Candidate(_text(fields, f"answer{side}"), passages=_some(fields, f"context{side}"))
            for side in (1, 2)
        ),
    )


def _any_set(fields: _Fields, key: str) -> ConflictItem:
    answers = fields["answers"]
    if not isinstance(answers, list):
        raise InputError("field 'answers' must be a list")
    candidates = tuple(_candidate(answer) for answer in answers)
    belief, given = fields.get("belief"), None
    if belief is not None:
        names = [i for i, answer in enumerate(candidates) if belief in answer.names]
        if len(names) != 1:
            raise InputError("field 'belief' must be the text of one answer")
        given = names[0]
    identifier = fields.get("id")
    stem = key.rpartition("/")[0]
    return ConflictItem(
        key=key if identifier is None else f"{stem}/{clean_text(str(identifier))}",
        question=_text(fields, "question"),
        answers=candidates,
        given=given,
        wordings=_texts(fields, "wordings"),
        distractors=_texts(fields, "distractors"),
    )


_LAYOUTS: Mapping[str, Callable[[_Fields, str], ConflictItem]] = {
    "memory_answer": _conflictqa,
    "answer1": _wikicontradict,
    "answers": _any_set,
}


def _candidate(answer: object) -> Candidate:
    if isinstance(answer, str):
        return Candidate(clean_text(answer).strip())
    if not isinstance(answer, dict):
        raise InputError("an answer must be text or an object with 'text'")
    implausible = answer.get("implausible", False)
    if not isinstance(implausible, bool):
        raise InputError("field 'implausible' must be true or false")
    return Candidate(
        _text(answer, "text"),
        _texts(answer, "aliases"),
        _texts(answer, "evidence"),
        implausible=implausible,
    )


def _text(fields: _Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InputError(f"field {name!r} must be text")
    return clean_text(value).strip()


def _texts(fields: _Fields, name: str) -> tuple[str, ...]:
    value = fields.get(name)
    found: Sequence[object] = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise InputError(f"field {name!r} must be a list of texts")
    return tuple(clean_text(str(text)).strip() for text in found if str(text).strip())


def _some(fields: _Fields, *names: str) -> tuple[str, ...]:
    return tuple(text for name in names for text in _texts(fields, name))
