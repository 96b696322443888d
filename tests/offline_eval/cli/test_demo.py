"""The demo shows what it promises, end to end, with the real scorer and the real model."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard import Policy, Route
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.signals.relevance import load_scorer
from knowgate.offline_eval.cli import _city_demo, _microworld_demo
from knowgate.offline_eval.cli._city_demo import CityDemo, run_city_demo, split_sentences
from knowgate.offline_eval.cli._microworld_demo import (
    SITUATIONS,
    MicroworldAnswer,
    run_microworld_demo,
)
from knowgate.offline_eval.testbed import sample_knowledge_base_path
from tests.offline_eval.cli.commands import read_lines, write_lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def encoder() -> BiEncoderScorer:
    return BiEncoderScorer()


@pytest.fixture(scope="module")
def city(folder: Path, encoder: BiEncoderScorer) -> CityDemo:
    """The demo on every other article: all of them take half a minute."""
    rows = read_lines(sample_knowledge_base_path())
    articles = list(dict.fromkeys(row["source"] for row in rows))[::2]
    some = write_lines(folder / "some.jsonl", [row for row in rows if row["source"] in articles])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_city_demo, "sample_knowledge_base_path", lambda: some)
        scorers = {name: load_scorer(name) for name in _city_demo.SCORERS}
        return run_city_demo(folder, encoder, scorers)


@pytest.fixture(scope="module")
def microworld(folder: Path, encoder: BiEncoderScorer) -> tuple[MicroworldAnswer, ...]:
    # Fewer documents and fewer questions to calibrate on, for they take their time.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_microworld_demo, "DOCUMENTS", 80)
        patch.setattr(_microworld_demo, "CALIBRATION_FACTS", 50)
        return run_microworld_demo(folder, encoder).answers


def test_the_help_desk_follows_some_articles_and_abstains_where_they_are_missing(
    city: CityDemo,
) -> None:
    routes = {(answer.in_kb, answer.route) for answer in city.answers}
    declined = [answer for answer in city.answers if not answer.in_kb and answer.route == "abstain"]

    assert (True, "follow_context") in routes
    assert len(declined) >= 4
    assert city.policy.guarantee is not None
    assert city.policy.guarantee.certified
    assert city.policy.guarantee.candidates == len(_city_demo.SCORERS)
    assert city.policy.scorer.kind == city.scorer


def test_an_abstention_says_nothing_of_what_was_retrieved(city: CityDemo) -> None:
    for answer in city.answers:
        if answer.route == "abstain":
            assert answer.reply != answer.unguarded
        else:
            assert answer.reply == answer.unguarded


def test_the_demo_leaves_policy_and_report(city: CityDemo, folder: Path) -> None:
    assert Policy.load(city.policy_path) == city.policy
    assert city.report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert city.report.is_relative_to(folder)


def test_the_microworld_shows_all_three_routes(microworld: tuple[MicroworldAnswer, ...]) -> None:
    assert {answer.route for answer in microworld} == {route.value for route in Route}
    assert {answer.situation for answer in microworld} == set(SITUATIONS)


def test_the_guard_is_right_more_often_than_the_chain_without_it(
    microworld: tuple[MicroworldAnswer, ...],
) -> None:
    guarded = sum(answer.right for answer in microworld)
    unguarded = sum(answer.unguarded_right for answer in microworld)

    assert guarded >= unguarded + 3
    assert all(answer.route == "abstain" for answer in microworld if answer.situation == "nowhere")


def test_a_contradicting_document_is_followed_and_called_a_conflict(
    microworld: tuple[MicroworldAnswer, ...],
) -> None:
    contradicted = [answer for answer in microworld if answer.situation == "contradicted"]

    assert {answer.route for answer in contradicted} == {"follow_context"}
    assert any(answer.scenario == "conflict" and answer.right for answer in contradicted)


def test_sentences_end_at_punctuation_before_a_capital() -> None:
    assert split_sentences("Fee 3.20 crowns. Ask at No. 4 first") == [
        "Fee 3.20 crowns.",
        "Ask at No.",
        "4 first",
    ]
    assert split_sentences("") == [""]
