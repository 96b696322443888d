"""The score that a retriever gave decides in chains, retriever filters, agents and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from knowgate.adapters.langchain import GuardCompressor, GuardedRAG, GuardedRetriever
from knowgate.guard import Guard, Policy
from knowgate.guard.routing import PlattCalibrator
from knowgate.guard.signals.relevance import load_scorer
from tests.adapters.langchain.agents import agent, asking, run
from tests.adapters.langchain.fakes import Setting
from tests.adapters.serve.service import client_of, make_app

CASES = pytest.mark.parametrize(
    ("scores", "follows"), [([0.2, 41.5], True), ([0.2, 12.0], False), ([50.0, None], False)]
)


@pytest.fixture
def guard() -> Guard:
    """Follows the context from a score of 30 on."""
    scorer = load_scorer("metadata:relevance_score")
    policy = Policy.for_scorer(
        scorer, threshold=0.5, calibrator=PlattCalibrator(a=0.1, b=-3.0), aggregator="max"
    )
    return Guard(policy, scorer=scorer, metrics=False)


def documents(scores: list[Any]) -> list[Document]:
    return [
        Document(f"Passage {n}.", metadata={} if one is None else {"relevance_score": one})
        for n, one in enumerate(scores)
    ]


@CASES
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_chain_and_a_retriever(
    guard: Guard, scores: list[Any], follows: bool, asynchronous: bool
) -> None:
    found = documents(scores)
    chain = GuardedRAG(guard=guard, retriever=lambda _: found, with_context=lambda _: "from it")
    retriever = GuardedRetriever(guard=guard, retriever=RunnableLambda(lambda _: found))
    if asynchronous:
        answer, kept = await chain.ainvoke("Which?"), await retriever.ainvoke("Which?")
    else:
        answer, kept = chain.invoke("Which?"), retriever.invoke("Which?")
    assert answer.abstained is not follows
    assert [one.page_content for one in kept] == ["Passage 0.", "Passage 1."][: 2 * follows]
    assert GuardCompressor(guard=guard).compress_documents(found, "Which?") == kept
    (batch,) = chain.batch(["Which?"])
    assert batch.decision.route == answer.decision.route


@CASES
async def test_an_agent(guard: Guard, scores: list[Any], follows: bool) -> None:
    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[Document]]:
        """Search."""
        return "found", documents(scores)

    setting = Setting()
    setting.guard = guard
    made, _ = agent(setting, tools=[search])
    state = await run(made, asking("Which?"), asynchronous=True)
    assert state["guard_decision"]["route"] == ("follow_context" if follows else "abstain")


@CASES
async def test_over_http(guard: Guard, scores: list[Any], follows: bool) -> None:
    passages = [{"text": one.page_content, "metadata": one.metadata} for one in documents(scores)]
    async with client_of(make_app(guard)) as client:
        asked = {"question": "Which?", "passages": passages}
        found = await client.post("/v1/decide", json=asked)
        both = await client.post("/v1/decide/batch", json={"requests": [asked, asked]})
        plain = await client.post("/v1/decide", json=asked | {"passages": ["Passage 0."]})
    route = "follow_context" if follows else "abstain"
    assert found.json()["decision"]["route"] == route
    assert [one["decision"]["route"] for one in both.json()["results"]] == [route, route]
    assert plain.json()["decision"]["reason"] == "relevance_failed"
