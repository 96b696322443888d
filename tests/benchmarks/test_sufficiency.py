"""The pure parts of `benchmarks/sufficiency.py`, which is a script and no package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from knowgate.guard.signals.relevance import LexicalScorer
from tests.support.paths import BENCHMARKS

MODULES = ("sufficiency_cases", "sufficiency_measures", "sufficiency_domains")


@pytest.fixture(scope="module")
def sufficiency() -> Iterator[tuple[Any, Any, Any]]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        cases, measures, domains = (importlib.import_module(name) for name in MODULES)
        yield cases, measures, domains
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.mark.slow
def test_the_source_takes_the_fifth_place_where_it_was_not_retrieved(
    sufficiency: tuple[Any, Any, Any],
) -> None:
    cases, *_ = sufficiency
    passages = list("abcdefg")
    similar = np.asarray([0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])

    found = cases.top_sets("q", passages, 6, [0, 1, 2, 3, 4, 5], similar)
    retrieved = cases.top_sets("q", passages, 1, [0, 2, 3, 4, 5, 6], similar)

    assert found.positives == ("a", "b", "c", "d", "g")
    assert found.negatives == ("a", "b", "c", "d", "e")
    assert retrieved.positives == ("a", "b", "c", "d", "e")
    assert retrieved.negatives == ("a", "c", "d", "e", "f")


def test_no_question_is_judged_by_a_scorer_that_was_adapted_to_it(
    sufficiency: tuple[Any, Any, Any],
) -> None:
    cases, measures, _ = sufficiency
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


def judged_set(modules: tuple[Any, Any, Any], name: str, shift: float) -> tuple[Any, Any]:
    """A policy-like domain of 40 questions and its cell: values with this gap on average."""
    cases, measures, _ = modules
    rng = np.random.default_rng(len(name))
    asked = tuple(cases.Case(f"{name} {n}", ("yes",), ("no",)) for n in range(40))
    values = rng.normal(size=(40, 2)) + np.asarray([shift, 0.0])
    judgements = [
        measures.Judgement(case, sufficient, value, 0.5, "", value)
        for case, row in zip(asked, values.tolist(), strict=True)
        for sufficient, value in zip((True, False), row, strict=True)
    ]
    case_set = cases.CaseSet(name, name, asked, pooled=True)
    return case_set, measures.cell("one", case_set, judgements)


def test_domains_weigh_alike_and_their_spread_widens_the_interval(
    sufficiency: tuple[Any, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, domains = sufficiency
    monkeypatch.setattr(domains, "DRAWS", 20)
    monkeypatch.setattr(domains, "DOMAIN_DRAWS", 200)
    alike = [judged_set(sufficiency, name, 1.0) for name in ("FAQ-a", "FAQ-bb", "FAQ-ccc")]
    apart = [judged_set(sufficiency, "FAQ-a", -2.0), *alike[1:]]

    def auroc_of(found: list[Any]) -> Any:
        [one] = domains.pooled([s for s, _ in found], [c for _, c in found], "one")
        assert one.difference == {}
        return one.figures[domains.AUROC]

    narrow, wide = auroc_of(alike), auroc_of(apart)

    assert narrow.value == pytest.approx(np.mean([cell.auroc.value for _, cell in alike]))
    assert wide.high - wide.low > narrow.high - narrow.low
    assert narrow.n == 3
