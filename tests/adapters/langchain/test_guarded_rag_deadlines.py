"""Deadlines and cancellations of a guarded chain."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard import SignalTimeoutError
from knowgate.guard.testing import FakeScorer
from tests.adapters.langchain.fakes import DOCUMENTS, Setting
from tests.support.guards import guard_with


@pytest.mark.parametrize("part", ["retriever", "with_context"])
async def test_a_call_that_was_cancelled_is_no_answer(part: str) -> None:
    async def cancelled(given: Any) -> Any:
        raise asyncio.CancelledError

    # A sequence returns the cancellation of its batch in place of outputs.
    broken: Any = {part: RunnableLambda(cancelled) | RunnableLambda(str)}
    setting = Setting(**broken, on_retriever_error="raise")

    answers: list[Any] = await setting.chain.abatch(
        ["grounded 1", "grounded 2"], return_exceptions=True
    )

    assert [isinstance(answer, Exception) for answer in answers] == [True, True]


async def test_a_batch_that_is_cancelled_returns_nothing() -> None:
    begun = asyncio.Event()

    async def waits(given: Any) -> Any:
        begun.set()
        await asyncio.sleep(60)

    chain = Setting(with_context=RunnableLambda(waits) | RunnableLambda(str)).chain
    questions: list[Any] = ["grounded 1", "grounded 2"]
    task = asyncio.ensure_future(chain.abatch(questions, return_exceptions=True))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_scorer_that_hangs_costs_a_batch_two_deadlines_even_where_it_raises(
    asynchronous: bool,
) -> None:
    gate = threading.Event()

    class Hanging(FakeScorer):
        begun = 0

        def score_pairs(self, pairs: Any) -> Any:
            self.begun += 1
            gate.wait(60)
            return super().score_pairs(pairs)

    scorer = Hanging()
    guard = guard_with(scorer=scorer, on_error="raise", deadlines={"relevance": 0.2})
    chain = GuardedRAG(
        guard=guard,
        retriever=lambda question: DOCUMENTS[:1],
        with_context=lambda inputs: "said",
        closed_book=lambda inputs: "said",
    )
    questions: list[Any] = [f"question {i}" for i in range(40)]
    if asynchronous:
        answers: list[Any] = await chain.abatch(questions, return_exceptions=True)
    else:
        answers = chain.batch(questions, return_exceptions=True)
    gate.set()

    assert {type(answer) for answer in answers} == {SignalTimeoutError}
    assert scorer.begun <= 4
