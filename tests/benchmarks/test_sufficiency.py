"""The pure parts of `benchmarks/sufficiency.py`, which is a script and no package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.testbed import default_world
from tests.support.paths import BENCHMARKS

MODULES = ("sufficiency_cases", "sufficiency_measures")


@pytest.fixture(scope="module")
def sufficiency() -> Iterator[tuple[Any, Any]]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        cases, measures = (importlib.import_module(name) for name in MODULES)
        yield cases, measures
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.mark.slow
def test_the_source_takes_the_fifth_place_where_it_was_not_retrieved(
    sufficiency: tuple[Any, Any],
) -> None:
    cases, _ = sufficiency
    passages = list("abcdefg")
    similar = np.asarray([0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])

    found = cases.top_sets("q", passages, 6, [0, 1, 2, 3, 4, 5], similar)
    retrieved = cases.top_sets("q", passages, 1, [0, 2, 3, 4, 5, 6], similar)

    assert found.positives == ("a", "b", "c", "d", "g")
    assert found.negatives == ("a", "b", "c", "d", "e")
    assert retrieved.positives == ("a", "b", "c", "d", "e")
    assert retrieved.negatives == ("a", "c", "d", "e", "f")


def test_no_question_is_judged_by_a_scorer_that_was_adapted_to_it(
    sufficiency: tuple[Any, Any],
) -> None:
    cases, measures = sufficiency
    asked = [cases.Case(f"question {n}", ("yes",), ("no",)) for n in range(13)]
    adapted_to: list[set[str]] = []
    judged: list[tuple[int, str]] = []

    class Recording(LexicalScorer):
        def score_pairs(self, pairs: Any) -> Any:
            judged.extend((len(adapted_to) - 1, question) for question, _ in pairs)
            return super().score_pairs(pairs)

    def adapt(given: Any) -> Recording:
        adapted_to.append({case.question for case in given})
        return Recording()

    found = measures.cross_validated(asked, adapt)

    assert len(adapted_to) == measures.FOLDS
    assert {one.case.question for one in found} == {case.question for case in asked}
    assert len(found) == 2 * len(asked)
    assert all(question not in adapted_to[fold] for fold, question in judged)


def test_a_microworld_document_without_a_fact_states_only_the_others(
    sufficiency: tuple[Any, Any],
) -> None:
    cases, _ = sufficiency
    world = default_world()
    fact = next(f for f in world.facts if f.relation == "founding_year")

    rest = cases.without_fact(world, fact)

    assert fact.value in world.document_for(fact).text
    assert fact.value not in rest
    assert world.entity(fact.subject).name in rest
