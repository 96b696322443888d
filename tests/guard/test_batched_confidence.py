"""A guard's batches ask an estimator about many questions at once, and decide as one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from knowgate.guard import Confidence, Generation, Guard, LanguageModelError
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.testing import ScriptedLanguageModel
from tests.support.deadlines import awith_enough_time
from tests.support.guards import guard_with, policy_with

MANY = [f"{kind} {number}" for number in range(14) for kind in ("sure", "torn", "lost", "broken")]


class Partly(ScriptedLanguageModel):
    """Cannot answer the questions that are broken; counts its calls by prompts."""

    def __init__(self) -> None:
        super().__init__({"sure": "Ada", "torn": ["Ada", "Grace"], "lost": ["A", "B", "C", "D"]})
        self.largest = 0

    def generate(self, prompts: Sequence[str], **settings: Any) -> list[list[Generation]]:
        self.largest = max(self.largest, len(prompts))
        if any("broken" in prompt for prompt in prompts):
            raise LanguageModelError("no answer to this one")
        return super().generate(prompts, **settings)


async def test_batches_ask_an_estimator_together_and_decide_as_one_by_one() -> None:
    def guard() -> tuple[Partly, Guard]:
        model = Partly()
        estimator = SampledConsistency(model, stopping="none")
        return model, guard_with(policy_with(confidence_threshold=0.7), estimator=estimator)

    passages: list[list[str]] = [[]] * len(MANY)
    model, one = guard()
    singly = [one.decide(question, []) for question in MANY]
    together, batched = guard()
    atogether, abatched = guard()

    for found in (
        batched.decide_batch(MANY, passages),
        await abatched.adecide_batch(MANY, passages),
    ):
        assert [d.route for d in found] == [d.route for d in singly]
        assert [d.confidence for d in found] == [d.confidence for d in singly]
        assert [d.reason for d in found] == [d.reason for d in singly]
        assert [d.closed_book_answer for d in found] == [d.closed_book_answer for d in singly]
    assert (model.largest, together.largest, atogether.largest) == (1, 32, 32)


class Hanging(SampledConsistency):
    """Hangs when it is asked about several questions, and about one of them."""

    def __init__(self) -> None:
        super().__init__(ScriptedLanguageModel(default="Ada"))
        self.released = threading.Event()

    def estimate(self, question: str) -> Confidence:
        if question == "hangs":
            self.released.wait(60)
        return Confidence(1.0, "Ada")

    async def aestimate(self, question: str) -> Confidence:
        if question == "hangs":
            await asyncio.sleep(60)
        return Confidence(1.0, "Ada")

    def estimate_many(self, questions: Sequence[str], **settings: Any) -> Any:
        self.released.wait(60)

    async def aestimate_many(self, questions: Sequence[str], **settings: Any) -> Any:
        await asyncio.sleep(10)


async def test_a_joint_estimate_that_hangs_leaves_each_question_its_own_deadline() -> None:
    questions = ["a", "hangs", "b"]

    async def check(seconds: float) -> None:
        estimator = Hanging()
        guard = guard_with(
            policy_with(confidence_threshold=0.7),
            estimator=estimator,
            deadlines={"confidence": seconds},
        )
        try:
            for found in (
                guard.decide_batch(questions, [[]] * 3),
                await guard.adecide_batch(questions, [[]] * 3),
            ):
                assert [d.route.value for d in found] == ["answer", "abstain", "answer"]
                assert found[1].reason == "confidence_failed"
        finally:
            estimator.released.set()

    await awith_enough_time(check)
