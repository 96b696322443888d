"""Retrieval strategies by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Callable

from ...guard import InputError
from ..knowledge_base import KnowledgeBase
from ..models import load_object
from ..ookb import Encoder
from ._asking import TextModel, require_model
from ._basic_rag import BasicRag
from ._contract import Retriever
from ._direct import Direct, LongContext
from ._hyde import HyDE
from ._index import PassageIndex
from ._own import OwnRetriever

RETRIEVALS = ("direct", "long_context", "basic_rag", "hyde")
_PYTHON = "python:"


def load_retriever(
    name: str,
    knowledge_base: KnowledgeBase,
    encoder: Encoder | Callable[[], Encoder],
    *,
    lm: TextModel | None = None,
    top_k: int = 5,
    index: PassageIndex | None = None,
) -> Retriever:
    """A retrieval strategy by name.

    Args:
        name: one of `RETRIEVALS`, or `python:module:attribute`, a retriever or runnable of
            LangChain or a function that makes one.
        knowledge_base: that is searched; a retriever of the user's own searches its own
            index, see `OwnRetriever`.
        encoder: for `basic_rag` and `hyde`; or what makes one, called only then.
        lm: writes the hypothetical answers of `hyde`.
        top_k: passages per context, at least 1.
        index: of this knowledge base, where there is one already: several strategies
            share it.

    Raises:
        InputError: there is no such strategy, it cannot be made, or `hyde` has no
            language model.
    """
    if name == "direct":
        return Direct()
    if name == "long_context":
        return LongContext()
    if name.startswith(_PYTHON):
        return OwnRetriever(load_object(name), knowledge_base, top_k=top_k, name=name)
    if name not in RETRIEVALS:
        raise InputError(
            "there is no such retrieval",
            where=name,
            mend=f"one of: {', '.join(RETRIEVALS)}; or python:module:attribute",
        )
    if name == "hyde":
        require_model(lm, where="hyde", why="HyDE")  # before everything is embedded
    if index is None:
        index = PassageIndex(knowledge_base, encoder() if callable(encoder) else encoder)
    if name == "hyde":
        return HyDE(index, lm, top_k=top_k)
    return BasicRag(index, top_k=top_k)
