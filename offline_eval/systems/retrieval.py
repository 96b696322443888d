"""Retrieve passages: the protocol, calls of models, and an exact nearest-neighbour search."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import numpy as np
from langchain_core.runnables import Runnable
from numpy.typing import NDArray

from ...guard.contracts import LanguageModel, TextEmbedder
from ...guard.errors import InputError
from ..data.embedding import embed_all
from ..data.questions import KnowledgeBase
from ..run import RowError
from ..run.manifest import Stored
from ..run.replies import ReplyContext, StoredPassage
from .factory import require_kind
from .models import TextModel
from .plan import Case


class Retrieved(Stored):
    """A context by reference, and what finding it cost; a line of `contexts.jsonl`.

    Attributes:
        context_id: `<retrieval>/<case id>`.
        context: ids, never texts; a context of nearly everything names what it lacks.
        passages: texts that the knowledge base does not hold, by the ids that `context`
            has for them; only a retriever of the user's own finds such.
        calls: of language models.
        input_tokens: of those calls, None where not metered.
        output_tokens: likewise.
        error: why nothing could be retrieved; set exactly where there is no context.
    """

    context_id: str = ""
    context: ReplyContext | None = None
    passages: tuple[StoredPassage, ...] = ()
    calls: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    error: RowError | None = None


# From a case to its context, without the case's own passage where it is left out. A case has no
# answer on it, and a search gets the case's question and nothing else: what the knowledge base
# says about the question cannot slip into a query.
Retriever: TypeAlias = Callable[[Case], Awaitable[Retrieved]]


def require_model(model: object, *, where: str, why: str) -> TextModel:
    """Check that there is a language model, and return it.

    Raises:
        InputError: there is none, or it is of neither kind.
    """
    if model is None:
        raise InputError(
            f"{why} needs a language model, and there is no way to do without",
            where=where,
            hint="name a chat model, e.g. `provider:model` or `embedded`",
        )
    hint = "give a chat model of LangChain, a runnable, or a knowgate LanguageModel"
    found: TextModel = require_kind(
        model, Runnable | LanguageModel, "a language model", where, hint
    )
    return found


def tagged(text: str, tag: str) -> list[str]:
    """Return the texts between `<tag>` and `</tag>`, in order, without empty ones.

    Example:
        >>> tagged("<a> one </a> and <A>two</A><a></a>", "a")
        ['one', 'two']
    """
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.IGNORECASE | re.DOTALL)
    return [" ".join(one.split()) for one in found if one.strip()]


Floats32 = NDArray[np.float32]
Integers = NDArray[np.int64]


def top_k(queries: Floats32, matrix: Floats32, k: int) -> tuple[Integers, Floats32]:
    """Find the `k` rows of `matrix` with the largest dot products, for each of a few queries.

    Rows come in falling order, equal ones in the order of the matrix. Products are summed in
    float64 and rounded to float32, so that equal rows are equal however they are summed.

    Args:
        queries: of shape (queries, dimensions), finite.
        matrix: of shape (rows, dimensions), finite.
        k: rows wanted, at least 1.

    Returns:
        Row numbers of shape (queries, min(k, rows)), and their dot products.
    """
    products = (queries.astype(np.float64) @ matrix.astype(np.float64).T).astype(np.float32)
    rows = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return rows, np.take_along_axis(products, rows, axis=1)


class PassageIndex:
    """The passages of a knowledge base, embedded once.

    Args:
        knowledge_base: that is searched.
        encoder: for passages and queries.

    Attributes:
        encoder: as given.
        ids: of the passages, in the order of the knowledge base.
        matrix: their embeddings, of shape (passages, dimensions).

    Raises:
        InputError: the encoder gives something else than embeddings.
    """

    def __init__(self, knowledge_base: KnowledgeBase, encoder: TextEmbedder) -> None:
        self.encoder = encoder
        self.ids = list(knowledge_base.passages)
        self.matrix = embed_all(list(knowledge_base.passages.values()), encoder)

    def nearest(self, vector: Floats32, k: int, *, without: Collection[str] = ()) -> list[str]:
        """Ids of the `k` passages nearest to a vector, best first; ties keep their order.

        Args:
            vector: of shape (dimensions,).
            k: at most this many.
            without: passages that must not be found.
        """
        rows, _ = top_k(vector[None, :], self.matrix, k + len(without))
        return [name for row in rows[0] if (name := self.ids[row]) not in without][:k]
