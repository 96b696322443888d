"""Ask the retriever of a served chain, for more documents than it serves if need be."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableLambda,
    RunnableSequence,
)
from tenacity import Retrying, retry_if_not_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from ...adapters.langchain import GuardedRAG, RetrievalError
from ...guard import Guard
from ...guard.engine import BiEncoderScorer
from ...guard.errors import InputError, KnowgateError
from ...guard.registry import PYTHON, import_object
from ...guard.text import passage_text
from ..data.facts import load_chunks
from ..data.questions import KnowledgeBase
from .factory import load_object
from .retrieval import PassageIndex

_ATTEMPTS = 3
_INNER = ("base_retriever", "retriever")
_NUMBERS = ("k", "top_k")


class ServedChain:
    """A retriever as it is served, with the chunks and the order that users get.

    Args:
        chain: a `GuardedRAG`, whose retriever and guard are taken; a retriever of LangChain;
            any runnable, or a function (async or not), from a question to documents. A function
            with a parameter `k` is asked for more documents by it.
        name: how runs call it.
        details: what manifests say about it besides `description`.
        labels: the sources of all documents, where they are known.

    Attributes:
        chain, name, details, labels: as given.
        guard: of a `GuardedRAG`, else None.
        retriever: what is asked for documents, as it is served.

    Raises:
        InputError: it is none of these.
    """

    def __init__(
        self,
        chain: Any,
        *,
        name: str = "chain",
        details: Mapping[str, Any] = MappingProxyType({}),
        labels: Sequence[str] = (),
    ) -> None:
        self.chain, self.name, self.details, self.labels = chain, name, details, labels
        self.guard: Guard | None = None
        if isinstance(chain, GuardedRAG):
            self.guard, chain = chain.guard, chain.retriever
        self._function: Callable[..., Any] | None = None
        if not isinstance(chain, Runnable):
            if not callable(chain):
                raise InputError(
                    f"is a {type(chain).__name__}, no retriever",
                    where=name,
                    hint="name a GuardedRAG, a LangChain retriever, a runnable, or a function "
                    "from a question to documents",
                )
            self._function = chain if _takes_k(chain) else None
            chain = RunnableLambda(chain)
        self.retriever: Runnable[Any, Any] = chain

    @property
    def description(self) -> dict[str, Any]:
        """Return what is known of the retriever, for the manifest of a run; no secrets."""
        chain = self.retriever
        search = getattr(chain, "search_kwargs", None)
        plain = (str, int, float, bool, type(None))
        found: dict[str, Any] = {"name": self.name, "type": type(chain).__name__}
        store = getattr(chain, "vectorstore", None)
        if store is not None:
            found["store"] = type(store).__name__
        if isinstance(search, Mapping):
            found["search"] = {str(k): v for k, v in search.items() if isinstance(v, plain)}
        return found

    def documents(self, question: str, k: int | None = None) -> list[Document]:
        """Return the documents found for a question, best first.

        Args:
            question: as a user asks it.
            k: how many; None for as many as are served. A retriever that cannot be asked
                for more gives as many as are served.

        Raises:
            RetrievalError: it failed three times, or returned something else than documents.
        """
        wide = self.retriever
        if k is not None and self._function is not None:
            wide = RunnableLambda(partial(self._function, k=k))
        elif k is not None:
            wide = _widened(wide, k) or wide
        attempts = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            retry=retry_if_not_exception_type((KnowgateError, TypeError)),
            reraise=True,
        )
        try:
            found = attempts(_invoked, wide, question)
        except KnowgateError:
            raise
        except Exception as error:
            # A foreign message may quote the question: only its type is kept.
            raise RetrievalError(f"the retriever raised {type(error).__name__}") from error
        return documents_of(found)

    @classmethod
    def load(cls, name: str) -> ServedChain:
        """Load the chain that `module:attribute` names.

        Args:
            name: with or without `python:` in front; modules in the current folder can be
                imported. A function without parameters is called and gives the chain.

        Raises:
            InputError: there is no such object, or it is no chain.
        """
        path = name.removeprefix(PYTHON)
        full = f"{PYTHON}{path}"
        found = import_object(full)
        takes_question = inspect.isroutine(found) and _needs_argument(found)
        return cls(found if takes_question else load_object(full), name=path)


def chain_over(
    folder: Path, encoder: BiEncoderScorer, *, top_k: int, source_key: str, **size: int
) -> ServedChain:
    """Make a chain over the chunks of a folder, searched by embeddings in memory.

    Args:
        folder: of documents.
        encoder: of questions and chunks.
        top_k: documents found for a question.
        source_key: field of the metadata that names the source of a chunk.
        size: `chunk_size`, words per chunk at most, and `chunk_overlap`, words shared by chunks.

    Raises:
        InputError: the folder cannot be read, or holds no documents.
    """
    chunks = load_chunks(folder, **size)
    text = "\0".join(one.page_content for one in chunks)
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    told = {"count": len(chunks), "sha256": digest, **size}
    details = {"retriever": encoder.fingerprint, "chunks": told}
    labels = dict.fromkeys(str(one.metadata.get(source_key, "")) for one in chunks)
    search = search_in(chunks, encoder, top_k)
    return ServedChain(search, name="documents", details=details, labels=tuple(labels))


def search_in(
    chunks: Sequence[Document], encoder: BiEncoderScorer, top_k: int
) -> Callable[..., list[Document]]:
    """Return a function from a question, and perhaps a number `k`, to the nearest chunks.

    Args:
        chunks: embedded now, and kept in memory.
        encoder: of questions and chunks.
        top_k: how many are found if `k` is not given.
    """
    texts = {f"{number}": one.page_content for number, one in enumerate(chunks)}
    index = PassageIndex(KnowledgeBase(texts, {}), encoder)

    def search(question: str, k: int = top_k) -> list[Document]:
        """Find the nearest chunks."""
        found = index.nearest(encoder.embed([question])[0], k)
        return [chunks[int(name)] for name in found]

    return search


def _needs_argument(function: Callable[..., Any]) -> bool:
    """Return whether a function cannot be called without arguments."""
    try:
        inspect.signature(function).bind()
    # A builtin may not tell its parameters.
    except (TypeError, ValueError):
        return True
    return False


def _takes_k(function: Callable[..., Any]) -> bool:
    try:
        return "k" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _widened(chain: Any, k: int) -> Runnable[Any, Any] | None:
    """Return a copy of `chain` that finds `k` documents, None where that cannot be asked."""
    if isinstance(chain, RunnableSequence):
        steps = [(_widened(step, k), step) for step in chain.steps]
        if not any(wide for wide, _ in steps):
            return None
        return RunnableSequence(*(wide or step for wide, step in steps))
    if not hasattr(chain, "model_copy"):
        return None
    if isinstance(chain, RunnableBinding):
        bound = _widened(chain.bound, k)
        return None if bound is None else chain.model_copy(update={"bound": bound})
    changed = _wider_fields(chain, k)
    return chain.model_copy(update=changed) if changed else None


def _wider_fields(chain: Any, k: int) -> dict[str, Any]:
    search = getattr(chain, "search_kwargs", None)
    if isinstance(search, Mapping):
        wider = {**search, "k": k}
        if isinstance(search.get("fetch_k"), int):
            wider["fetch_k"] = max(search["fetch_k"], k)
        return {"search_kwargs": wider}
    for name in _NUMBERS:
        if isinstance(getattr(chain, name, None), int):
            return {name: k}
    for name in _INNER:
        inner = _widened(getattr(chain, name, None), k)
        if inner is not None:
            return {name: inner}
    several = getattr(chain, "retrievers", None)
    if isinstance(several, list):
        wide = [_widened(one, k) for one in several]
        if any(wide):
            return {"retrievers": [new or old for new, old in zip(wide, several, strict=True)]}
    return {}


def _invoked(chain: Runnable[Any, Any], question: str) -> Any:
    if isinstance(chain, RunnableLambda) and not hasattr(chain, "func"):
        # It is async only. A thread of its own: the caller's may run an event loop.
        with ThreadPoolExecutor(1, "knowgate-retrieval") as thread:
            return thread.submit(lambda: asyncio.run(chain.ainvoke(question))).result()
    return chain.invoke(question)


def documents_of(found: object) -> list[Document]:
    """Return the documents that a retriever gave: documents, texts, or what holds a text.

    Raises:
        RetrievalError: they are something else.
    """
    if found is None:
        return []
    if not isinstance(found, list | tuple):
        raise RetrievalError(f"the retriever returned a {type(found).__name__}, not documents")
    documents = []
    for one in found:
        text = passage_text(one)
        # A document may be empty; a number is none.
        if not text and not isinstance(one, str | Document):
            raise RetrievalError(
                f"the retriever returned a {type(one).__name__} among its documents"
            )
        documents.append(one if isinstance(one, Document) else Document(text))
    return documents
