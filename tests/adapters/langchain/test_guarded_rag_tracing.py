"""What callback handlers see of a chain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from knowgate.adapters.langchain import ChatLimits, ChatModelLM, GuardedRAG
from knowgate.guard import Guard, Policy, Route
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.testing import FakeScorer
from tests.adapters.langchain.fakes import (
    CLOSED_PROMPT,
    CONTEXT_PROMPT,
    RunsHandler,
    Setting,
    TalkingModel,
    retrieve,
    speak,
)


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

    answer = await chain.ainvoke("q", config) if asynchronous else chain.invoke("q", config)

    sampled = [run for run, tags in handler.tags.items() if "nostream" in tags]
    assert answer.decision.route is Route.ANSWER
    assert len(sampled) == 8  # one greedy answer and seven samples that repeat it
    assert handler.count("model") == 9
    assert all(line[-1] == "GuardedRAG" for line in handler.ancestors("model"))
