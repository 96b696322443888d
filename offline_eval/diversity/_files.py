"""The filter from file to file, each in the form in which it came."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...guard import InputError
from ...guard.files import atomic_writer, read_jsonl, read_text
from ..knowledge_base import QuestionRecord, read_questions
from ..ookb import Encoder
from ._diverse import Diverse, DiversitySettings, StageProgress, diverse_questions

_ID_FIELDS = ("id", "question_id", "identifier")


def filter_questions_file(
    questions: str | os.PathLike[str],
    out: str | os.PathLike[str],
    dropped: str | os.PathLike[str],
    encoder: Encoder | None = None,
    settings: DiversitySettings | None = None,
    *,
    on_progress: StageProgress | None = None,
) -> Diverse:
    """Write the questions that are kept, and what was dropped and why.

    Args:
        questions: see `read_questions`.
        out: the kept ones: JSON lines for JSON lines, and under a name that ends so; else a
            document for a document. Every field of a question is as it was; one without
            an id gets the one that it goes by.
        dropped: JSON lines, one per dropped question, see `Dropped`.
        encoder: see `diverse_questions`.
        settings: likewise.
        on_progress: likewise.

    Raises:
        InputError: the questions cannot be used, fewer than two are left, or two of the
            paths are one file; nothing is written.
    """
    records = read_questions(questions)
    _require_apart({"questions": questions, "out": out, "dropped": dropped})
    document = _Document(Path(questions), records)
    found = diverse_questions(records, encoder, settings, on_progress=on_progress)
    if len(found.kept) < 2:
        raise InputError(
            "fewer than two questions are left",
            where=os.fspath(questions),
            mend="lower the thresholds",
        )
    text = document.text({record.question_id for record in found.kept}, _is_lines(out))
    # Both or neither: each is begun before either takes its place.
    with atomic_writer(out) as kept, atomic_writer(dropped) as report:
        kept.write(text)
        for one in found.dropped:
            report.write(json.dumps(asdict(one), ensure_ascii=False, allow_nan=False) + "\n")
    return found


class _Document:
    """The file as it stands, with the id of each of its records."""

    def __init__(self, path: Path, records: Sequence[QuestionRecord]) -> None:
        self._whole: Any = None
        if not _is_lines(path):
            try:
                self._whole = json.loads(read_text(path))
            except ValueError:  # lines under another name
                self._whole = None
        whole = self._whole
        values = whole.get("questions") if isinstance(whole, Mapping) else whole
        if not isinstance(values, list):
            self._whole, values = None, [value for _, value in read_jsonl(path)]
        self._rows = [
            (record.question_id, _named(value, record.question_id))
            for record, value in zip(records, values, strict=True)
        ]

    def text(self, kept: set[str], lines: bool) -> str:
        """The file without the records that are not kept; `lines` where its name promises them."""
        rows = [value for name, value in self._rows if name in kept]
        if self._whole is None or lines:
            return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        whole = {**self._whole, "questions": rows} if isinstance(self._whole, dict) else rows
        return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def _is_lines(path: str | os.PathLike[str]) -> bool:
    return Path(path).suffix.lower() in (".jsonl", ".ndjson")


def _named(value: Mapping[str, Any], identifier: str) -> dict[str, Any]:
    if any(value.get(name) is not None for name in _ID_FIELDS):
        return dict(value)
    # Its default id goes by its place, which it may lose.
    return {"id": identifier, **{name: one for name, one in value.items() if name != "id"}}


def _require_apart(paths: Mapping[str, str | os.PathLike[str]]) -> None:
    seen: dict[str, str] = {}
    for name, path in paths.items():
        place = os.path.realpath(path)
        if place in seen:
            raise InputError(
                f"{seen[place]} and {name} are one file",
                where=os.fspath(path),
                mend="name different files",
            )
        seen[place] = name
