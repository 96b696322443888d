"""The logistic mixes: hand-computed scores, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.signals.relevance.match_model import (
    FEATURES,
    EchoMix,
    MatchModel,
    SeveralMix,
    SingleMix,
    set_features,
)
from tests.support.tuned_folders import some_mix

TOLD = EchoMix(bias=-1.0, weights=(2.0, 0.0, 4.0, 0.0, -0.5, 1.0, 0.0, 0.0))
MODEL = MatchModel(
    features=("cosine", "match"),
    length_penalty=0.06,
    single=SingleMix(bias=-1.0, top=(2.0, 3.0)),
    several=SeveralMix(bias=-2.0, top=(1.0, 4.0), margin=(0.5, 0.25), gain=(8.0, 16.0)),
    told=TOLD,
    fitted_on="by hand",
)


def test_a_mix_is_made_of_flat_weights_and_gives_them_back() -> None:
    flat = MODEL.single_weights, MODEL.several_weights
    assert flat == ([-1.0, 2.0, 3.0], [-2.0, 1.0, 4.0, 0.5, 0.25, 8.0, 16.0])
    made = MatchModel.of(
        *flat, features=MODEL.features, length_penalty=0.06, told=TOLD, fitted_on="by hand"
    )
    assert made == MODEL


def test_a_passage_is_scored_by_its_features_alone() -> None:
    assert MODEL.passage_score([0.5, 0.25]) == -1.0 + 2.0 * 0.5 + 3.0 * 0.25


def test_several_passages_are_scored_by_best_margin_and_gain() -> None:
    vectors, together = [[0.5, 0.0], [0.25, 0.5]], [0.5, 0.75]
    #          bias   best                   margin                     gain
    expected = -2.0 + (1 * 0.5 + 4 * 0.5) + (0.5 * 0.25 + 0.25 * 0.5) + (8 * 0.0 + 16 * 0.25)
    assert MODEL.joint_score(vectors, together) == expected


def test_one_passage_together_is_one_passage_alone() -> None:
    assert MODEL.joint_score([[0.5, 0.25]], [0.5, 0.25]) == MODEL.passage_score([0.5, 0.25])


def test_a_passage_that_is_there_twice_counts_once() -> None:
    vectors, together = [[0.5, 0.0], [0.25, 0.5]], [0.5, 0.75]
    once = MODEL.joint_score(vectors, together)
    assert MODEL.joint_score([*vectors, vectors[0], vectors[0]], together) == once
    assert MODEL.joint_score([vectors[0]] * 5, vectors[0]) == MODEL.passage_score(vectors[0])


@pytest.mark.parametrize(
    ("vectors", "together", "expected"),
    [
        ([[1.0], [0.5], [0.0]], [1.25], ([1.0], [0.75], [0.25])),
        ([[0.5]], [0.5], ([0.5], [0.0], [0.0])),
        # Joined passages count the longest one's length, so a gain may come out below 0.
        ([[0.5], [0.25]], [0.375], ([0.5], [0.25], [0.0])),
        # Only the three next best are rivals.
        ([[0.0], [1.0], [0.5], [-9.0], [0.5], [0.125]], [1.0], ([1.0], [0.625], [0.0])),
        # Each feature has its own best passage.
        ([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], ([1.0, 1.0], [1.0, 1.0], [0.0, 0.0])),
    ],
)
def test_features_of_a_set(
    vectors: list[list[float]], together: list[float], expected: tuple[list[float], ...]
) -> None:
    assert set_features(vectors, together) == expected


values = st.floats(-2.0, 2.0)


@settings(max_examples=20, deadline=None)
@given(
    vectors=st.lists(st.lists(values, min_size=4, max_size=4), min_size=1, max_size=8),
    together=st.lists(values, min_size=4, max_size=4),
    data=st.data(),
)
def test_the_order_of_passages_does_not_matter(
    vectors: list[list[float]], together: list[float], data: st.DataObject
) -> None:
    model = some_mix(FEATURES)
    order = data.draw(st.permutations(range(len(vectors))))
    shuffled = [vectors[i] for i in order]
    assert model.joint_score(shuffled, together) == model.joint_score(vectors, together)
    alone = [model.passage_score(vector) for vector in vectors]
    assert [model.passage_score(vector) for vector in shuffled] == [alone[i] for i in order]


@settings(max_examples=20, deadline=None)
@given(
    vectors=st.lists(st.lists(values, min_size=2, max_size=2), min_size=2, max_size=6),
    together=st.lists(values, min_size=2, max_size=2),
    more=st.floats(0.0, 1.0),
)
def test_a_better_joint_match_never_lowers_the_joint_score(
    vectors: list[list[float]], together: list[float], more: float
) -> None:
    better = [value + more for value in together]
    assert MODEL.joint_score(vectors, better) >= MODEL.joint_score(vectors, together)


def test_a_model_comes_back_from_its_file_unchanged(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "mix.json")
    assert MatchModel.load(tmp_path / "mix.json") == MODEL
    assert json.loads((tmp_path / "mix.json").read_text(encoding="utf-8"))["schema_version"] == 2
