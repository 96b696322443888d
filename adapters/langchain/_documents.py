"""Documents of a retriever or a store: read once, so that what is judged is what is shown.

Retrievers and compressors return only those with which a question can be answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever, RetrieverLike
from langchain_core.runnables import RunnableConfig
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, PositiveFloat

from ...guard import Decision, Guard, Route
from ...guard.deadlines import DeadlineRunner, within
from ...guard.errors import (
    AllWorkersBusyError,
    DeadlineExceededError,
    InputError,
    InputTooLargeError,
    PassageError,
    TaskBrokeOffError,
)
from ...guard.routing import at_once
from ...guard.text import passage_text
from ._answer import RetrievalError

if TYPE_CHECKING:
    from ...guard import InputLimits

_DOCUMENTS_AT_ONCE = 256


def as_given(found: object) -> list[Any]:
    """What a retriever returned, for shadow mode: nothing is copied, and nothing rejected."""
    try:
        return list(_collection(found))
    except RetrievalError:
        return [found]


def shown_text(document: object) -> str:
    """The text of a document in a prompt; nothing for what has none, as shadow mode may have."""
    try:
        return passage_text(document)
    except Exception:  # noqa: BLE001 - a lazy document may raise anything
        return ""


def read_documents(found: object, limits: InputLimits) -> list[Document]:
    """Copies of the documents that a retriever returned, with the text that was read once.

    A retriever may keep what it returned and change it, and the text of a document may be
    computed whenever it is asked for: from here on neither shows.

    Args:
        found: documents, texts, or mappings with a text; None counts as none. Objects of
            other kinds become documents.
        limits: what is read at most.

    Raises:
        RetrievalError: something other than a collection of documents with a text.
        InputTooLargeError: they exceed the limits.
    """
    try:
        given, texts = limits.read_passages(one for one in _collection(found))
        return [_copy(one, text) for one, text in zip(given, texts, strict=True)]
    except (RetrievalError, InputTooLargeError, KeyboardInterrupt):
        raise
    except PassageError as error:
        raise RetrievalError(f"the retriever returned no documents: {error}") from None
    except BaseException as error:
        # A lazy document may raise anything, with a message that quotes its text.
        raise RetrievalError(f"reading what was retrieved raised {type(error).__name__}") from error


async def read_each(
    found: Sequence[object], limits: InputLimits, threads: DeadlineRunner, *, is_async: bool
) -> list[list[Document] | Exception]:
    """As `read_documents` for each, with an error in place of those that cannot be read.

    In the async form on another thread, where that may take long.
    """

    def read(one: object) -> list[Document] | Exception:
        try:
            return read_documents(one, limits)
        except (RetrievalError, InputTooLargeError) as error:
            return error

    if not is_async or limits.reads_quickly((), found):
        return list(map(read, found))
    try:
        return await threads.acall(lambda: list(map(read, found)), None)
    except Exception as error:  # noqa: BLE001 - whoever wants them decides
        return [error] * len(found)


def _collection(found: object) -> Iterable[Any]:
    if found is None:
        return ()
    lone = isinstance(found, str | bytes | Mapping | Document)
    if lone or not isinstance(found, Iterable):
        raise RetrievalError(f"the retriever returned a {type(found).__name__}, not documents")
    return found


def _copy(passage: Any, text: str) -> Any:
    if isinstance(passage, str | bytes):
        return text
    if isinstance(passage, Mapping):
        fields = dict(passage)
        names = (name for name in ("page_content", "text", "content") if name in fields)
        return fields | {next(names, "text"): text}
    metadata = getattr(passage, "metadata", None)
    kept: dict[str, Any] = {
        "page_content": text,
        "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
    }
    if isinstance(passage, Document) and _holds_its_text(type(passage)):
        return passage.model_copy(update=kept)
    return Document(**kept)


def _holds_its_text(kind: type[Document]) -> bool:
    """Whether documents of a class hold their text, so that a copy of one stays as it is."""
    if kind is Document:
        return True
    computed = any("page_content" in vars(base) for base in kind.__mro__)
    return not computed and kind.__getattribute__ is Document.__getattribute__


def stored_documents(store: VectorStore, ids: Iterable[str] | None = None) -> Iterator[Document]:
    """Each document of a vector store, fetched in parts.

    Args:
        store: with `get_by_ids`.
        ids: of the documents. LangChain has no call that lists them all; without ids they are
            asked of `InMemoryVectorStore`, Chroma and FAISS in their own ways.

    Raises:
        InputError: ids are needed, or the store has no `get_by_ids`.

    Example:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
        >>> _ = store.add_texts(["The library opens at nine."])
        >>> [document.page_content for document in stored_documents(store)]
        ['The library opens at nine.']
    """
    left = iter(_known_ids(store) if ids is None else ids)
    while part := list(islice(left, _DOCUMENTS_AT_ONCE)):
        try:
            yield from store.get_by_ids(part)
        except NotImplementedError:
            what = f"a {type(store).__name__} does not give documents by their ids"
            raise InputError(what, hint="give the documents themselves") from None


def _known_ids(store: Any) -> Iterable[str]:
    held = getattr(store, "store", None)
    if isinstance(held, Mapping):
        # InMemoryVectorStore.
        return list(held)
    places = getattr(store, "index_to_docstore_id", None)
    if isinstance(places, Mapping):
        # FAISS.
        return list(places.values())
    if type(store).__name__ == "Chroma":
        found: list[str] = store.get(include=[])["ids"]
        return found
    raise InputError(f"a {type(store).__name__} does not list its documents", hint="pass ids=…")


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


async def decided(guard: Guard, question: Any, passages: Any, *, is_async: bool) -> Decision:
    """The guard's decision on one question."""
    if is_async:
        return await guard.adecide(question, passages)
    return guard.decide(question, passages)


async def read_found(guard: Guard, found: Any, *, is_async: bool) -> Any:
    """Copies of what was retrieved; `found` itself where the guard is to abstain from it."""
    [read] = await read_each([found], guard.limits, readers, is_async=is_async)
    if isinstance(read, TaskBrokeOffError):
        raise read
    return found if isinstance(read, Exception) else read


async def filtered(guard: Guard, question: str, found: Any, *, is_async: bool) -> list[Document]:
    """The documents in `found` that bear on the question; all, unchanged, in shadow mode."""
    documents = await read_found(guard, found, is_async=is_async)
    decision = await decided(guard, question, documents, is_async=is_async)
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
            search = partial(self.retriever.invoke, query, config)
            found = _searches.call(search, self.retriever_timeout)
        return at_once(filtered(self.guard, query, found, is_async=False))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        with _late_is_an_error():
            found = await within(self.retriever.ainvoke(query, config), self.retriever_timeout)
        return await filtered(self.guard, query, found, is_async=True)


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
        return at_once(filtered(self.guard, query, documents, is_async=False))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """As `compress_documents`, without blocking the event loop."""
        return await filtered(self.guard, query, documents, is_async=True)
