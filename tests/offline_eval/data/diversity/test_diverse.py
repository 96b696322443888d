"""The whole filter: stages, reasons, and files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import Fingerprint
from knowgate.offline_eval.data.diversity import filter_questions_file
from knowgate.offline_eval.data.diversity.filter import (
    DiversitySettings,
    DropReason,
    KeywordMethod,
    SemanticMethod,
    diverse_questions,
)
from knowgate.offline_eval.data.questions import QuestionRecord
from tests.offline_eval.suites.ookb.toy import ToyEncoder

_ANGLES = {"red": 0.0, "crimson": 20.0, "blue": 90.0, "green": 180.0}


class _Colours:
    """Embeds a question by the colour in it."""

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="colours")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        angles = [np.radians(_ANGLES[text.split()[-1]]) for text in texts]
        return np.asarray([[np.cos(one), np.sin(one)] for one in angles], dtype=np.float32)


def _records(*texts: str) -> list[QuestionRecord]:
    return [QuestionRecord(str(at), text, f"answer {at}") for at, text in enumerate(texts)]


_TEXTS = (
    "what is painted red",
    "What is painted RED",
    "is painted what red",
    "who thinks about things blue",
    "who thinks about things blue blue green",
    "where do others see crimson",
    "when shall everything become green",
)


def test_each_stage_drops_for_its_own_reason() -> None:
    found = diverse_questions(_records(*_TEXTS), _Colours())

    assert [record.question_id for record in found.kept] == ["0", "3", "6"]
    told = [(one.question_id, one.reason, one.nearest, one.least) for one in found.dropped]
    assert told == [
        ("1", DropReason.DUPLICATE, "0", None),
        ("2", DropReason.NEAR_DUPLICATE, "0", 0.05),
        ("4", DropReason.KEYWORDS, "3", 0.3),
        ("5", DropReason.MEANING, "0", 0.3),
    ]
    assert found.dropped[3].score == pytest.approx(1 - np.cos(np.radians(20.0)), abs=1e-6)
    assert all(one.same_answer is False for one in found.dropped)


def test_a_copy_with_the_same_answer_is_told_from_one_with_another() -> None:
    records = [
        QuestionRecord("a", "Who pays?", "The owner."),
        QuestionRecord("b", "Who pays?", " The  owner. "),
        QuestionRecord("c", "Who pays?", "The tenant."),
    ]

    found = diverse_questions(records, settings=DiversitySettings(semantic=SemanticMethod.OFF))

    assert [one.same_answer for one in found.dropped] == [True, False]


_OFF = DiversitySettings(semantic=SemanticMethod.OFF)


def _filter(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    filter_questions_file(folder / name, folder / "out", folder / "dropped", settings=_OFF)
    return (folder / "out").read_text(encoding="utf-8")


def test_lines_stay_lines_with_every_field_and_get_their_ids(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"question": "Who pays?", "answer": "A", "x": [1, {"ü": None}]},
        {"question": "who pays", "answer": "B"},
        {"question": "When is lunch?", "answer": "C", "identifier": 7},
    ]

    text = _filter(tmp_path, "kb.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    assert [json.loads(line) for line in text.splitlines()] == [{"id": "q1", **lines[0]}, lines[2]]
    dropped = [json.loads(line) for line in (tmp_path / "dropped").open(encoding="utf-8")]
    assert dropped == [
        {
            "question_id": "q2",
            "question": "who pays",
            "reason": "duplicate",
            "nearest": "q1",
            "score": 0.0,
            "least": None,
            "same_answer": False,
        }
    ]


class _Scattered:
    """Some vectors near to each other, told by the number at a text's end."""

    fingerprint = ToyEncoder().fingerprint

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [
            np.random.default_rng(int(text.split()[-1]) % 700).normal(size=24)
            + 0.05 * np.random.default_rng(int(text.split()[-1])).normal(size=24)
            for text in texts
        ]
        return np.asarray(rows, dtype=np.float32)


def test_the_nearest_kept_question_is_named_however_many_were_dropped() -> None:
    records = _records(*(f"Question {number}" for number in range(2000)))
    settings = DiversitySettings(keyword=KeywordMethod.OFF, near_duplicates=0.0)

    found = diverse_questions(records, _Scattered(), settings)

    places = {record.question_id: at for at, record in enumerate(records)}
    vectors = _Scattered().embed([record.question for record in records]).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kept = [places[record.question_id] for record in found.kept]
    assert len(found.dropped) > 1024
    for one in found.dropped:
        cosines = vectors[kept] @ vectors[places[one.question_id]]
        assert one.nearest == records[kept[int(cosines.argmax())]].question_id
        assert one.score == pytest.approx(1.0 - cosines.max())
