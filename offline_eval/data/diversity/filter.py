"""Filter questions: duplicates first, then words, then meaning."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, Field

from ....calibration.statistics import Floats
from ....guard.contracts import TextEmbedder
from ....guard.errors import InputError
from ....guard.files import AnyPath, atomic_writer
from ....guard.read_models import CheckedSettings
from ...run.calls import OnStep
from ..embedding import embed_all
from ..fields import ID_FIELDS, read_questions
from ..questions import QuestionRecord
from .uniqueness import TooNear, keyword_distinct, remove_duplicates

_ROWS_AT_ONCE = 512
_REASONS = {
    "duplicate": "occur twice",
    "near_duplicate": "nearly occur twice",
    "keywords": "not unique by keywords",
    "meaning": "too near in meaning",
}


class DiversitySettings(CheckedSettings, BaseModel, extra="forbid", frozen=True):
    """Settings of the filter.

    Attributes:
        keyword: how words are compared.
        semantic: how meanings are.
        keyword_threshold: in [0, 1]; the least uniqueness.
        semantic_threshold: the least cosine distance, above 0 and at most 2.
        near_duplicates: in [0, 1], see `remove_duplicates`; 0 for exact ones only.
    """

    keyword: Literal["uniqueness", "off"] = "uniqueness"
    semantic: Literal["farthest_first", "off"] = "farthest_first"
    keyword_threshold: float = Field(0.3, ge=0, le=1)
    semantic_threshold: float = Field(0.3, gt=0, le=2)
    near_duplicates: float = Field(0.05, ge=0, le=1)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A question that was not kept.

    Attributes:
        question_id: of the question.
        question: as it stood there.
        reason: the stage that dropped it: `duplicate`, `near_duplicate`, `keywords`, `meaning`.
        nearest: id of the question that it is too near to.
        score: what was too small: uniqueness of its words, or cosine distance.
        least: what it had to reach; None for exact duplicates.
        same_answer: whether both have the same answer. Where they have not, the knowledge base
            may contradict itself.
    """

    question_id: str
    question: str
    reason: str
    nearest: str
    score: float
    least: float | None
    same_answer: bool


@dataclass(frozen=True, slots=True)
class Diverse:
    """The questions that the filter kept, and those that it dropped.

    Attributes:
        kept: in the order of the input.
        dropped: in the order of the stages, and within one in that of the input.
    """

    kept: tuple[QuestionRecord, ...]
    dropped: tuple[Dropped, ...]

    def reasons(self) -> list[str]:
        """Return a sentence for each reason, and one where answers contradict each other."""
        counts = Counter(one.reason for one in self.dropped)
        lines = [f"{number} {_REASONS[reason]}" for reason, number in counts.items()]
        other = sum(one.same_answer is False for one in self.dropped if one.score == 0.0)
        if other:
            lines.append(
                f"{other} of them ask the same as a kept question and have another answer: "
                "the knowledge base may contradict itself."
            )
        return lines


def diverse_questions(
    questions: Sequence[QuestionRecord],
    encoder: TextEmbedder | None = None,
    settings: DiversitySettings | None = None,
    *,
    on_progress: OnStep | None = None,
) -> Diverse:
    """Select the questions that differ from each other, by words and by meaning.

    Dropped are first duplicates, exact and near ones; then questions whose words are not
    unique; then, by farthest-first selection from the first one left, those whose meaning is
    near to one that was picked.

    Args:
        questions: any number.
        encoder: needed for the last stage.
        settings: thresholds of 0.3 by default.
        on_progress: called with (done, in all) of each stage.

    Raises:
        InputError: the last stage has no encoder, or one that gives no proper embeddings.
    """
    settings = settings or DiversitySettings()
    if settings.semantic != "off" and encoder is None:
        hint = "give one, or set the semantic method to `off`"
        raise InputError("the semantic filter needs an encoder", where="encoder", hint=hint)
    left, dropped = list(questions), list[Dropped]()

    def texts() -> list[str]:
        return [record.question for record in left]

    def drop(reason: str, found: Sequence[TooNear], least: float) -> None:
        for one in found:
            record, nearest = left[one.index], left[one.of]
            told = Dropped(
                record.question_id,
                record.question,
                reason="duplicate" if one.exact else reason,
                nearest=nearest.question_id,
                score=one.uniqueness,
                least=None if one.exact else least,
                same_answer=nearest.answer.split() == record.answer.split(),
            )
            dropped.append(told)
        gone = {one.index for one in found}
        left[:] = [record for place, record in enumerate(left) if place not in gone]

    near, by_words = settings.near_duplicates, settings.keyword_threshold
    _, twice = remove_duplicates(texts(), near=near, on_progress=on_progress)
    drop("near_duplicate", twice, near)
    if settings.keyword == "uniqueness":
        _, found = keyword_distinct(texts(), min_uniqueness=by_words, on_progress=on_progress)
        drop("keywords", found, by_words)
    if settings.semantic == "farthest_first" and encoder is not None and left:
        vectors = embed_all(texts(), encoder, on_progress).astype(np.float64)
        least = settings.semantic_threshold
        drop("meaning", list(_by_meaning(vectors, least, on_progress)), least)
    return Diverse(tuple(left), tuple(dropped))


