"""Filter questions: duplicates first, then words, then meaning."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import TextEmbedder
from ....guard.errors import InputError
from ....guard.files import atomic_writer, read_jsonl, read_text
from .. import QuestionRecord, embed_all
from .._csv_file import CsvFile
from ._farthest_first import farthest_first
from ._uniqueness import (
    keyword_distinct,
    original_keyword_scores,
    original_keyword_selection,
    remove_duplicates,
)

StageProgress = Callable[[str, int, int], None]
_ROWS_AT_ONCE = 512


class KeywordMethod(StrEnum):
    """Methods that compare questions by their words."""

    UNIQUENESS = "uniqueness"
    ORIGINAL = "original"
    OFF = "off"


class SemanticMethod(StrEnum):
    """Methods that compare questions by their meaning."""

    FARTHEST_FIRST = "farthest_first"
    OFF = "off"


class DropReason(StrEnum):
    """Why a question was dropped."""

    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    KEYWORDS = "keywords"
    MEANING = "meaning"


_REASONS = {
    DropReason.DUPLICATE: "occur twice",
    DropReason.NEAR_DUPLICATE: "nearly occur twice",
    DropReason.KEYWORDS: "not unique by keywords",
    DropReason.MEANING: "too near in meaning",
}


@dataclass(frozen=True, slots=True)
class DiversitySettings:
    """Settings of the filter.

    Attributes:
        keyword: see `KeywordMethod`.
        semantic: see `SemanticMethod`.
        keyword_threshold: in [0, 1]; the least uniqueness, or the share of the range of
            scores with the original's formula.
        semantic_threshold: the least cosine distance, above 0 and at most 2.
        near_duplicates: in [0, 1], see `remove_duplicates`; 0 for exact ones only.
    """

    keyword: KeywordMethod = KeywordMethod.UNIQUENESS
    semantic: SemanticMethod = SemanticMethod.FARTHEST_FIRST
    keyword_threshold: float = 0.3
    semantic_threshold: float = 0.3
    near_duplicates: float = 0.05

    def __post_init__(self) -> None:
        for name, value in (
            ("keyword_threshold", self.keyword_threshold),
            ("near_duplicates", self.near_duplicates),
        ):
            if not 0.0 <= value <= 1.0:
                raise InputError(
                    f"must be from 0 to 1, not {value:g}", where=name, hint="use e.g. 0.3"
                )
        if not 0.0 < self.semantic_threshold <= 2.0:
            raise InputError(
                f"must be above 0 and at most 2, not {self.semantic_threshold:g}",
                where="semantic_threshold",
                hint="use e.g. 0.3, or leave the semantic filter out",
            )


@dataclass(frozen=True, slots=True)
class Dropped:
    """A question that was not kept.

    Attributes:
        question_id: of the question.
        question: as it stood there.
        reason: the stage that dropped it.
        nearest: id of the question that it is too near to; None where the original's
            formula dropped it, which compares with none.
        score: what was too small: uniqueness of its words, cosine distance, or the
            original's score.
        least: what it had to reach; None for exact duplicates.
        same_answer: whether both have the same answer; None without `nearest`. Where they
            have not, the knowledge base may contradict itself.
    """

    question_id: str
    question: str
    reason: DropReason
    nearest: str | None
    score: float
    least: float | None
    same_answer: bool | None


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
    on_progress: StageProgress | None = None,
) -> Diverse:
    """Select the questions that differ from each other, by words and by meaning.

    Dropped are first duplicates, exact and near ones; then questions whose words are not
    unique; then, by farthest-first selection from the first one left, those whose meaning is
    near to one that was picked.

    Args:
        questions: any number.
        encoder: needed for the last stage.
        settings: thresholds of 0.3, and our own keyword score, by default.
        on_progress: called with (stage, done, in all).

    Raises:
        InputError: the last stage has no encoder, or one that gives no proper embeddings;
            or the original's formula finds no word.
    """
    settings = settings or DiversitySettings()
    if settings.semantic is not SemanticMethod.OFF and encoder is None:
        raise InputError(
            "the semantic filter needs an encoder",
            where="encoder",
            hint="give one, or set the semantic method to `off`",
        )
    stages = _Stages(questions, settings, on_progress)
    stages.drop_duplicates()
    if settings.keyword is KeywordMethod.UNIQUENESS:
        stages.drop_by_words()
    elif settings.keyword is KeywordMethod.ORIGINAL:
        stages.drop_by_original_score()
    if settings.semantic is SemanticMethod.FARTHEST_FIRST and encoder is not None:
        stages.drop_by_meaning(encoder)
    return Diverse(tuple(questions[index] for index in stages.left), tuple(stages.dropped))


class _Stages:
    """The questions that are left after each stage."""

    def __init__(
        self,
        questions: Sequence[QuestionRecord],
        settings: DiversitySettings,
        on_progress: StageProgress | None,
    ) -> None:
        self.left = list(range(len(questions)))
        self.dropped: list[Dropped] = []
        self._questions, self._settings, self._on_progress = questions, settings, on_progress

    def drop_duplicates(self) -> None:
        near = self._settings.near_duplicates
        self.left, found = remove_duplicates(
            self._texts(), near=near, on_progress=self._advance("duplicates")
        )
        for one in found:
            reason = DropReason.DUPLICATE if one.exact else DropReason.NEAR_DUPLICATE
            least = None if one.exact else near
            self._drop(one.index, reason, one.of, one.uniqueness, least)

    def drop_by_words(self) -> None:
        least = self._settings.keyword_threshold
        found = keyword_distinct(
            self._texts(), min_uniqueness=least, on_progress=self._advance("keywords")
        )
        kept = set(found.kept.tolist())
        for row, index in enumerate(self.left):
            if row not in kept:
                of = self.left[found.nearest[row]]
                self._drop(index, DropReason.KEYWORDS, of, float(found.uniqueness[row]), least)
        self.left = [self.left[row] for row in found.kept]

    def drop_by_original_score(self) -> None:
        if not self.left:
            return
        scores = original_keyword_scores(self._texts())
        share = self._settings.keyword_threshold
        kept = original_keyword_selection(scores, threshold=share)
        least = float(scores.min() + share * (scores.max() - scores.min()))
        for row in sorted(set(range(len(self.left))) - set(kept.tolist())):
            self._drop(self.left[row], DropReason.KEYWORDS, None, float(scores[row]), least)
        self.left = [self.left[row] for row in kept]

    def drop_by_meaning(self, encoder: TextEmbedder) -> None:
        if not self.left:
            return
        vectors = embed_all(self._texts(), encoder, self._advance("embedding")).astype(np.float64)
        least = self._settings.semantic_threshold
        picked = np.sort(
            farthest_first(vectors, min_distance=least, on_progress=self._advance("meaning"))
        )
        gone = np.setdiff1d(np.arange(len(vectors)), picked)
        for row, best, cosine in zip(gone, *_nearest(vectors[gone], vectors[picked]), strict=True):
            of = self.left[int(picked[best])]
            score = max(0.0, 1.0 - float(cosine))
            self._drop(self.left[int(row)], DropReason.MEANING, of, score, least)
        self.left = [self.left[row] for row in picked]

    def _texts(self) -> list[str]:
        return [self._questions[index].question for index in self.left]

    def _advance(self, stage: str) -> Callable[[int, int], None] | None:
        told = self._on_progress
        return None if told is None else lambda done, total: told(stage, done, total)

    def _drop(
        self, index: int, reason: DropReason, of: int | None, score: float, least: float | None
    ) -> None:
        record = self._questions[index]
        other = None if of is None else self._questions[of]
        self.dropped.append(
            Dropped(
                question_id=record.question_id,
                question=record.question,
                reason=reason,
                nearest=None if other is None else other.question_id,
                score=score,
                least=least,
                same_answer=None
                if other is None
                else " ".join(other.answer.split()) == " ".join(record.answer.split()),
            )
        )


def _nearest(
    rows: NDArray[np.float64], others: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Per row the place of the nearest of the others, and the cosine with it."""
    rows, others = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (rows, others))
    places = np.zeros(len(rows), dtype=np.int64)
    cosines = np.zeros(len(rows))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        products = rows[part] @ others.T
        places[part] = products.argmax(axis=1)
        cosines[part] = products.max(axis=1)
    return places, cosines


