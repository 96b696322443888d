"""Factuality and failures, estimated offline."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.errors import UnsupportedLanguageError
from knowgate.offline_eval.judging.contract import JudgedReply
from knowgate.offline_eval.judging.judges import (
    AnswerSimilarity,
    DetectorJudge,
    EstimateJudge,
    new_numbers,
    numbers_clash,
)
from knowgate.offline_eval.judging.run import judge_run
from knowgate.offline_eval.run import (
    RepliesRun,
)
from tests.offline_eval.judging.runs import ANSWER, QUESTION, REFUSAL, replies_run


@pytest.fixture(scope="module")
def judge() -> EstimateJudge:
    """One judge for all tests: loading the encoder takes a second."""
    return EstimateJudge(TokenEncoder())


def material(reply: str, **changed: object) -> JudgedReply:
    given: dict[str, object] = {
        "reply_id": "r",
        "question": QUESTION,
        "expected_answer": ANSWER,
        "reply": reply,
    }
    return JudgedReply(**{**given, **changed})  # type: ignore[arg-type]


def tier(judge: EstimateJudge, reply: str, **changed: object) -> str:
    found = asyncio.run(judge.judge("factuality", material(reply, **changed), {}))
    return found.outcome


def failure(judge: EstimateJudge, reply: str, said: str, **changed: object) -> str:
    known = {"factuality": said}
    return asyncio.run(judge.judge("failure", material(reply, **changed), known)).outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("At least 1.6 mm", "tier_1"),
        ("The tread must be at least 1.6 mm deep.", "tier_1"),
        ("It must be 3 mm deep.", "tier_3"),
        ("Ask the workshop around the corner about their prices.", "tier_3"),
        (REFUSAL, "NA"),
        ("", "NA"),
    ],
)
def test_plain_cases_get_the_tier_that_anyone_would_give(
    judge: EstimateJudge, reply: str, expected: str
) -> None:
    assert tier(judge, reply) == expected


@pytest.mark.slow
def test_repeating_the_question_brings_a_reply_no_nearer(judge: EstimateJudge) -> None:
    similarity = AnswerSimilarity(TokenEncoder())
    question, expected = "Which metal is the old bridge made of?", "Wrought iron."
    right = similarity.closeness(question, expected, "The old bridge is made of wrought iron.")
    wrong = similarity.closeness(question, expected, "The old bridge is made of a metal.")
    assert right > wrong + 0.1
    assert tier(judge, "A metal.", question=question, expected_answer=expected) == "tier_3"


def test_other_scripts_are_judged_by_rules_or_not_at_all(judge: EstimateJudge) -> None:
    asked = {"question": "胎纹深度至少是多少?", "expected_answer": "至少1.6毫米"}
    assert tier(judge, "至少1.6毫米", **asked) == "tier_1"
    assert tier(judge, "应该是3毫米", **asked) == "tier_3"
    with pytest.raises(UnsupportedLanguageError):
        tier(judge, "轮胎上写着。", **asked)


def test_the_kind_of_failure_follows_from_the_sources(judge: EstimateJudge) -> None:
    context = ("Worn tyres must be replaced at a licensed workshop.",)
    asked = {"question": "What must be done with worn tyres?", "context": context}
    answer = "They must be replaced."
    assert failure(judge, "It must be 3 mm.", "tier_3") == "contradiction"
    assert (
        failure(
            judge,
            "Paint them yellow and hand them to the zoo keepers.",
            "tier_3",
            expected_answer=answer,
            **asked,
        )
        == "fabrication"
    )
    assert (
        failure(
            judge,
            "They must be replaced within 30 days.",
            "tier_2",
            expected_answer=answer,
            **asked,
        )
        == "over_specification"
    )
    assert (
        failure(
            judge,
            "They must be replaced at a licensed workshop.",
            "tier_2",
            expected_answer=answer,
            **asked,
        )
        == "none"
    )


def test_estimates_say_that_they_are_estimates(tmp_path: Path, judge: EstimateJudge) -> None:
    folder = replies_run(
        tmp_path / "run", {"right": ANSWER, "wrong": "It is 3 mm.", "refused": REFUSAL}
    )
    totals = judge_run(folder, [judge])
    found = RepliesRun.read(folder).judgements
    assert {name: row.outcome for name, row in found.items()} == {
        "s/right/factuality/estimate": "tier_1",
        "s/wrong/factuality/estimate": "tier_3",
        "s/refused/factuality/estimate": "NA",
        "s/wrong/failure/estimate": "contradiction",
    }
    assert all(row.estimate for row in found.values())
    assert totals.calls == 0


def test_judging_twice_adds_nothing(tmp_path: Path, judge: EstimateJudge) -> None:
    folder = replies_run(tmp_path / "run", {"right": ANSWER})
    judge_run(folder, [DetectorJudge(), judge])
    before = (folder / "judgements.jsonl").read_bytes()
    totals = judge_run(folder, [DetectorJudge(), judge])
    assert (totals.stored, totals.already) == (0, 2)
    assert (folder / "judgements.jsonl").read_bytes() == before


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run|no such"):
        judge_run(tmp_path / "nothing", [DetectorJudge()])


def test_numbers_clash_only_where_both_answer_with_other_ones() -> None:
    assert numbers_clash("Fine?", "$1,000", "500 dollars")
    assert not numbers_clash("Fine?", "$1,000", "1000 or 2000 dollars")
    assert not numbers_clash("Fine?", "$1,000", "a lot")
    assert not numbers_clash("Fine from 2025?", "2,000", "Since 2025 it is higher.")
    assert new_numbers("five of 30", "30") == {"5"}
