"""The demo shows what it promises, end to end, with the real scorer and the real model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Policy, Route
from knowgate.guard.contracts import Generation
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.signals.relevance import load_scorer
from knowgate.offline_eval.cli import _city_demo, _microworld_demo, _model_demo
from knowgate.offline_eval.cli._city_demo import SCORERS, CityDemo, run_city_demo, split_sentences
from knowgate.offline_eval.cli._microworld_demo import (
    SITUATIONS,
    MicroworldAnswer,
    run_microworld_demo,
)
from knowgate.offline_eval.cli._model_demo import ModelDemo, outcome_of, run_model_demo
from knowgate.offline_eval.data import QuestionRecord
from knowgate.offline_eval.run import Progress
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.testbed import sample_knowledge_base_path
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def encoder() -> BiEncoderScorer:
    return BiEncoderScorer()


@pytest.fixture(scope="module")
def questions(folder: Path) -> Iterator[Path]:
    """Every third article in the place of all, which take half a minute."""
    rows = read_lines(sample_knowledge_base_path())
    articles = list(dict.fromkeys(row["source"] for row in rows))[::3]
    some = write_lines(folder / "some.jsonl", [row for row in rows if row["source"] in articles])
    with pytest.MonkeyPatch.context() as patch:
        for module in (_city_demo, _model_demo):
            patch.setattr(module, "sample_knowledge_base_path", lambda: some)
        yield some


@pytest.fixture(scope="module")
def city(folder: Path, encoder: BiEncoderScorer, questions: Path) -> CityDemo:
    scorers = {name: load_scorer(name) for name in SCORERS}
    return run_city_demo(folder, encoder, scorers)


class FirstArticle:
    """A model that repeats the nearest article, whatever was asked, and counts its prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        self.prompts += prompts
        return [[Generation(prompt.split("\n\n")[1])] for prompt in prompts]


@pytest.fixture(scope="module")
def desk(folder: Path, encoder: BiEncoderScorer, city: CityDemo) -> tuple[ModelDemo, list[str]]:
    lm: Any = FirstArticle()
    steps = list[Progress]()
    scorers = {name: load_scorer(name) for name in SCORERS}
    found = run_model_demo(folder, lm, encoder, scorers, model="fake", on_progress=steps.append)
    assert steps[-1].done == steps[-1].total == len(lm.prompts)
    return found, lm.prompts


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
    assert city.policy.guarantee.candidates == len(SCORERS)
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


def test_a_model_reads_the_help_desk_with_fewer_wrong_replies_behind_the_guard(
    desk: tuple[ModelDemo, list[str]], questions: Path
) -> None:
    found, prompts = desk
    assert len(found.answers) == len(read_lines(questions))
    assert len(set(prompts)) == len(prompts), "equal prompts are asked once"
    for one in found.answers:
        assert (one.guarded.outcome == "abstained") or one.decision.route.value != "abstain"
        assert one.in_kb or one.unguarded.outcome != "right"
    fewer = found.fewer_wrong()
    assert fewer.low is not None
    assert fewer.low > 0.2
    counts = found.figures()["outcomes"]["all questions"]["guard"]
    assert sum(share.value for share in counts.values()) == pytest.approx(1)
    articles = len({one.record.source for one in found.answers})
    for share in counts.values():
        assert share.n == articles, "questions on one article are one unit"
        assert 0 <= share.low <= share.value <= share.high <= 1
        assert share.low < share.high
    there = [one for one in found.answers if one.in_kb]
    assert sum(one.guarded.outcome == "right" for one in there) > len(there) / 2


def test_the_report_page_shows_the_help_desk_of_the_model(
    desk: tuple[ModelDemo, list[str]], city: CityDemo, tmp_path: Path
) -> None:
    found, _ = desk
    written = write_report(city.report.parent, out_dir=tmp_path, extra=(found.section(),))
    page = written.markdown.read_text("utf-8")
    assert "## The help desk with fake" in page
    assert "| article missing" in page
    assert found.examples()[0].record.question in page


def test_a_missing_model_is_told_in_one_line_before_anything_is_measured(
    knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path))
    out = tmp_path / "out"
    found = knowgate("demo", "--model", "smollm2", "--out", str(out))
    refused(found, "smollm2", "knowgate models get smollm2")
    assert not out.exists()


@pytest.mark.parametrize(
    ("reply", "in_kb", "outcome"),
    [
        ("You pay 3.20 crowns for an official city sack.", True, "right"),
        ("An official sack costs 4.20 crowns.", True, "wrong"),
        ("It is 3.20.", True, "right"),
        ("I do not know.", True, "abstained"),
        ("You pay 3.20 crowns for an official city sack.", False, "wrong"),
    ],
)
def test_a_reply_is_right_with_the_numbers_expected(reply: str, in_kb: bool, outcome: str) -> None:
    question = "How much is one of the extra rubbish bags that the bin crew will take along?"
    record = QuestionRecord("1", question, "An official city sack costs 3.20 crowns.")
    assert outcome_of(reply, record, in_kb) == outcome


def test_without_numbers_a_reply_is_right_with_half_of_the_new_words() -> None:
    record = QuestionRecord(
        "1", "Where in the Guildhall does the ombudsman sit?", "He sits in the Guildhall's attic."
    )
    assert outcome_of("The ombudsman sits in the attic.", record, in_kb=True) == "right"
    assert outcome_of("The ombudsman sits in its cellar.", record, in_kb=True) == "wrong"


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