_ID_FIELDS = ("id", "question_id", "identifier")


def filter_questions_file(
    questions: str | os.PathLike[str],
    out: str | os.PathLike[str],
    dropped: str | os.PathLike[str],
    encoder: TextEmbedder | None = None,
    settings: DiversitySettings | None = None,
    *,
    on_progress: StageProgress | None = None,
) -> Diverse:
    """Write the questions that are kept, and what was dropped and why.

    Args:
        questions: see `QuestionRecord.read`.
        out: the kept ones: JSON lines for JSON lines, and under a name that ends so; else a
            document for a document, and CSV for CSV. Every field of a question is as it was;
            one without an id gets the one that it goes by.
        dropped: JSON lines, one per dropped question, see `Dropped`.
        encoder: see `diverse_questions`.
        settings: likewise.
        on_progress: likewise.

    Raises:
        InputError: the questions cannot be used, fewer than two are left, two of the paths are
            one file, or `out` is CSV and the questions are not; nothing is written.
    """
    records = QuestionRecord.read(questions)
    _require_apart({"questions": questions, "out": out, "dropped": dropped})
    if CsvFile.is_named_so(out) and not CsvFile.is_named_so(questions):
        raise InputError(
            "is CSV, and the questions are not",
            where=os.fspath(out),
            hint="give it a name that ends in .jsonl or .json",
        )
    document = _Document(Path(questions), records)
    found = diverse_questions(records, encoder, settings, on_progress=on_progress)
    if len(found.kept) < 2:
        raise InputError(
            "fewer than two questions are left",
            where=os.fspath(questions),
            hint="lower the thresholds",
        )
    text = document.text({record.question_id for record in found.kept}, Path(out))
    # Both or neither: each is begun before either takes its place.
    with atomic_writer(out) as kept, atomic_writer(dropped) as report:
        kept.write(text)
        for one in found.dropped:
            report.write(json.dumps(asdict(one), ensure_ascii=False, allow_nan=False) + "\n")
    return found


