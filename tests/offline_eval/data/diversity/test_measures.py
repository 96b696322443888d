"""Duplicates, farthest-first selection and uniqueness by words."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from knowgate.guard import Fingerprint
from knowgate.offline_eval.data.diversity import filter_questions_file
from knowgate.offline_eval.data.diversity.filter import (
    DiversitySettings,
    diverse_questions,
    farthest_first,
)
from knowgate.offline_eval.data.diversity.uniqueness import (
    TooNear,
    keyword_distinct,
    remove_duplicates,
    words_of,
)
from knowgate.offline_eval.data.questions import QuestionRecord
from tests.offline_eval.suites.ookb.toy import ToyEncoder
from tests.support.tables import table


def test_equal_but_for_spelling_is_a_duplicate_of_the_first() -> None:
    texts = ["Who pays?", "When?", "  who PAYS ", "when", "Who pays whom?"]

    left, found = remove_duplicates(texts)

    assert left == [0, 1, 4]
    assert found == [TooNear(2, 0, 0.0, exact=True), TooNear(3, 1, 0.0, exact=True)]


def test_the_same_words_in_another_order_are_near_duplicates() -> None:
    texts = [
        "Who sang the anthem at Bowl 50?",
        "Who sang at Bowl 50 the anthem?",
        "Who sang the anthem at Bowl 51?",
    ]

    left, found = remove_duplicates(texts)

    assert left == [0, 2]
    assert [(one.index, one.of, one.exact, one.uniqueness) for one in found] == [(1, 0, False, 0.0)]


def test_another_number_makes_another_question() -> None:
    long = "What is the contribution rate for employees above the age of {} in the public service"

    left, found = remove_duplicates([long.format(55), long.format(60), long.format("55")])

    assert left == [0, 1]
    assert [(one.index, one.of) for one in found] == [(2, 0)]


def test_long_texts_that_differ_in_a_common_number_are_no_duplicates() -> None:
    words = " ".join(f"word{n}" for n in range(60))
    texts = [f"Case {n}: 5 or 7?" for n in "abcdefgh" * 20]
    texts = list(dict.fromkeys(f"{text} {at * 'x'}" for at, text in enumerate(texts)))

    left, found = remove_duplicates([f"{words} 5", f"{words} 7", f"{words} 7 or", *texts])

    assert left[:2] == [0, 1]
    assert (found[0].index, found[0].of, found[0].exact) == (2, 1, False)


Floats = NDArray[np.float64]


def _as_described(vectors: Floats, least: float, digits: int | None = None) -> list[int]:
    """The filter as it is described: for each item left, its distance to every picked one."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    picked, left = [0], list(range(1, len(unit)))
    while left:
        best, farthest = -1, -1.0
        for item in left:
            distance = min(1.0 - float(np.dot(unit[item], unit[one])) for one in picked)
            if digits is not None:
                distance = round(distance, digits)
            if distance > farthest:
                best, farthest = item, distance
        if farthest < least:
            break
        picked.append(best)
        left.remove(best)
    return picked


def test_always_the_farthest_is_picked_next() -> None:
    angles = np.radians([0.0, 10.0, 170.0, 90.0, 100.0])
    vectors = np.column_stack([np.cos(angles), np.sin(angles)])

    # 170° is the farthest from 0° (1.985), then 90° (1 − cos 80° = 0.826 from 170°); 100° is
    # 0.015 from 90° and 10° is 0.015 from 0°.
    assert farthest_first(vectors).tolist() == [0, 2, 3]
    assert farthest_first(vectors, min_distance=0.9).tolist() == [0, 2]
    assert farthest_first(vectors, min_distance=0.015).tolist() == [0, 2, 3, 1, 4]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dimensions", [3, 384])
def test_the_selection_is_that_of_the_described_algorithm(seed: int, dimensions: int) -> None:
    vectors = np.random.default_rng(seed).normal(0.3, 1.0, (90, dimensions))

    for least in (0.05, 0.3, 0.8):
        expected = _as_described(vectors, least)
        assert farthest_first(vectors, min_distance=least).tolist() == expected


