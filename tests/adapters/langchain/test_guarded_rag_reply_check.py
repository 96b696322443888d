"""Replies in which the model itself declines."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from langchain_core.runnables import Runnable, RunnableLambda

from knowgate.adapters.langchain import AbstainedError, GuardedAnswer, Replies
from knowgate.guard import Reason, Route
from tests.adapters.langchain.fakes import Setting

REFUSES: Runnable[Any, str] = RunnableLambda(lambda inputs: "I do not know that.")


def declines(question: str, reply: str) -> bool:
    return "not know" in reply


@dataclass
class Verdict:
    abstained: bool
    probability: float


def test_a_reply_that_declines_is_flagged_and_left_as_it_is() -> None:
    answer = Setting(with_context=REFUSES, check_reply=declines).chain.invoke("grounded")

    assert answer.reply_abstained is True
    assert answer.answer == "I do not know that."
    assert answer.decision.route is Route.FOLLOW_CONTEXT
    assert not answer.abstained


def test_without_a_check_and_without_generation_nothing_is_flagged() -> None:
    assert Setting(with_context=REFUSES).chain.invoke("grounded").reply_abstained is None
    assert Setting(check_reply=declines).chain.invoke("who knows").reply_abstained is None
    assert Setting(check_reply=declines).chain.invoke("grounded").reply_abstained is False
    assert Setting(check_reply=declines).chain.invoke("known one").reply_abstained is False


@pytest.mark.parametrize(
    "verdict", [True, Verdict(True, 0.9), np.bool_(True)], ids=["bool", "verdict", "numpy"]
)
def test_a_verdict_can_be_a_bool_or_have_one(verdict: Any) -> None:
    chain = Setting(check_reply=lambda question, reply: verdict).chain

    assert chain.invoke("grounded").reply_abstained is True


async def _in_every_unstreamed_way(
    chain: Runnable[Any, GuardedAnswer], question: str
) -> list[GuardedAnswer]:
    return [
        chain.invoke(question),
        await chain.ainvoke(question),
        *chain.batch([question]),
        *await chain.abatch([question]),
    ]


async def test_a_refusal_gives_way_to_the_configured_reply_where_that_is_asked_for() -> None:
    chain = Setting(with_context=REFUSES, check_reply=declines, replace_abstentions=True).chain

    answers = await _in_every_unstreamed_way(chain, "grounded")

    assert {answer.answer for answer in answers} == {Replies().to(Reason.REPLY_ABSTAINED)}
    assert all(answer.reply_abstained and answer.output is None for answer in answers)
    assert {answer.decision.reason for answer in answers} == {Reason.SUFFICIENT_CONTEXT}


async def test_in_shadow_mode_a_refusal_is_flagged_and_stays() -> None:
    setting = Setting(
        with_context=REFUSES, check_reply=declines, replace_abstentions=True, mode="shadow"
    )

    answers = await _in_every_unstreamed_way(setting.chain, "grounded")

    assert {(a.answer, a.reply_abstained) for a in answers} == {("I do not know that.", True)}


async def test_a_refusal_raises_where_abstentions_do_and_refusals_are_replaced() -> None:
    chain = Setting(
        with_context=REFUSES, check_reply=declines, replace_abstentions=True, raise_on_abstain=True
    ).chain

    with pytest.raises(AbstainedError, match="the model abstained") as caught:
        chain.invoke("grounded")
    [in_batch] = await chain.abatch(["grounded"], return_exceptions=True)

    assert caught.value.reason is Reason.REPLY_ABSTAINED
    assert caught.value.reply == Replies().to(Reason.REPLY_ABSTAINED)
    assert isinstance(in_batch, AbstainedError)


async def test_a_stream_says_at_its_end_what_the_check_found() -> None:
    setting = Setting(check_reply=declines, replace_abstentions=True)
    setting.context_model.speak = lambda prompt: "I do not know."

    chunks = list(setting.chain.stream("grounded"))
    later = [chunk async for chunk in setting.chain.astream("grounded")]

    assert [chunk.reply_abstained for chunk in chunks] == [None] * (len(chunks) - 1) + [True]
    assert chunks[-1].answer == ""
    assert reduce(add, chunks).answer == "I do not know."
    assert [c.answer for c in later] == [c.answer for c in chunks]
    assert [c.reply_abstained for c in later] == [c.reply_abstained for c in chunks]
    assert reduce(add, chunks).reply_abstained is True


@pytest.mark.parametrize("found", [RuntimeError("secret-123"), None, "yes", 1])
async def test_a_check_that_fails_costs_nobody_the_answer(
    found: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def check(question: str, reply: str) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    caplog.set_level(logging.WARNING)
    answers = await _in_every_unstreamed_way(Setting(check_reply=check).chain, "grounded")

    assert {(a.answer, a.reply_abstained) for a in answers} == {("from context: grounded", None)}
    assert "the check of a reply" in caplog.text
    assert "secret-123" not in caplog.text


async def test_a_check_does_not_block_the_event_loop() -> None:
    threads: list[int] = []

    def check(question: str, reply: str) -> bool:
        threads.append(threading.get_ident())
        return False

    chain = Setting(check_reply=check).chain
    await chain.ainvoke("grounded")
    await chain.abatch(["grounded"])
    _ = [chunk async for chunk in chain.astream("grounded")]

    assert len(threads) == 3
    assert threading.get_ident() not in threads
