"""The user's own retriever under test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import coerce_to_runnable

from ...adapters.langchain import RetrievalError
from ...guard import InputError, passage_text
from ..diversity import words_of
from ..knowledge_base import KnowledgeBase
from ..ookb import Case, CaseKind
from ..replies import ReplyContext, StoredPassage
from ._basic_rag import require_top_k
from ._contract import Retrieved

# Texts of fewer words stand in others by chance.
_SHORTEST_WITHIN = 4


class OwnRetriever:
    """Any retriever from a question to documents, over the user's own index.

    It is asked with the question and nothing else. In a left-out case documents that are
    the left-out passage, hold it whole, or are a piece of it are dropped and the next ones
    move up: let it find some documents more than `top_k`, or such a case has fewer. Only
    words count for that, without case, accents and punctuation; a passage in other words
    is not known for what it is. What it finds besides the knowledge base is kept with the
    run.

    Args:
        retriever: a LangChain retriever or runnable, or a function (async or not);
            question → documents, or texts.
        knowledge_base: of the cases.
        top_k: documents per context, at least 1.
        name: how runs call it.

    Raises:
        InputError: it is none of these, or `top_k` is below 1.
    """

    def __init__(
        self,
        retriever: Runnable[Any, Any] | Callable[[str], Any],
        knowledge_base: KnowledgeBase,
        *,
        top_k: int = 5,
        name: str = "own",
    ) -> None:
        if not isinstance(retriever, Runnable) and not callable(retriever):
            raise InputError(
                f"is a {type(retriever).__name__}, no retriever",
                where=name,
                mend="give a LangChain retriever, a runnable, or a function of a question",
            )
        self.name = name
        self._retriever: Runnable[Any, Any] = coerce_to_runnable(retriever)
        self._top_k = require_top_k(top_k)
        self._words = {key: _words(text) for key, text in knowledge_base.passages.items()}
        self._ids: dict[str, str] = {}
        for key, text in knowledge_base.passages.items():
            self._ids.setdefault(_plain(text), key)

    async def aretrieve(self, case: Case) -> Retrieved:
        """The documents found for the question, best first.

        Raises:
            RetrievalError: it returned something that is not documents.
        """
        texts = _texts(await self._retriever.ainvoke(case.question))
        gone = self._words[case.passage_id] if case.kind is CaseKind.LEFT_OUT else None
        names: dict[str, str] = {}  # by what counts when texts are compared
        others: dict[str, StoredPassage] = {}
        for text in texts:
            plain = _plain(text)
            if not plain or plain in names or (gone is not None and _overlap(_words(text), gone)):
                continue
            name = self._ids.get(plain)
            if name is None:
                name = f"document-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
                others[name] = StoredPassage(passage_id=name, text=text)
            names[plain] = name
        kept = list(names.values())[: self._top_k]
        return Retrieved(
            ReplyContext(kind="passages", passages=tuple(kept)),
            passages=tuple(others[name] for name in kept if name in others),
        )


def _texts(found: object) -> list[str]:
    if found is None:
        return []
    if not isinstance(found, list | tuple):
        raise RetrievalError(f"the retriever returned a {type(found).__name__}, not documents")
    texts = []
    for document in found:
        text = passage_text(document)
        # A document may be empty; a number is none.
        if not text and not isinstance(document, str | Document):
            raise RetrievalError(
                f"the retriever returned a {type(document).__name__} among its documents"
            )
        texts.append(text)
    return texts


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _words(text: str) -> str:
    """The words between spaces, so that "art" does not stand in "party"."""
    return f" {' '.join(words_of(text)) or _plain(text)} "


def _overlap(one: str, other: str) -> bool:
    """Whether one of two texts stands in the other, given their words."""
    shorter, longer = sorted((one, other), key=len)
    return shorter == longer or (shorter.count(" ") > _SHORTEST_WITHIN and shorter in longer)
