"""Nothing on the surface of a question says whether it has an answer."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import numpy as np
import pytest

from knowgate.offline_eval.data.graph._drawing import year_facts
from knowgate.offline_eval.data.graph._material import AnswerSet, View
from knowgate.offline_eval.data.graph.generation import GeneratedSet, generate_questions
from knowgate.offline_eval.data.graph.graph import Span
from knowgate.offline_eval.data.graph.items import QuestionType, UaqItem
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from tests.offline_eval.data.graph.graphs import skewed_people

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
    asked = AnswerSet(View("p"), "a", ("b",))
    rng = Random(0)
    ranks: Counter[int] = Counter()
    for _ in range(2000):
        for fact in year_facts(asked, (Span("b", 1850, 1860),), rng):
            options = [fact.target, *fact.wrong]
            assert len(set(options)) == 4
            ranks[sorted(options).index(fact.target)] += 1
    assert all(abs(ranks[rank] / 4000 - 0.25) < 0.04 for rank in range(4))
