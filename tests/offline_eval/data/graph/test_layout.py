"""The published layout: read, and written so that it is read back."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.graph._drawing import AnswerSet, year_facts
from knowgate.offline_eval.data.graph.generation import GeneratedSet, generate_questions
from knowgate.offline_eval.data.graph.graph import Span
from knowgate.offline_eval.data.graph.items import QuestionType, UaqItem, dilemma_options
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from tests.offline_eval.data.graph.graphs import skewed_people
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


_YEARS = re.compile(r"\b1\d\d\d\b|\b20\d\d\b")


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> GeneratedSet:
    path = tmp_path_factory.mktemp("graph") / "people.nt"
    path.write_text(skewed_people(), encoding="utf-8")
    return generate_questions(load_graph(path), GenerationSettings(per_type=250))


def chosen(made: GeneratedSet, question_type: QuestionType) -> list[UaqItem]:
    return [
        item for item in made.data.items if item.type is question_type and item.language == "en"
    ]


def accuracy(items: list[UaqItem], folds: int = 5) -> float:
    """Of naive Bayes on words, learned from some pairs and tried on others."""
    pairs = [int(item.qid.rpartition("_")[2]) % folds for item in items]
    words = [frozenset(re.findall(r"\w+", item.question)) for item in items]
    right = 0
    for fold in range(folds):
        seen: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for item, own, found in zip(items, pairs, words, strict=True):
            if own != fold:
                seen[bool(item.answers)].update(found)
        for item, own, found in zip(items, pairs, words, strict=True):
            if own == fold:
                score = sum(
                    np.log((seen[True][word] + 1) / (seen[False][word] + 1)) for word in found
                )
                right += (score > 0) == bool(item.answers)
    return right / len(items)


@pytest.mark.parametrize("question_type", list(QuestionType))
def test_words_do_not_tell_the_kinds_apart(
    skewed: GeneratedSet, world_set: GeneratedSet, question_type: QuestionType
) -> None:
    for made in (skewed, world_set):
        items = chosen(made, question_type)
        assert len(items) >= 150
        assert accuracy(items) < 0.57


def test_years_of_unanswerable_questions_are_like_those_of_answerable_ones(
    skewed: GeneratedSet, world_set: GeneratedSet
) -> None:
    for made in (skewed, world_set):
        years: dict[bool, list[list[int]]] = {True: [], False: []}
        for item in chosen(made, QuestionType.TIME):
            found = [int(year) for year in _YEARS.findall(item.question)]
            years[bool(item.answers)].append(found)
        lengths = {
            kind: Counter(found[-1] - found[0] for found in rows) for kind, rows in years.items()
        }
        assert lengths[True] == lengths[False]
        medians = [float(np.median([found[0] for found in rows])) for rows in years.values()]
        assert abs(medians[0] - medians[1]) < 25
    years_of_graph = range(1500, 1981)
    for item in chosen(skewed, QuestionType.TIME):
        assert all(int(year) in years_of_graph for year in _YEARS.findall(item.question))


def test_a_right_year_is_early_late_or_between_with_the_same_chance() -> None:
    asked = AnswerSet("p", "a", ("b",))
    rng = Random(0)
    ranks: Counter[int] = Counter()
    for _ in range(2000):
        for fact in year_facts(asked, (Span("b", 1850, 1860),), rng):
            options, (target,) = list(fact.options), fact.answers
            assert len(set(options)) == 4
            ranks[sorted(options).index(target)] += 1
    assert all(abs(ranks[rank] / 4000 - 0.25) < 0.04 for rank in range(4))
