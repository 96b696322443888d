"""The guard as a step of a chain."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import Runnable, RunnableBranch, RunnableLambda, RunnablePassthrough

from knowgate.adapters.langchain import GuardRunnable
from knowgate.guard import InputError, Reason, Route
from tests.adapters.langchain.fakes import DOCUMENTS, RunsHandler, Setting


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_guard_is_assigned_and_branched_on_in_a_chain(asynchronous: bool) -> None:
    guard = Setting().guard
    chain = RunnablePassthrough.assign(guard=GuardRunnable(guard)) | RunnableBranch(
        (lambda s: s["guard"].route is Route.FOLLOW_CONTEXT, lambda s: "from the context"),
        lambda s: "sorry",
    )
    followed: dict[str, Any] = {"question": "q", "documents": list(DOCUMENTS)}
    abstained: dict[str, Any] = {"question": "q", "context": "Off topic."}

    if asynchronous:
        answers = [await chain.ainvoke(followed), await chain.ainvoke(abstained)]
    else:
        answers = [chain.invoke(followed), chain.invoke(abstained)]

    assert answers == ["from the context", "sorry"]


def test_documents_come_before_context() -> None:
    runnable = GuardRunnable(Setting().guard)

    decision = runnable.invoke(
        {"question": "q", "documents": list(DOCUMENTS), "context": "Off topic."}
    )

    assert decision.kept == (0, 2)


def test_none_documents_mean_nothing_retrieved() -> None:
    decision = GuardRunnable(Setting().guard).invoke({"question": "q", "documents": None})

    assert decision.reason is Reason.NOTHING_RETRIEVED


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_batch_scores_together_and_keeps_a_bad_input_to_itself(asynchronous: bool) -> None:
    setting = Setting()
    runnable = GuardRunnable(setting.guard)
    inputs: list[Any] = [
        {"question": "q", "documents": list(DOCUMENTS)},
        {"question": "q"},
        {"question": "q", "context": "Off topic."},
        {"documents": []},
    ]

    if asynchronous:
        results: list[Any] = await runnable.abatch(inputs, return_exceptions=True)
    else:
        results = runnable.batch(inputs, return_exceptions=True)

    assert [getattr(result, "route", None) for result in results] == [
        Route.FOLLOW_CONTEXT, None, Route.ABSTAIN, None,
    ]  # fmt: skip
    assert isinstance(results[1], InputError)
    assert isinstance(results[3], InputError)
    assert setting.scorer.calls == 2  # the first question tells how long one takes


def test_the_guard_is_a_run_of_its_own_in_traces() -> None:
    handler = RunsHandler()
    chain: Runnable[Any, Any] = RunnableLambda(
        lambda q: {"question": q, "documents": []}
    ) | GuardRunnable(Setting().guard)

    chain.invoke("q", {"callbacks": [handler]})

    assert "guard" in handler.names()
