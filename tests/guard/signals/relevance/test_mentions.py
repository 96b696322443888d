"""Sentences that name the subject of a question and tell nothing about it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard.signals.relevance._echo import strip_echo
from knowgate.guard.signals.relevance._mentions import (
    MENTIONS_FILE,
    Segment,
    bundled_model,
    log_odds,
    mentions,
    read_question,
    segments_of,
)

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
    found = strip_echo(QUESTION, passage)
    assert found is not None
    assert "plan" not in found.stated.lower()


@pytest.mark.parametrize("passage", ANSWERS)
def test_a_sentence_that_answers_tells(passage: str) -> None:
    found = strip_echo(QUESTION, passage)
    assert found is None or passage in found.stated


def test_what_stands_beside_a_mention_stays() -> None:
    heading = "Refund annual Team plan\n\nOur office is closed on Mondays."
    found = strip_echo(QUESTION, heading)
    assert found is not None
    assert found.kept == found.stated == "Our office is closed on Mondays."


def test_the_question_above_its_answer_is_no_mention() -> None:
    found = strip_echo(QUESTION, f"{QUESTION}\nTen days.")
    assert found is not None
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
