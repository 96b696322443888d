"""A chat model as the judge of sufficiency: bounded, repeated, within its deadline."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from knowgate.adapters.langchain import ChatLimits, ChatModelLM
from knowgate.guard import Decision, Guard, Policy, Reason, Route
from knowgate.guard.signals.confidence import Sampling
from knowgate.guard.signals.relevance import SufficiencyJudge
from tests.support.guards import guard_with
from tests.support.scripted_chat import ScriptedTextChat

QUESTIONS = [f"When does pool {number} open?" for number in range(6)]
PASSAGES = [[f"Pool {number} opens at nine."] for number in range(6)]


def reply(messages: Sequence[BaseMessage]) -> str:
    return "yes" if "opens at nine" in str(messages[-1].content) else "no"


def guard_of(model: ScriptedTextChat, limits: ChatLimits, **changes: Any) -> Guard:
    judge = SufficiencyJudge(ChatModelLM(model, limits=limits), sampling=Sampling(n=1))
    policy = Policy.for_scorer(judge, threshold=0.5)
    return guard_with(policy, scorer=judge, **changes)


def decide(guard: Guard, *, awaited: bool) -> list[Decision]:
    if awaited:
        return list(asyncio.run(guard.adecide_batch(QUESTIONS, PASSAGES)))
    return list(guard.decide_batch(QUESTIONS, PASSAGES))


@pytest.mark.parametrize("awaited", [False, True])
def test_calls_that_fail_are_repeated(awaited: bool) -> None:
    model = ScriptedTextChat(script=reply, failure_rate=0.4)
    guard = guard_of(model, ChatLimits(max_attempts=12, first_wait=0.001))
    assert {one.route for one in decide(guard, awaited=awaited)} == {Route.FOLLOW_CONTEXT}
    assert model.failed_calls > 0
    assert model.calls == len(QUESTIONS) + model.failed_calls


@pytest.mark.parametrize("awaited", [False, True])
def test_no_more_calls_than_allowed_are_under_way(awaited: bool) -> None:
    lock, under_way, most = threading.Lock(), 0, 0

    def counted(messages: Sequence[BaseMessage]) -> str:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.005)
        with lock:
            under_way -= 1
        return reply(messages)

    guard = guard_of(ScriptedTextChat(script=counted), ChatLimits(max_concurrency=2))
    assert {one.route for one in decide(guard, awaited=awaited)} == {Route.FOLLOW_CONTEXT}
    assert most <= 2


@pytest.mark.parametrize("awaited", [False, True])
def test_a_model_that_never_answers_in_time_is_a_failed_signal(awaited: bool) -> None:
    limits = ChatLimits(timeout=0.01, max_attempts=1)
    guard = guard_of(ScriptedTextChat(script=reply, seconds=0.5), limits)
    if awaited:
        found = asyncio.run(guard.adecide(QUESTIONS[0], PASSAGES[0]))
    else:
        found = guard.decide(QUESTIONS[0], PASSAGES[0])
    assert (found.route, found.reason) == (Route.ABSTAIN, Reason.RELEVANCE_FAILED)
