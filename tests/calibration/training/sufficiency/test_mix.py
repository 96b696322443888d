"""Fitting the mix: it finds what made the labels, and stays where a strong prior is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from knowgate.calibration.training.cases import (
    MixExample,
    SetCase,
    fit_match_model,
    mix_examples,
)
from knowgate.guard.signals.relevance.match_model import EchoMix, MatchModel
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer

TWO = ("cosine", "match")
TOLD = EchoMix(bias=0.0, weights=(0.0,) * 8)
TRUE = np.asarray([6.0, 3.0])


def _examples(
    count: int, *, seed: int = 0, weights: NDArray[np.float64] = TRUE
) -> list[MixExample]:
    """Pairs of passages, the first of which suffices by a logistic law; nothing is gained."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        first = rng.normal(0.5, 0.4, 2)
        sufficient = rng.random() < 1.0 / (1.0 + np.exp(-(weights @ first - 3.0)))
        second = np.minimum(first, rng.normal(0.0, 0.2, 2))
        top = np.maximum(first, second)
        vectors = (tuple(first.tolist()), tuple(second.tolist()))
        found.append(MixExample(vectors, tuple(top.tolist()), bool(sufficient)))
    return found


def _fit(
    examples: list[MixExample], *, ridge: float = 0.001, prior: MatchModel | None = None
) -> MatchModel:
    return fit_match_model(
        examples, features=TWO, length_penalty=0.06, told=TOLD, ridge=ridge, prior=prior
    )


def test_the_weights_that_made_the_labels_are_found() -> None:
    found = _fit(_examples(4000), ridge=1e-5)
    assert found.single.top == pytest.approx(TRUE.tolist(), rel=0.15)
    assert found.single.bias == pytest.approx(-3.0, rel=0.15)
    assert (found.features, found.length_penalty) == (TWO, 0.06)
    # With a second passage that never matters the best value says nearly all.
    several = found.several
    assert sum(several.top) == pytest.approx(TRUE.sum(), rel=0.35)
    assert several.gain == (0.0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_never_negative(seed: int) -> None:
    rng = np.random.default_rng(seed)
    examples = [
        MixExample(
            tuple(tuple(row) for row in rng.normal(0, 1, (3, 2)).tolist()),
            tuple(rng.normal(0, 1, 2).tolist()),
            bool(rng.random() < 0.5),
        )
        for _ in range(40)
    ]
    found = _fit(examples, ridge=0.0 if seed == 0 else 0.01)
    several = found.several
    assert min(*found.single.top, *several.top, *several.margin, *several.gain) >= 0.0


@pytest.mark.parametrize("ridge", [0.001, 0.05])
def test_the_fit_is_scikit_learns_where_no_bound_holds(ridge: float) -> None:
    examples = _examples(600)
    rng = np.random.default_rng(1)
    weighted = [
        MixExample(e.vectors, e.joined, e.sufficient, weight=float(w))
        for e, w in zip(examples, rng.uniform(0.5, 2.0, len(examples)), strict=True)
    ]
    x = np.asarray([e.vectors[0] for e in weighted])
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    w = np.asarray([e.weight for e in weighted])
    # Theirs is half the squared weights plus C times the losses.
    reference = LogisticRegression(C=1.0 / (2.0 * ridge * w.sum()), tol=1e-10, max_iter=1000)
    reference.fit(z, [e.sufficient for e in weighted], sample_weight=w)

    found = _fit(weighted, ridge=ridge).single

    expected = reference.coef_[0] / x.std(axis=0)
    assert found.top == pytest.approx(expected.tolist(), abs=1e-3)
    bias = float(reference.intercept_[0] - expected @ x.mean(axis=0))
    assert found.bias == pytest.approx(bias, abs=1e-3)


def test_a_set_of_two_halves_says_nothing_of_a_passage_alone() -> None:
    whole = _examples(200)
    halves = [MixExample(((0.0, 0.0), (0.0, 0.0)), (1.0, 1.0), True, whole=False)] * 100
    with_halves, without = _fit(whole + halves), _fit(whole)
    assert with_halves.single == without.single
    assert with_halves.several.gain > without.several.gain


def test_a_heavier_example_counts_like_several() -> None:
    examples = _examples(200)
    twice = [MixExample(e.vectors, e.joined, e.sufficient, weight=2.0) for e in examples]
    assert _fit(twice).single.top == pytest.approx(_fit(examples * 2).single.top, abs=1e-4)


def test_examples_hold_the_scorers_features(
    scorer: SufficiencyScorer,
) -> None:
    cases = [
        SetCase("a", "When does it open?", ("It opens at nine.", "No."), True, "large"),
        SetCase("a", "When does it open?", ("No.", "Dogs."), False, "large"),
        SetCase("b", "Who?", ("Residents.", "No."), True, "large"),
        SetCase("c", "Who? When?", ("Residents.", "No."), True, "small", compound=True),
    ]

    found = mix_examples(scorer, cases)

    [(vectors, together)] = scorer.match_features([cases[0].question], [cases[0].passages])
    assert found[0].vectors == tuple(tuple(vector) for vector in vectors)
    assert found[0].joined == tuple(together)
    assert [one.sufficient for one in found] == [True, False, True, True]
    assert [one.whole for one in found] == [True, True, True, False]
