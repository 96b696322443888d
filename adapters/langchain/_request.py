"""Reading what a chain was invoked with, and what a retriever returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document

from ...guard import InputError, clean_text
from ._errors import RetrievalError

RagInput = str | Mapping[str, Any]

# Set by the chain; a caller's own values must not reach a prompt as if they were vetted.
_RESERVED = frozenset({"question", "context", "documents"})


@dataclass(frozen=True, slots=True)
class Request:
    """One input of the chain.

    Attributes:
        question: as given.
        text: the question as clean text, None where it cannot be read as such.
        extra: further keys of a mapping, passed on to both runnables.
    """

    question: Any
    text: str | None
    extra: Mapping[str, Any] = field(default_factory=dict)


def read_request(given: object) -> Request:
    """The request in `given`: the question itself, or a mapping with `question`.

    A question that is not text is no error here: the guard has a route for it.

    Raises:
        InputError: a mapping without `question`.
    """
    extra: dict[str, Any] = {}
    question = given
    if isinstance(given, Mapping):
        question = required(given, "question")
        extra = {key: value for key, value in given.items() if key not in _RESERVED}
    text = clean_text(question) if isinstance(question, str | bytes) else ""
    return Request(question, text if text.strip() else None, extra)


def required(given: Mapping[str, Any], key: str) -> Any:
    """`given[key]`.

    Raises:
        InputError: it is not there.
    """
    if key not in given:
        raise InputError(
            f"the input has no key {key!r}",
            mend=f"keys that are there: {', '.join(sorted(map(str, given))) or 'none'}",
        )
    return given[key]


def read_documents(found: object) -> list[Document]:
    """The documents that a retriever returned; None counts as none.

    Raises:
        RetrievalError: something other than a collection of documents.
    """
    if found is None:
        return []
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise RetrievalError(f"the retriever returned a {type(found).__name__}, not documents")
    return list(found)
