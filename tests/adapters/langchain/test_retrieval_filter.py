"""Retriever and compressor that leave out what does not bear on the question."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from knowgate.adapters.langchain import GuardCompressor, GuardedRetriever, RetrievalError
from knowgate.guard import InputLimits
from tests.adapters.langchain.fakes import RunsHandler, Setting, run

FOUND = (
    Document("grounded and first", metadata={"id": "a"}),
    Document("   ", metadata={"id": "blank"}),
    Document("Off topic.", metadata={"id": "b"}),
    Document("grounded and last", metadata={"id": "c"}, id="doc-c"),
)


class Finds(BaseRetriever):
    """Finds scripted documents; sync only, as many retrievers are."""

    found: Any

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if isinstance(self.found, Exception):
            raise self.found
        found: list[Document] = self.found
        return found


WAYS = ("retriever", "retriever, async", "compressor", "compressor, async")


async def filtered(way: str, setting: Setting, found: Any) -> Sequence[Document]:
    retriever = GuardedRetriever(guard=setting.guard, retriever=Finds(found=found))
    compressor = GuardCompressor(guard=setting.guard)
    if way == "retriever":
        return retriever.invoke("a question")
    if way == "retriever, async":
        return await retriever.ainvoke("a question")
    if way == "compressor":
        return compressor.compress_documents(found, "a question")
    return await compressor.acompress_documents(found, "a question")


@pytest.mark.parametrize("way", WAYS)
async def test_passages_that_bear_on_the_question_are_kept_in_order_with_scores(way: str) -> None:
    kept = await filtered(way, Setting(kept_margin=0.1), list(FOUND))

    assert [document.metadata for document in kept] == [
        {"id": "a", "relevance_score": 0.9, "context_relevance": 0.9},
        {"id": "c", "relevance_score": 0.9, "context_relevance": 0.9},
    ]
    assert [document.id for document in kept] == [None, "doc-c"]
    assert FOUND[0].metadata == {"id": "a"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("found", [[], [Document("Off topic.")], [Document("x" * 100)]])
async def test_nothing_is_returned_when_nothing_suffices(way: str, found: list[Document]) -> None:
    setting = Setting(limits=InputLimits(passage_bytes=50))

    assert list(await filtered(way, setting, found)) == []
    reasons = ("nothing_retrieved", "neither_knows", "input_too_large")
    assert sum(setting.counted(reason) for reason in reasons) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_in_shadow_mode_everything_is_returned_and_the_decision_counted(way: str) -> None:
    setting = Setting(mode="shadow")

    found = [Document("Off topic.", metadata={"id": "a"})]

    assert list(await filtered(way, setting, found)) == found
    assert setting.counted("neither_knows") == 1


async def test_errors_of_the_retriever_are_raised_unchanged() -> None:
    error = OSError("no route")

    for way in ("retriever", "retriever, async"):
        with pytest.raises(OSError, match="no route") as raised:
            await filtered(way, Setting(), error)
        assert raised.value is error


def test_the_retriever_takes_its_place_in_a_chain_and_its_traces() -> None:
    retriever = GuardedRetriever(guard=Setting().guard, retriever=Finds(found=list(FOUND)))
    chain = RunnablePassthrough.assign(
        context=RunnableLambda(lambda given: given["question"]) | retriever
    )
    handler = RunsHandler()

    found = chain.invoke({"question": "a question"}, {"callbacks": [handler]})

    assert len(found["context"]) == 3
    assert "GuardedRetriever" in handler.ancestors("retriever")[1]


def test_what_cannot_be_read_is_not_returned() -> None:
    setting = Setting()
    retriever = GuardedRetriever(
        guard=setting.guard, retriever=RunnableLambda(lambda question: [None])
    )

    assert retriever.invoke("a question") == []
    assert setting.counted("invalid_passages") == 1


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_retriever_that_hangs_under_the_filter_is_an_error(asynchronous: bool) -> None:
    done = threading.Event()

    async def waits(question: str) -> list[Document]:
        await asyncio.sleep(60)
        return list(FOUND)

    def hangs(question: str) -> list[Document]:
        done.wait(60)
        return list(FOUND)

    retriever = GuardedRetriever(
        guard=Setting().guard, retriever=RunnableLambda(hangs, waits), retriever_timeout=0.01
    )
    try:
        with pytest.raises(RetrievalError, match="in time"):
            await run(retriever, "when?", asynchronous)
    finally:
        done.set()
