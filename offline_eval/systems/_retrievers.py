"""Retrieval strategies: none, everything, nearest passages, HyDE, the user's own."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from langchain_core.runnables import Runnable

from ...guard.errors import LanguageModelError
from ...guard.prompts import Prompt
from ...guard.text import clean_text
from ..data.diversity.uniqueness import words_of
from ..data.questions import KnowledgeBase
from ..run.questions import CaseKind
from ..run.replies import ReplyContext, StoredPassage
from .factory import load_object
from .guards import normalised
from .models import CallMeter, TextModel, ask
from .plan import Case, prompt_of_package, require_retrieval
from .retrieval import (
    PassageIndex,
    Retrieved,
    Retriever,
    require_model,
    tagged,
)
from .served import ServedChain, documents_of


async def direct(case: Case) -> Retrieved:
    """No context: the model answers from its own knowledge."""
    return Retrieved(context=ReplyContext(kind="none"))


async def long_context(case: Case) -> Retrieved:
    """The whole knowledge base, without the case's own passage where it is left out.

    The context says what is missing from it and copies nothing.
    """
    gone = (case.passage_id,) if case.kind is CaseKind.LEFT_OUT else ()
    return Retrieved(context=ReplyContext(kind="all_but", passages=gone))


def basic_rag(index: PassageIndex, *, top_k: int = 5) -> Retriever:
    """Return what finds the passages nearest to the question, by cosine.

    Args:
        index: of the knowledge base.
        top_k: passages per context, at least 1.
    """
    search = _search(index, top_k)

    async def retrieve(case: Case) -> Retrieved:
        return Retrieved(context=await search(case, [case.question]))

    return retrieve


def _search(
    index: PassageIndex, top_k: int
) -> Callable[[Case, list[str]], Awaitable[ReplyContext]]:
    """Return what finds the passages nearest to the mean of some texts."""
    # Its own thread: an encoder keeps its core busy, and an event loop must go on.
    thread = ThreadPoolExecutor(1, "knowgate-retrieval")

    def nearest(case: Case, texts: list[str]) -> list[str]:
        vectors = index.encoder.embed(texts)
        vector, mean = vectors[0], vectors.mean(axis=0)
        length = float(np.linalg.norm(mean))
        # Answers that cancel each other out point nowhere; the first one still does.
        if len(texts) > 1 and length > 1e-6:
            vector = (mean / length).astype(np.float32)
        gone = {case.passage_id} if case.kind.leaves_out else ()
        return index.nearest(vector, top_k, without=gone)

    async def search(case: Case, texts: list[str]) -> ReplyContext:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(thread, nearest, case, texts)
        return ReplyContext(kind="passages", passages=tuple(found))

    return search


_ANSWERS = 3
_TAG = re.compile(r"</?passage>", re.IGNORECASE)


def hyde(index: PassageIndex, lm: TextModel | None, *, top_k: int = 5) -> Retriever:
    """Return what finds the passages nearest to the mean of three hypothetical answers.

    One call asks for all of them, so that they differ at any temperature. A model that
    keeps to no form has its whole reply taken for one answer; one that says nothing to such
    a prompt, as small models may, is asked the plain question once. Answers are embedded,
    averaged and brought to unit length.

    Args:
        index: of the knowledge base.
        lm: writes the answers; it is told the question alone. Where it says nothing, retrieving
            raises LanguageModelError.
        top_k: passages per context, at least 1.

    Raises:
        InputError: there is no language model.

    Source: Gao et al. 2023, Precise Zero-Shot Dense Retrieval without Relevance Labels;
    three answers as in KnowOrNot.
    """
    model = require_model(lm, where="hyde", why="HyDE")
    search = _search(index, top_k)
    prompts = (prompt_of_package("hypothetical_answers"), Prompt.bundled("closed_book"))

    async def retrieve(case: Case) -> Retrieved:
        slots, meter = {"question": case.question, "number": str(_ANSWERS)}, CallMeter()
        for prompt in prompts:
            given = {name: slots[name] for name in prompt.slots}
            text = clean_text(await ask(model, prompt.fill(**given), meter))
            whole = _TAG.sub(" ", text).strip()
            answers = tagged(text, "passage") or ([whole] if whole else [])
            if answers:
                break
        else:
            raise LanguageModelError("the model wrote no hypothetical answer")
        read, written = meter.tokens()
        return Retrieved(
            context=await search(case, answers[:_ANSWERS]),
            calls=meter.calls,
            input_tokens=read,
            output_tokens=written,
        )

    return retrieve


# Texts of fewer words stand in others by chance.
_SHORTEST_WITHIN = 4


def own_retriever(
    retriever: Runnable[Any, Any] | Callable[[str], Any],
    knowledge_base: KnowledgeBase,
    *,
    top_k: int = 5,
    name: str = "own",
) -> Retriever:
    """Make a strategy of any retriever from a question to documents, over the user's own index.

    It is asked with the question and nothing else. In a left-out case documents that are
    the left-out passage, hold it whole, or are a piece of it are dropped and the next ones
    move up: let it find some documents more than `top_k`, or such a case has fewer. Only
    words count for that, without case, accents and punctuation; a passage in other words
    is not known for what it is. What it finds besides the knowledge base is kept with the
    run.

    Args:
        retriever: a LangChain retriever or runnable, or a function (async or not);
            question → documents, or texts. Anything else that it gives is a RetrievalError.
        knowledge_base: of the cases.
        top_k: documents per context, at least 1.
        name: how runs call it.

    Raises:
        InputError: it is none of these.
    """
    asked = ServedChain(retriever, name=name).retriever
    words = {key: _words(text) for key, text in knowledge_base.passages.items()}
    # Of equal texts the first counts.
    ids = {normalised(text): key for key, text in reversed(knowledge_base.passages.items())}

    async def retrieve(case: Case) -> Retrieved:
        texts = [one.page_content for one in documents_of(await asked.ainvoke(case.question))]
        gone = words[case.passage_id] if case.kind is CaseKind.LEFT_OUT else None
        # By what counts when texts are compared.
        names: dict[str, str] = {}
        others: dict[str, StoredPassage] = {}
        for text in texts:
            plain = normalised(text)
            if not plain or plain in names or (gone is not None and _overlap(_words(text), gone)):
                continue
            key = ids.get(plain)
            if key is None:
                key = f"document-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
                others[key] = StoredPassage(passage_id=key, text=text)
            names[plain] = key
        kept = list(names.values())[:top_k]
        return Retrieved(
            context=ReplyContext(kind="passages", passages=tuple(kept)),
            passages=tuple(others[key] for key in kept if key in others),
        )

    return retrieve


def _words(text: str) -> str:
    """The words between spaces, so that "art" does not stand in "party"."""
    return f" {' '.join(words_of(text)) or normalised(text)} "


def _overlap(one: str, other: str) -> bool:
    """Whether one of two texts stands in the other, given their words."""
    shorter, longer = sorted((one, other), key=len)
    return shorter == longer or (shorter.count(" ") > _SHORTEST_WITHIN and shorter in longer)


def load_retriever(
    name: str,
    knowledge_base: KnowledgeBase,
    index: Callable[[], PassageIndex],
    *,
    lm: TextModel | None = None,
    top_k: int = 5,
) -> Retriever:
    """Load a retrieval strategy by name.

    Args:
        name: one of `RETRIEVALS`, or `python:module:attribute`, a retriever or runnable of
            LangChain or a function that makes one.
        knowledge_base: that is searched; a retriever of the user's own searches its own
            index, see `own_retriever`.
        index: makes the index of this knowledge base for `basic_rag` and `hyde`, or returns that
            of another strategy; called only then.
        lm: writes the hypothetical answers of `hyde`.
        top_k: passages per context, at least 1.

    Raises:
        InputError: there is no such strategy, it cannot be made, or `hyde` has no
            language model.
    """
    if name == "direct":
        return direct
    if name == "long_context":
        return long_context
    if name == "basic_rag":
        return basic_rag(index(), top_k=top_k)
    if name == "hyde":
        return hyde(index(), lm, top_k=top_k)
    require_retrieval(name)
    return own_retriever(load_object(name), knowledge_base, top_k=top_k, name=name)
