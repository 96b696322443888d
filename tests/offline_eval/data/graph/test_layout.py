"""The published layout: read with its quirks, written so that it is read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.graph.items import QuestionType, dilemma_options
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
from tests.offline_eval.data.graph.layout_questions import small_set


@pytest.fixture(scope="module")
def published(shared_data: Path) -> UaqData:
    return UaqData.read(shared_data / "uaqfact")


def test_every_published_question_is_read(published: UaqData) -> None:
    assert published.languages == ("en", "zh")
    assert {number for task, *_, number in published.counts() if task != "task2"} == {60}
    assert len({one.key for one in published.items}) == len(published.items) == 720
    assert all(bool(one.answers) != one.unanswerable for one in published.items)


def test_the_options_of_every_published_dilemma_are_told_apart(published: UaqData) -> None:
    dilemmas = [one for one in published.items if one.type is QuestionType.DILEMMA]
    assert all(len(one.options) == 2 for one in dilemmas)
    for one in dilemmas:
        gold = {answer.label for answer in one.answers}
        assert len(gold & set(one.options)) == (0 if one.unanswerable else 1)


def test_a_published_set_written_again_is_the_same(published: UaqData, tmp_path: Path) -> None:
    write_layout(published, tmp_path)
    again = UaqData.read(tmp_path)
    assert again.items == published.items
    assert again.choices == published.choices
    assert again.examples == published.examples
    assert again.clue_examples == published.clue_examples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_layout(small_set(), tmp_path / "set")


QUESTIONS = "task1/inter_ab_en.json"


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
fields = st.sampled_from(
    [
        *("qid", "question", "answer", "options", "target_options", "relevent_qid_list"),
        *("sup_questions", "sup_que_ans", "triples", "lan"),
    ]
)


@settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from([QUESTIONS, "task2/time_task2_en_choice.json", "task1/dev/time_en_dev.json"]),
    st.dictionaries(fields, json_values, max_size=3) | json_values,
)
def test_any_json_is_read_or_refused_in_one_line(folder: Path, file: str, change: Any) -> None:
    path = folder / file
    kept = path.read_text()
    value = json.loads(kept)[0] | change if isinstance(change, dict) else change
    path.write_text(json.dumps([value] if isinstance(change, dict) else value))
    refused = ""
    try:
        UaqData.read(folder)
    except InputError as error:
        refused = str(error)
    finally:
        path.write_text(kept)
    assert "\n" not in refused


@pytest.mark.parametrize(
    ("question", "known", "stem", "wanted"),
    [
        ("what is X, A or B ?", (), "", ("A", "B")),
        ("what is X, A or B or C ?", ("A or B",), "", ("A or B", "C")),
        ("what is X, A or B or C ?", ("B or C",), "", ("A", "B or C")),
        (
            "what work, theory or use is X, A, B or C ?",
            (),
            "what work, theory or use is X?",
            ("A, B", "C"),
        ),
        ("X是什么， 甲还是乙 ？", (), "", ("甲", "乙")),
        ("X是什么，还是甲还是乙？", ("还是甲",), "X是什么？", ("还是甲", "乙")),
        ("who is it?", (), "", ()),
    ],
)
def test_options_are_told_apart(
    question: str, known: tuple[str, ...], stem: str, wanted: tuple[str, ...]
) -> None:
    assert dilemma_options(question, known, stem=stem) == wanted
