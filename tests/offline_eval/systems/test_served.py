"""A retriever as it is served is asked for more documents, and its failures are typed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from knowgate.adapters.langchain import GuardedRAG, RetrievalError
from knowgate.guard import Guard, InputError, Policy
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.systems.served import ServedChain

TEXTS = [f"text {number}" for number in range(12)]


def _store(**search: Any) -> Any:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document(text) for text in TEXTS])
    return store.as_retriever(search_kwargs={"k": 3, **search})


class _Ranked(BaseRetriever):
    k: int = 3

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [Document(text) for text in TEXTS[: self.k]]


class _Outer(BaseRetriever):
    base_retriever: BaseRetriever

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.base_retriever.invoke(query)


def _searching(question: str, k: int = 3) -> list[str]:
    return TEXTS[:k]


async def _asynchronous_k(question: str, k: int = 3) -> list[str]:
    return TEXTS[:k]


async def _asynchronous(question: str) -> list[Document]:
    return [Document(text) for text in TEXTS[:3]]


def _fixed(question: str) -> list[Document]:
    return [Document(text) for text in TEXTS[:3]]


@pytest.mark.parametrize(
    ("chain", "widest"),
    [
        (_store(), 9),
        (_Ranked(), 9),
        (_Outer(base_retriever=_Ranked()), 9),
        (RunnableLambda(str.strip) | _Ranked(), 9),
        (_Ranked().with_config(tags=["served"]), 9),
        (_searching, 9),
        (_fixed, 3),
        (_asynchronous, 3),
        (_asynchronous_k, 9),
    ],
    ids=["store", "k", "wrapped", "sequence", "bound", "function", "fixed", "async", "async k"],
)
def test_every_kind_serves_its_own_number_and_more_where_it_can(chain: Any, widest: int) -> None:
    served = ServedChain(chain)

    assert len(served.documents("a question")) == 3
    wide = served.documents("a question", 9)
    assert len(wide) == widest
    first = [one.page_content for one in served.documents("a question")]
    assert [one.page_content for one in wide][:3] == first


async def test_an_async_function_is_asked_within_a_running_loop() -> None:
    assert len(ServedChain(_asynchronous).documents("a question")) == 3


def test_a_guarded_chain_gives_its_retriever_and_its_guard() -> None:
    scorer = FakeScorer()
    guard = Guard(
        Policy(scorer=scorer.fingerprint, relevance_threshold=0.5), scorer=scorer, metrics=False
    )
    chain = GuardedRAG(guard=guard, retriever=_Ranked(), with_context=RunnableLambda(str))

    served = ServedChain(chain)

    assert served.guard is guard
    assert len(served.documents("a question", 5)) == 5


def test_a_failure_is_tried_again_and_then_typed_without_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    asked = []

    def failing(question: str) -> list[Document]:
        asked.append(question)
        raise ConnectionError(f"no reply to {question}")

    with pytest.raises(RetrievalError) as caught:
        ServedChain(failing).documents("a secret")

    assert len(asked) == 3
    assert str(caught.value) == "the retriever raised ConnectionError"


def test_a_failure_that_passes_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    left = [ConnectionError(), None]

    def failing_once(question: str) -> list[Document]:
        if (error := left.pop(0)) is not None:
            raise error
        return [Document("text")]

    assert len(ServedChain(failing_once).documents("a question")) == 1


@pytest.mark.parametrize(
    "found",
    ["text", {"text": "x"}, [7], 7, [None], [Document("a"), [Document("b")]], Document("bare"),
     [(Document("a"), 0.9)], itertools.repeat(Document("endless"))],
    ids=range(9),
)  # fmt: skip
def test_what_is_no_documents_is_rejected(found: Any) -> None:
    with pytest.raises(RetrievalError):
        ServedChain(lambda question: found).documents("a question")


def test_nothing_is_no_document() -> None:
    assert ServedChain(lambda question: None).documents("a question") == []


def test_the_description_holds_no_secrets() -> None:
    served = ServedChain(_store(filter=lambda one: True), name="app:chain")

    assert served.description == {
        "name": "app:chain",
        "type": "VectorStoreRetriever",
        "store": "InMemoryVectorStore",
        "search": {"k": 3},
    }


def test_a_chain_is_loaded_by_name() -> None:
    module = "tests.offline_eval.systems.test_served"

    assert len(ServedChain.load(f"{module}:_fixed").documents("a question")) == 3
    assert len(ServedChain.load(f"python:{module}:_store").documents("a question")) == 3
    for wrong in (f"{module}:missing", "no.such.module:chain", "nothing", f"{module}:TEXTS"):
        with pytest.raises(InputError):
            ServedChain.load(wrong)
