"""Guarded chains: views and sources, deadlines and cancellations, and what handlers see."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import ChatLimits, ChatModelLM, GuardedRAG, Replies
from knowgate.guard import Guard, Policy, Reason, Route, SignalTimeoutError
from knowgate.guard.contracts import View
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.testing import FakeScorer
from tests.adapters.langchain.fakes import (
    CLOSED_PROMPT,
    CONTEXT_PROMPT,
    DOCUMENTS,
    RunsHandler,
    Setting,
    TalkingModel,
    batched,
    retrieve,
    run,
    speak,
)
from tests.support.guards import guard_with

DISAGREE = (View("nine", (0, 2)), View("ten", (3,)), View("noon", (), from_memory=True))


def test_a_conflict_is_shown_with_all_views_and_nothing_is_generated() -> None:
    views = {"grounded": (View("nine", (0,)), View("ten", (1,), from_memory=True))}
    setting = Setting(views=views)

    answer = setting.chain.invoke("grounded")

    assert (answer.decision.route, answer.decision.reason) == (
        Route.FOLLOW_CONTEXT,
        Reason.CONFLICT_SHOWS_BOTH,
    )
    assert answer.answer == (
        "The sources do not agree on this:\n"
        "- According to passage 1: nine\n"
        "- According to passage 3, and from what I know myself: ten"
    )
    assert answer.decision.views == (View("nine", (0,)), View("ten", (2,), from_memory=True))
    assert answer.documents == (DOCUMENTS[0], DOCUMENTS[2])
    assert not answer.abstained
    assert answer.reply_abstained is None
    assert setting.context_model.record.prompts == []
    assert setting.counted("conflict_shows_both") == 1


def test_templates_are_replaced_by_name_and_not_by_the_default_reply() -> None:
    own = Replies(
        {
            "conflict_shows_both": "Two answers: {views}",
            "view_of_passages": "{answer} [{sources}]",
            "default": "Sorry.",
        }
    )
    one = Replies("Sorry.")

    assert own.showing(DISAGREE[:1], []) == "Two answers: nine [passage 1, passage 3]"
    assert own.to(Reason.NEITHER_KNOWS) == one.to(Reason.NEITHER_KNOWS) == "Sorry."
    assert "According to" in one.showing(DISAGREE, [])


def test_braces_and_line_breaks_in_an_answer_stay_text() -> None:
    assert (
        Replies().showing([View("{sources}\n{x}", (0,))], []).endswith("passage 1: {sources} {x}")
    )


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
    answers = await batched(chain, questions, asynchronous)
    gate.set()

    assert {type(answer) for answer in answers} == {SignalTimeoutError}
    assert scorer.begun <= 4


class PlainRetriever(BaseRetriever):
    """A retriever as applications have them."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return retrieve(query)


def sampling_chain(model: TalkingModel) -> GuardedRAG:
    """A chain whose confidence is drawn from `model` itself."""
    scorer = FakeScorer({"grounded": 0.9}, default=0.1)
    policy = Policy(
        scorer=scorer.fingerprint,
        relevance_threshold=0.5,
        confidence_threshold=0.7,
        allowed_routes=(Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN),
    )
    estimator = SampledConsistency(ChatModelLM(model, limits=ChatLimits(timeout=60.0)))
    return GuardedRAG(
        guard=Guard(policy, scorer=scorer, estimator=estimator, metrics=False),
        retriever=PlainRetriever(),
        with_context=CONTEXT_PROMPT | model,
        closed_book=CLOSED_PROMPT | model,
    )


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream", "batch", "abatch"])
async def test_retriever_and_generation_are_children_of_the_chain(way: str) -> None:
    handler = RunsHandler()
    chain = Setting(retriever=PlainRetriever()).chain
    config: Any = {"callbacks": [handler]}

    if way == "invoke":
        chain.invoke("grounded", config)
    elif way == "ainvoke":
        await chain.ainvoke("grounded", config)
    elif way == "stream":
        list(chain.stream("grounded", config))
    elif way == "astream":
        assert [chunk async for chunk in chain.astream("grounded", config)]
    elif way == "batch":
        chain.batch(["grounded"], config)
    else:
        await chain.abatch(["grounded"], config)

    assert handler.ancestors("retriever") == [["GuardedRAG"]]
    assert handler.ancestors("model") == [["RunnableSequence", "GuardedRAG"]]
    assert [name for name, _ in handler.events] == ["knowgate_decision"]


def test_the_decision_event_carries_no_text_of_user_or_documents() -> None:
    handler = RunsHandler()

    Setting().chain.invoke("grounded in privacy", {"callbacks": [handler]})

    [(_, data)] = handler.events
    told = json.dumps(data)
    assert data["route"] == "follow_context"
    assert data["kept"] == [0, 2]
    assert data["relevance"] == 0.9
    assert "privacy" not in told
    assert "secret-123" not in told


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_guards_samples_are_tagged_children(asynchronous: bool) -> None:
    handler = RunsHandler()
    chain = sampling_chain(TalkingModel(speak=speak))
    config: Any = {"callbacks": [handler]}

    answer = await run(chain, "q", asynchronous, config)

    sampled = [run for run, tags in handler.tags.items() if "nostream" in tags]
    assert answer.decision.route is Route.ANSWER
    assert len(sampled) == 8  # one greedy answer and seven samples that repeat it
    assert handler.count("model") == 9
    assert all(line[-1] == "GuardedRAG" for line in handler.ancestors("model"))