class _Document:
    """The file as it stands, with the id of each of its records."""

    def __init__(self, path: Path, records: Sequence[QuestionRecord]) -> None:
        self._csv = CsvFile.read(path) if CsvFile.is_named_so(path) else None
        self._whole = None if self._csv or _is_lines(path) else _whole(path)
        self._rows = [
            (record.question_id, _named(value, record.question_id))
            for record, value in zip(records, self._values(path), strict=True)
        ]

    def _values(self, path: Path) -> list[Mapping[str, Any]]:
        if self._csv is not None:
            return [value for _, value in self._csv.rows]
        if self._whole is None:
            return [value for _, value in read_jsonl(path)]
        values = self._whole["questions"] if isinstance(self._whole, dict) else self._whole
        return list(values)

    def text(self, kept: set[str], out: Path) -> str:
        """The file without the records that are not kept, in the form that its name promises."""
        rows = [value for name, value in self._rows if name in kept]
        if self._csv is not None and CsvFile.is_named_so(out):
            return self._csv.text(rows)
        if _is_lines(out) or (self._csv is None and self._whole is None):
            return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        whole = {**self._whole, "questions": rows} if isinstance(self._whole, dict) else rows
        return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def _whole(path: Path) -> Any:
    """Return the document in a file; None where it holds JSON lines under another name."""
    try:
        whole = json.loads(read_text(path))
    except ValueError:
        return None
    values = whole.get("questions") if isinstance(whole, Mapping) else whole
    return whole if isinstance(values, list) else None


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
                hint="name different files",
            )
        seen[place] = name
