"""The documents of a vector store, and the scores that a retriever gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from knowgate.adapters.langchain import (
    GuardCompressor,
    GuardedRAG,
    GuardedRetriever,
    stored_documents,
)
from knowgate.guard import Guard, InputError, Policy
from knowgate.guard.routing import PlattCalibrator
from knowgate.guard.signals.relevance import load_scorer
from tests.adapters.langchain.agents import agent, asking
from tests.adapters.langchain.fakes import Setting, run
from tests.adapters.serve.service import client_of, make_app

TEXTS = [f"Passage {i}." for i in range(600)]


def test_all_documents_are_fetched_in_parts_and_in_order() -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    ids = store.add_texts(TEXTS)
    assert [one.page_content for one in stored_documents(store)] == TEXTS
    assert [one.page_content for one in stored_documents(store, ids[5:7])] == TEXTS[5:7]


class Store(VectorStore):
    """A store that gives documents by their ids and cannot list them."""

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [Document(page_content=TEXTS[int(one)]) for one in ids]

    def similarity_search(self, *_: Any, **__: Any) -> list[Document]:
        return []

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> Store:
        return cls()


class Chroma(Store):
    """As langchain-chroma lists ids."""

    def get(self, *, include: list[str]) -> dict[str, Any]:
        return {"ids": ["3", "4"], "documents": None, "included": include}


class FAISS(Store):
    """As langchain-community lists ids."""

    index_to_docstore_id: ClassVar = {0: "3", 1: "4"}


@pytest.mark.parametrize("store", [Chroma(), FAISS()], ids=["chroma", "faiss"])
def test_stores_that_list_ids_in_their_own_way_need_none(store: VectorStore) -> None:
    assert [one.page_content for one in stored_documents(store)] == TEXTS[3:5]


def test_a_store_that_lists_nothing_needs_ids() -> None:
    with pytest.raises(InputError, match="a Store does not list its documents"):
        list(stored_documents(Store()))
    assert [one.page_content for one in stored_documents(Store(), ["7"])] == TEXTS[7:8]


def test_a_store_without_documents_by_id_is_named() -> None:
    class Bare(Store):
        get_by_ids = VectorStore.get_by_ids

    with pytest.raises(InputError, match="a Bare does not give documents by their ids"):
        list(stored_documents(Bare(), ["7"]))


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
    answer, kept = [await run(part, "Which?", asynchronous) for part in (chain, retriever)]
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
