"""The logistic mixes, hand-computed; best products; sentences that only name the subject."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.errors import ModelFolderError
from knowgate.guard.signals.relevance._echo import StatedText
from knowgate.guard.signals.relevance._mentions import (
    MENTIONS_FILE,
    Segment,
    bundled_model,
    log_odds,
    mentions,
    read_question,
    segments_of,
)
from knowgate.guard.signals.relevance.late_interaction import best_products
from knowgate.guard.signals.relevance.match_model import (
    FEATURES,
    EchoMix,
    FeatureMix,
    MatchModel,
    set_features,
)
from tests.support.tuned_folders import some_mix

TOLD = EchoMix(bias=-1.0, weights=(2.0, 0.0, 4.0, 0.0, -0.5, 1.0, 0.0, 0.0))
MODEL = MatchModel(
    features=("cosine", "match"),
    length_penalty=0.06,
    single=FeatureMix(bias=-1.0, top=(2.0, 3.0)),
    several=FeatureMix(bias=-2.0, top=(1.0, 4.0), margin=(0.5, 0.25), gain=(8.0, 16.0)),
    told=TOLD,
    fitted_on="by hand",
)


def test_a_mix_is_made_of_flat_weights_and_gives_them_back() -> None:
    flat = MODEL.single.flat, MODEL.several.flat
    assert flat == ([-1.0, 2.0, 3.0], [-2.0, 1.0, 4.0, 0.5, 0.25, 8.0, 16.0])
    made = [FeatureMix.of(one, len(MODEL.features)) for one in flat]
    assert made == [MODEL.single, MODEL.several]


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
    stored = json.loads((tmp_path / "mix.json").read_text(encoding="utf-8"))
    assert stored["schema_version"] == 2
    stored["single"]["margin"] = [1.0]
    (tmp_path / "mix.json").write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(ModelFolderError, match="neither margin nor gain"):
        MatchModel.load(tmp_path / "mix.json")


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 700), (15, 160), (120, 254), (600, 5)])
def test_best_products_equal_those_of_one_large_product(n: int, m: int) -> None:
    generator = np.random.default_rng(n)
    asked = generator.normal(size=(n, 384)).astype(np.float32)
    told = generator.normal(size=(m, 384)).astype(np.float32)

    found = best_products(asked, told)

    assert found.shape == (n,)
    np.testing.assert_allclose(found, (asked @ told.T).max(axis=1), rtol=1e-4, atol=1e-4)


def test_no_question_token_gives_no_product() -> None:
    found = best_products(np.zeros((0, 384), dtype=np.float32), np.ones((2, 384), dtype=np.float32))

    assert found.shape == (0,)


QUESTION = "When do you pay refunds for the annual Team plan?"
EMPTY = (
    "Details on refunds for the annual Team plan are available on request.",
    "We updated the section about refunds for the annual Team plan.",
    "| refund annual Team plan | open |",
    '{"id": 7, "subject": "refund annual Team plan", "status": "open"}',
    "refund_for_the_annual_team_plan",
    "RefundForTheAnnualTeamPlan",
    "Nothing in this section explains how refunds for the annual Team plan work.",
    "Refunds for the annual Team plan are covered in chapter 4.",
    "Refunds for the annual Теаm рlаn are covered in chapter 4.",
)
ANSWERS = (
    "Refunds for the annual Team plan take ten days.",
    "A refund for the annual Team plan is paid within 10 days of your message.",
    "The annual Team plan is not refunded, as the contract ends in December.",
    "Money for plans that run a year comes back by bank transfer in a week or two.",
)


@pytest.mark.parametrize("passage", EMPTY)
def test_a_sentence_that_only_names_the_subject_tells_nothing(passage: str) -> None:
    found = StatedText.of(QUESTION, passage)
    assert found.stated is not None
    assert "plan" not in found.stated.lower()


@pytest.mark.parametrize("passage", ANSWERS)
def test_a_sentence_that_answers_tells(passage: str) -> None:
    found = StatedText.of(QUESTION, passage)
    assert found.stated is None or passage in found.stated


def test_what_stands_beside_a_mention_stays() -> None:
    heading = "Refund annual Team plan\n\nOur office is closed on Mondays."
    found = StatedText.of(QUESTION, heading)
    assert found.kept == found.stated == "Our office is closed on Mondays."


def test_the_question_above_its_answer_is_no_mention() -> None:
    found = StatedText.of(QUESTION, f"{QUESTION}\nTen days.")
    assert found.stated is not None
    assert QUESTION in found.kept


def test_the_log_odds_are_the_sum_of_words_and_features() -> None:
    model = bundled_model()
    segment = Segment.of("Details about refunds")
    asked = read_question("When are refunds paid?")
    weights = model.features
    by_hand = (
        model.bias
        + model.words["details"]
        + model.words["about"]
        + weights["few_asked"]  # two words are few
        + weights["covered"] / 8
        + weights["covered_share"] / 2
        + weights["length"] * 3 / 40
        + weights["mean_filling"] * asked.mean_filling
        + weights["most_filling"] * asked.most_filling
    )
    assert log_odds(asked, segment, model) == pytest.approx(by_hand)


def test_short_texts_after_a_colon_belong_to_it() -> None:
    text = "Price: 19 euros. Refunds: " + "we pay within ten days " * 4
    spans = [text[start:end] for start, end in (one.span for one in segments_of(text))]
    assert spans[:2] == ["Price: 19 euros.", " Refunds:"]


def test_a_damaged_model_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(json.loads(MENTIONS_FILE.read_text(encoding="utf-8"))) == {
        "fitted_on", "bias", "threshold", "features", "new", "words",
    }  # fmt: skip


@given(st.text(max_size=60), st.text(max_size=200))
def test_any_text_is_read(question: str, passage: str) -> None:
    segments = segments_of(passage)
    assert all(one in segments for one in mentions(question, segments))
    ends = [end for one in segments for end in one.span]
    assert ends == sorted(ends)