def _by_meaning(
    vectors: Floats,
    least: float,
    on_progress: OnStep | None,
) -> Iterator[TooNear]:
    picked = np.sort(farthest_first(vectors, min_distance=least, on_progress=on_progress))
    gone = np.setdiff1d(np.arange(len(vectors)), picked)
    rows = _unit_rows(vectors)
    for start in range(0, len(gone), _ROWS_AT_ONCE):
        part = gone[start : start + _ROWS_AT_ONCE]
        cosines = rows[part] @ rows[picked].T
        nearest = picked[cosines.argmax(axis=1)].tolist()
        for place, best, cosine in zip(part.tolist(), nearest, cosines.max(axis=1), strict=True):
            yield TooNear(place, best, max(0.0, 1.0 - float(cosine)))


def filter_questions_file(
    questions: AnyPath,
    out: AnyPath,
    dropped: AnyPath,
    encoder: TextEmbedder | None = None,
    settings: DiversitySettings | None = None,
    *,
    on_progress: OnStep | None = None,
) -> Diverse:
    """Write the questions that are kept, and what was dropped and why.

    Args:
        questions: see `QuestionRecord.read`.
        out: the kept ones as JSON lines. Every field of a question is as it was; one without an
            id gets the one that it goes by.
        dropped: JSON lines, one per dropped question, see `Dropped`.
        encoder: see `diverse_questions`.
        settings: likewise.
        on_progress: likewise.

    Raises:
        InputError: the questions cannot be used, fewer than two are left, two of the paths are one
            file, or `out` is CSV by its name; nothing is written.
    """
    what = hint = ""
    if len({os.path.realpath(path) for path in (questions, out, dropped)}) < 3:
        what, hint = "questions, out and dropped are not three files", "name different files"
    elif Path(out).suffix.lower() in (".csv", ".tsv"):
        what, hint = "JSON lines are written, no table", "give it a name that ends in .jsonl"
    if what:
        raise InputError(what, where=os.fspath(out), hint=hint)
    records = QuestionRecord.read(questions)
    found = diverse_questions(records, encoder, settings, on_progress=on_progress)
    if len(found.kept) < 2:
        what, hint = "fewer than two questions are left", "lower the thresholds"
        raise InputError(what, where=os.fspath(questions), hint=hint)
    kept_ids = {record.question_id for record in found.kept}
    # Both or neither: each is begun before either takes its place.
    with atomic_writer(out) as kept, atomic_writer(dropped) as report:
        for record, (_, row) in zip(records, read_questions(questions), strict=True):
            if record.question_id in kept_ids:
                kept.write(_line(_named(row, record.question_id)))
        report.writelines(_line(asdict(one)) for one in found.dropped)
    return found


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _named(value: Mapping[str, Any], identifier: str) -> dict[str, Any]:
    if any(value.get(name) is not None for name in ID_FIELDS):
        return dict(value)
    # Its default id goes by its place, which it may lose.
    return {"id": identifier, **{name: one for name, one in value.items() if name != "id"}}


# Distances are whole numbers of these: what only rounding tells apart then ties.
_STEPS = float(1 << 40)


def farthest_first(
    vectors: ArrayLike, *, min_distance: float = 0.3, on_progress: OnStep | None = None
) -> NDArray[np.int64]:
    """Select diverse items; returns their indices in the order in which they are picked.

    The first item is picked first, then always the one whose cosine distance to the nearest
    picked item is the largest, until none is at least `min_distance` away. Of equally distant
    ones (to 1e-12) the first is picked. O(N·K·d) operations for K picks from N items, O(N·d)
    memory.

    Args:
        vectors: of shape (items, dimensions), finite, none of length 0; need not have
            unit length.
        min_distance: above 0 and at most 2.
        on_progress: called with (items decided, items in all).

    Returns:
        Of shape (picked,); empty for no items.

    Raises:
        InputError: a vector is not finite, or has no direction.

    Example:
        >>> farthest_first([[1, 0], [1, 0.1], [0, 1], [-1, 0]])
        array([0, 3, 2])

    Source: KnowOrNot's semantic filter; Gonzalez 1985 for farthest-first.
    """
    rows = _unit_rows(vectors)
    total, least = len(rows), float(np.rint(min_distance * _STEPS))
    picked: list[int] = []
    names = np.arange(total)
    distances = np.full(total, 3.0 * _STEPS)
    while len(names):
        # The first of equals.
        best = int(distances.argmax())
        picked.append(int(names[best]))
        np.minimum(distances, np.rint((1.0 - rows @ rows[best]) * _STEPS), out=distances)
        distances[best] = -1.0
        # What is too near to a picked item stays so.
        far = distances >= least
        left = int(far.sum())
        if on_progress is not None:
            on_progress(total - left, total)
        if not left:
            break
        if 10 * left < 9 * len(names):
            names, rows, distances = names[far], rows[far], distances[far]
    return np.asarray(picked, dtype=np.int64)


def _unit_rows(vectors: ArrayLike) -> Floats:
    rows = np.array(vectors, dtype=np.float64)
    if rows.size == 0:
        return np.zeros((0, 1))
    lengths = np.linalg.norm(rows, axis=1)
    wrong = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0.0))
    if len(wrong):
        raise InputError("is not finite, or has no direction", where=f"vectors[{wrong[0]}]")
    rows /= lengths[:, None]
    return rows
