"""Factuality and failures, estimated offline; offline judges against logged labels."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from knowgate.calibration import Interval
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.offline_eval.judging.chance_agreement import cohens_kappa
from knowgate.offline_eval.judging.contract import JudgedReply
from knowgate.offline_eval.judging.correction import prediction_powered_rate
from knowgate.offline_eval.judging.judges import DetectorJudge, EstimateJudge
from tests.offline_eval.judging.runs import ANSWER, QUESTION, REFUSAL


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
    question, expected = "Which metal is the old bridge made of?", "Wrought iron."
    right = judge.closeness(question, expected, "The old bridge is made of wrought iron.")
    wrong = judge.closeness(question, expected, "The old bridge is made of a metal.")
    assert right > wrong + 0.1
    assert tier(judge, "A metal.", question=question, expected_answer=expected) == "tier_3"


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


def logged(folder: Path) -> tuple[list[bool], list[bool], list[str]]:
    """Given abstentions, the detector's, and questions."""
    judge = DetectorJudge()
    given, found, questions = [], [], []
    for path in sorted((folder / "policybench" / "gpt-4o_runs").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            value = json.loads(line)
            reply = JudgedReply(
                value["id"], value["question"], "", value["response"], (), value["citation"]
            )
            given.append(value["abstained"] == "yes")
            found.append(judge.verdict(reply).outcome == "yes")
            questions.append(value["id"])
    return given, found, questions


def test_the_detector_agrees_with_the_given_labels(shared_data: Path) -> None:
    given, found, questions = logged(shared_data)
    kappa = cohens_kappa(list(map(str, given)), list(map(str, found))).value
    assert len(given) == 1334
    assert kappa is not None
    assert kappa > 0.96
    # A tenth of the questions labelled: the corrected rate finds the given one.
    rng = np.random.default_rng(0)
    chosen = set(rng.choice(sorted(set(questions)), 40, replace=False).tolist())
    mine = [index for index, name in enumerate(questions) if name in chosen]
    rest = [index for index, name in enumerate(questions) if name not in chosen]
    corrected = prediction_powered_rate(
        [given[i] for i in mine],
        [found[i] for i in mine],
        [found[i] for i in rest],
        groups=[questions[i] for i in mine],
        groups_unlabelled=[questions[i] for i in rest],
    )
    truth = Interval.wilson(sum(given), len(given)).value
    assert corrected.low is not None
    assert corrected.high is not None
    assert truth is not None
    assert corrected.low <= truth <= corrected.high