@settings(max_examples=20, deadline=None)
@given(
    arrays(np.int64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=st.integers(-2, 2)),
    st.sampled_from([0.2, 0.3, 0.9]),
)
def test_of_equally_distant_items_the_first_is_picked(grid: NDArray[np.int64], at: float) -> None:
    vectors = grid[np.any(grid != 0, axis=1)].astype(np.float64)
    if len(vectors) == 0:
        return

    # Distances on a grid tie again and again; rounding must not decide.
    assert farthest_first(vectors, min_distance=at).tolist() == _as_described(
        vectors, at, digits=10
    )


def _share(texts: list[str], one: int, other: int) -> float:
    """1 − the share of common information of two texts, as it is defined."""
    words = [set(words_of(text)) for text in texts]
    counts = Counter(word for some in words for word in some)

    def said(some: set[str]) -> float:
        return sum(math.log((len(texts) + 1) / counts[word]) for word in some)

    return 1 - 2 * said(words[one] & words[other]) / (said(words[one]) + said(words[other]))


def test_texts_of_many_blocks_are_compared_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(3)
    texts = [" ".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(200)]
    kept, gone = keyword_distinct(texts, min_uniqueness=0.8)

    monkeypatch.setattr("knowgate.offline_eval.data.diversity.uniqueness._PAIRS_AT_ONCE", 1400)

    assert keyword_distinct(texts, min_uniqueness=0.8) == (kept, gone)
    for one in gone:
        nearest = min(_share(texts, one.index, other) for other in kept if other < one.index)
        assert one.uniqueness == pytest.approx(nearest, abs=1e-5)


def test_of_texts_with_much_in_common_the_first_is_kept() -> None:
    texts = ["who pays the levy on goods", "when is lunch", "who pays the levy on wares"]

    kept, (gone,) = keyword_distinct(texts, min_uniqueness=0.6)

    assert kept == [0, 1]
    assert (gone.index, gone.of) == (2, 0)
    assert gone.uniqueness == pytest.approx(_share(texts, 2, 0), abs=1e-5)
    assert keyword_distinct(texts, min_uniqueness=0.0) == ([0, 1, 2], [])


def test_a_text_is_compared_with_what_is_kept_only() -> None:
    # b is near to a, c is near to b: once b is gone, c stays.
    texts = ["a1 a2 a3 b1", "a2 a3 b1 b2 b3", "b1 b2 b3 c1 c2"]

    kept, (gone,) = keyword_distinct(texts, min_uniqueness=0.6)

    assert kept == [0, 2]
    assert (gone.index, gone.of) == (1, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    table(__file__, "words are what is left without spelling"),
)
def test_words_are_what_is_left_without_spelling(text: str, words: list[str]) -> None:
    assert words_of(text) == words


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


_TEXTS = table(__file__, "texts")


def test_each_stage_drops_for_its_own_reason() -> None:
    found = diverse_questions(_records(*_TEXTS), _Colours())

    assert [record.question_id for record in found.kept] == ["0", "3", "6"]
    told = [(one.question_id, one.reason, one.nearest, one.least) for one in found.dropped]
    assert told == [
        ("1", "duplicate", "0", None),
        ("2", "near_duplicate", "0", 0.05),
        ("4", "keywords", "3", 0.3),
        ("5", "meaning", "0", 0.3),
    ]
    assert found.dropped[3].score == pytest.approx(1 - np.cos(np.radians(20.0)), abs=1e-6)
    assert all(one.same_answer is False for one in found.dropped)


def test_a_copy_with_the_same_answer_is_told_from_one_with_another() -> None:
    records = [
        QuestionRecord("a", "Who pays?", "The owner."),
        QuestionRecord("b", "Who pays?", " The  owner. "),
        QuestionRecord("c", "Who pays?", "The tenant."),
    ]

    found = diverse_questions(records, settings=DiversitySettings(semantic="off"))

    assert [one.same_answer for one in found.dropped] == [True, False]


_OFF = DiversitySettings(semantic="off")


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
    settings = DiversitySettings(keyword="off", near_duplicates=0.0)

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
