"""Retrieval strategies: none, everything, nearest passages, HyDE, the user's own."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import coerce_to_runnable

from ...adapters.langchain import RetrievalError
from ...guard.contracts import TextEmbedder
from ...guard.errors import InputError, LanguageModelError
from ...guard.prompts import Prompt
from ...guard.text import passage_text
from ..data.diversity.uniqueness import words_of
from ..data.questions import KnowledgeBase
from ..run.questions import CaseKind
from ..run.replies import ReplyContext, StoredPassage
from .factory import PYTHON, load_object
from .plan import Case
from .retrieval import (
    PassageIndex,
    Retrieved,
    Retriever,
    TextModel,
    ask,
    prompt_of_package,
    require_model,
    tagged,
    total,
)


class Direct:
    """No context: the model answers from its own knowledge."""

    name = "direct"

    async def aretrieve(self, case: Case) -> Retrieved:
        """Nothing."""
        return Retrieved(ReplyContext(kind="none"))


class LongContext:
    """The whole knowledge base, without the case's own passage where it is left out.

    The context says what is missing from it and copies nothing.
    """

    name = "long_context"

    async def aretrieve(self, case: Case) -> Retrieved:
        """All but the left-out passage."""
        gone = (case.passage_id,) if case.kind is CaseKind.LEFT_OUT else ()
        return Retrieved(ReplyContext(kind="all_but", passages=gone))


class BasicRag:
    """Top-k passages by cosine with the question.

    Args:
        index: of the knowledge base.
        top_k: passages per context, at least 1.

    Raises:
        InputError: `top_k` is below 1.
    """

    name = "basic_rag"

    def __init__(self, index: PassageIndex, *, top_k: int = 5) -> None:
        self._index, self._top_k = index, require_top_k(top_k)
        # Its own thread: an encoder keeps its core busy, and an event loop must go on.
        self._thread = ThreadPoolExecutor(1, "knowgate-retrieval")

    async def aretrieve(self, case: Case) -> Retrieved:
        """The passages nearest to the question."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._thread, self._found, case)
        return Retrieved(ReplyContext(kind="passages", passages=tuple(found)))

    def _found(self, case: Case) -> list[str]:
        vector = self._index.encoder.embed([case.question])[0]
        return self._index.nearest_for(case, vector, self._top_k)


def require_top_k(top_k: int) -> int:
    """Check `top_k` and return it.

    Raises:
        InputError: it is below 1.
    """
    if top_k < 1:
        raise InputError(f"must be at least 1, not {top_k}", where="top_k")
    return top_k


_SLOTS = frozenset({"question", "number"})
_TAG = re.compile(r"</?passage>", re.IGNORECASE)


class HyDE:
    """Top-k passages by cosine with the mean of some hypothetical answers.

    One call asks for all of them, so that they differ at any temperature. A model that
    keeps to no form has its whole reply taken for one answer; one that says nothing to such
    a prompt, as small models may, is asked the plain question once. Answers are embedded,
    averaged and brought to unit length.

    Args:
        index: of the knowledge base.
        lm: writes the answers; it is told the question alone.
        top_k: passages per context, at least 1.
        answers: hypothetical answers, at least 1.
        prompt: with the slots `question` and `number`; the bundled one otherwise.

    Raises:
        InputError: there is no language model, or an argument is out of range.

    Source: Gao et al. 2023, Precise Zero-Shot Dense Retrieval without Relevance Labels;
    three answers as in KnowOrNot.
    """

    name = "hyde"

    def __init__(
        self,
        index: PassageIndex,
        lm: TextModel | None,
        *,
        top_k: int = 5,
        answers: int = 3,
        prompt: Prompt | None = None,
    ) -> None:
        self._lm = require_model(lm, where="hyde", why="HyDE")
        self._index, self._top_k = index, require_top_k(top_k)
        if answers < 1:
            raise InputError(f"must be at least 1, not {answers}", where="answers")
        self._answers = answers
        self.prompt = prompt_of_package("hypothetical_answers") if prompt is None else prompt
        if "question" not in self.prompt.slots or not self.prompt.slots <= _SLOTS:
            raise InputError(
                "the prompt needs the slot {question} and may have {number}, and no other",
                where=self.prompt.name,
            )
        self._plain = Prompt.bundled("closed_book")
        self._thread = ThreadPoolExecutor(1, "knowgate-retrieval")

    async def aretrieve(self, case: Case) -> Retrieved:
        """The passages nearest to the hypothetical answers.

        Raises:
            LanguageModelError: the model said nothing.
        """
        saids = [await ask(self._lm, self.prompt.fill(**self._slots(case)))]
        answers = _answers_in(saids[0].text)
        if not answers:
            saids.append(await ask(self._lm, self._plain.fill(question=case.question)))
            answers = _answers_in(saids[1].text)
        if not answers:
            raise LanguageModelError("the model wrote no hypothetical answer")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._thread, self._found, case, answers[: self._answers]
        )
        return Retrieved(
            ReplyContext(kind="passages", passages=tuple(found)),
            calls=len(saids),
            input_tokens=total([said.input_tokens for said in saids]),
            output_tokens=total([said.output_tokens for said in saids]),
        )

    def _slots(self, case: Case) -> dict[str, str]:
        return {"question": case.question, "number": str(self._answers)}

    def _found(self, case: Case, answers: list[str]) -> list[str]:
        mean = self._index.encoder.embed(answers).mean(axis=0)
        length = float(np.linalg.norm(mean))
        # Answers that cancel each other out point nowhere; the first one still does.
        vector = mean / length if length > 1e-6 else self._index.encoder.embed(answers[:1])[0]
        return self._index.nearest_for(case, vector.astype(np.float32), self._top_k)


def _answers_in(text: str) -> list[str]:
    """The answers between tags; without any the whole reply, if it says something."""
    whole = _TAG.sub(" ", text).strip()
    return tagged(text, "passage") or ([whole] if whole else [])


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
                hint="give a LangChain retriever, a runnable, or a function of a question",
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


RETRIEVALS = ("direct", "long_context", "basic_rag", "hyde")


def load_retriever(
    name: str,
    knowledge_base: KnowledgeBase,
    encoder: TextEmbedder | Callable[[], TextEmbedder],
    *,
    lm: TextModel | None = None,
    top_k: int = 5,
    index: PassageIndex | None = None,
) -> Retriever:
    """Load a retrieval strategy by name.

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
    if name.startswith(PYTHON):
        return OwnRetriever(load_object(name), knowledge_base, top_k=top_k, name=name)
    if name not in RETRIEVALS:
        raise InputError(
            "there is no such retrieval",
            where=name,
            hint=f"one of: {', '.join(RETRIEVALS)}; or python:module:attribute",
        )
    if name == "hyde":
        require_model(lm, where="hyde", why="HyDE")  # before everything is embedded
    if index is None:
        index = PassageIndex(knowledge_base, encoder() if callable(encoder) else encoder)
    if name == "hyde":
        return HyDE(index, lm, top_k=top_k)
    return BasicRag(index, top_k=top_k)
