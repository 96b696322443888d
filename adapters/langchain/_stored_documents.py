"""The documents of a vector store, for encoding them ahead of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from ...guard.errors import InputError

_DOCUMENTS_AT_ONCE = 256


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
            raise InputError(
                f"a {type(store).__name__} does not give documents by their ids",
                hint="give the documents themselves",
            ) from None


def _known_ids(store: Any) -> Iterable[str]:
    held = getattr(store, "store", None)
    if isinstance(held, Mapping):  # InMemoryVectorStore
        return list(held)
    places = getattr(store, "index_to_docstore_id", None)
    if isinstance(places, Mapping):  # FAISS
        return list(places.values())
    if type(store).__name__ == "Chroma":
        found: list[str] = store.get(include=[])["ids"]
        return found
    raise InputError(f"a {type(store).__name__} does not list its documents", hint="pass ids=…")
