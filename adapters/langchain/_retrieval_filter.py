"""Retrievers and compressors that return only passages with which a question can be answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever, RetrieverLike
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, PositiveFloat

from ...guard import Decision, Guard, Route
from ...guard.deadlines import DeadlineRunner, within
from ...guard.errors import AllWorkersBusyError, DeadlineExceededError, InputTooLargeError
from ._answer import RetrievalError
from ._documents import read_documents

# Keys in the metadata of a document that bears on the question.
PASSAGE_SCORE = "relevance_score"
CONTEXT_SCORE = "context_relevance"

# Threads on which async calls read what may take long.
readers = DeadlineRunner(16)
# And those on which sync retrievers run, so that one that hangs can be left behind.
_searches = DeadlineRunner(64)


def kept_documents(decision: Decision, documents: Sequence[Any]) -> list[Any]:
    """The documents that belong into the prompt, in order and with their scores.

    Args:
        decision: on these documents.
        documents: n documents, or passages of another kind, which get no scores; they are
            not changed.

    Returns:
        Copies of the kept ones; none unless the route is `follow_context`.
    """
    if decision.route is not Route.FOLLOW_CONTEXT:
        return []
    return [_scored(documents[index], decision, index) for index in decision.kept]


def _scored(document: Any, decision: Decision, index: int) -> Any:
    if not isinstance(document, Document):
        return document
    scores = {
        PASSAGE_SCORE: decision.scores[index] if index < len(decision.scores) else None,
        CONTEXT_SCORE: decision.relevance,
    }
    known = {name: score for name, score in scores.items() if score is not None}
    return document.model_copy(update={"metadata": {**document.metadata, **known}})


def read_found(guard: Guard, found: Any) -> Any:
    """Copies of what was retrieved; `found` itself where the guard is to abstain from it."""
    try:
        return read_documents(found, guard.limits)
    except (RetrievalError, InputTooLargeError):
        return found


async def aread_found(guard: Guard, found: Any) -> Any:
    """As `read_found`, on another thread where that may take long."""
    if guard.limits.reads_quickly((), (found,)):
        return read_found(guard, found)
    try:
        return await readers.acall(lambda: read_found(guard, found), None)
    except AllWorkersBusyError:
        return found


def filtered(guard: Guard, question: str, found: Any) -> list[Document]:
    """The documents in `found` that bear on the question; all, unchanged, in shadow mode."""
    documents = read_found(guard, found)
    decision = guard.decide(question, documents)
    return kept_documents(decision, documents) if decision.acts else found


async def afiltered(guard: Guard, question: str, found: Any) -> list[Document]:
    """As `filtered`, without blocking the event loop."""
    documents = await aread_found(guard, found)
    decision = await guard.adecide(question, documents)
    return kept_documents(decision, documents) if decision.acts else found


@contextmanager
def _late_is_an_error() -> Iterator[None]:
    try:
        yield
    except (DeadlineExceededError, AllWorkersBusyError) as error:
        raise RetrievalError("the retriever did not return in time") from error


class GuardedRetriever(BaseRetriever):
    """Return what another retriever finds, without the passages that do not bear on the question.

    Nothing is returned where the passages together do not suffice, or cannot be judged. The
    order stays. Documents are copied; their metadata gets `relevance_score`, the passage's own
    raw score, and `context_relevance`, the calibrated probability that the passages suffice.

    Each query is a decision of the guard and counted as such. A guard whose policy allows
    answers from memory measures confidence too, to no use here: give one that does not.
    In shadow mode the guard decides and counts, and everything is returned as it was found.

    Attributes:
        guard: decides.
        retriever: finds the documents: a retriever, or any runnable from text to documents.
            What it raises is raised.
        retriever_timeout: seconds that it may take; a sync one runs on another thread for that.
            None waits for ever, on the caller's thread.

    Raises:
        RetrievalError: by a query that took longer.
        KnowgateError: by a query, only under the guard's `on_error="raise"`.

    Example:
        >>> from langchain_core.documents import Document
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from knowgate.guard import Guard, Policy
        >>> from knowgate.guard.testing import FakeScorer
        >>> store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
        >>> _ = store.add_texts(["We open at nine."])
        >>> scorer = FakeScorer({"nine": 0.9})
        >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
        >>> guard = Guard(policy, scorer=scorer, metrics=False)
        >>> retriever = GuardedRetriever(guard=guard, retriever=store.as_retriever())
        >>> [(found.page_content, found.metadata) for found in retriever.invoke("When?")]
        [('We open at nine.', {'relevance_score': 0.9, 'context_relevance': 0.9})]
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    guard: Guard
    retriever: RetrieverLike
    retriever_timeout: PositiveFloat | None = 30.0

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        with _late_is_an_error():
            found = _searches.call(
                lambda: self.retriever.invoke(query, config), self.retriever_timeout
            )
        return filtered(self.guard, query, found)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        with _late_is_an_error():
            found = await within(self.retriever.ainvoke(query, config), self.retriever_timeout)
        return await afiltered(self.guard, query, found)


class GuardCompressor(BaseDocumentCompressor):
    """Leave out documents that do not bear on the question, as `GuardedRetriever` does.

    For chains that take a compressor, such as `ContextualCompressionRetriever`.

    Attributes:
        guard: decides.

    Raises:
        KnowgateError: by a call, only under the guard's `on_error="raise"`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    guard: Guard

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """The documents that bear on `query`, in order; none where they do not suffice."""
        return filtered(self.guard, query, documents)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """As `compress_documents`, without blocking the event loop."""
        return await afiltered(self.guard, query, documents)
