"""Read documents: of a retriever once, so that what is judged is what is shown; of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from ...guard.errors import InputError, InputTooLargeError, PassageError
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


def documents_or_errors(
    found: Sequence[object], limits: InputLimits
) -> list[list[Document] | Exception]:
    """As `read_documents` for each, with an error in place of those that cannot be read."""
    outcomes: list[list[Document] | Exception] = []
    for one in found:
        try:
            outcomes.append(read_documents(one, limits))
        except (RetrievalError, InputTooLargeError) as error:
            outcomes.append(error)
    return outcomes


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
