"""Retrieve passages: the protocol, calls of models, and an exact nearest-neighbour search."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from numpy.typing import NDArray

from ...adapters.langchain import GuardedAnswer
from ...guard.contracts import LanguageModel, TextEmbedder
from ...guard.errors import InputError
from ...guard.prompts import Prompt
from ...guard.text import clean_text
from ..data.embedding import embed_all
from ..data.questions import KnowledgeBase
from ..run.calls import OnStep
from ..run.replies import ReplyContext, StoredPassage
from .plan import Case


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A context by reference, and what finding it cost.

    Attributes:
        context: ids, never texts; a context of nearly everything names what it lacks.
        passages: texts that the knowledge base does not hold, by the ids that `context`
            has for them; only a retriever of the user's own finds such.
        calls: of language models.
        input_tokens: of those calls, None where not metered.
        output_tokens: likewise.
    """

    context: ReplyContext
    passages: tuple[StoredPassage, ...] = ()
    calls: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0

    def texts(self, knowledge_base: KnowledgeBase) -> list[str]:
        """The texts of the context, in the order in which a model reads them."""
        own = {passage.passage_id: passage.text for passage in self.passages}
        return context_texts(self.context, knowledge_base, own)


def context_texts(
    context: ReplyContext, knowledge_base: KnowledgeBase, own: Mapping[str, str] | None = None
) -> list[str]:
    """The texts that a context refers to; none for a closed book or an unknown context.

    Args:
        context: by reference.
        knowledge_base: that it refers to.
        own: further texts by id.
    """
    if context.kind == "passages":
        texts = {**knowledge_base.passages, **(own or {})}
        return [texts[name] for name in context.passages]
    if context.kind == "all_but":
        gone = frozenset(context.passages)
        return [text for name, text in knowledge_base.passages.items() if name not in gone]
    return []


@runtime_checkable
class Retriever(Protocol):
    """A retrieval strategy.

    A case has no answer on it, and a search gets the case's question and nothing else:
    what the knowledge base says about the question cannot slip into a query.
    """

    @property
    def name(self) -> str:
        """How runs call it."""
        ...

    async def aretrieve(self, case: Case) -> Retrieved:
        """The context for one case, without the case's own passage where it is left out.

        Raises:
            KnowgateError: nothing could be retrieved; what a language model or a
                retriever of the user's own raises stays as it is.
        """
        ...


# A chat model (or any runnable from text to a message or text), or the guard's own kind.
TextModel: TypeAlias = Runnable[Any, Any] | LanguageModel


@dataclass(frozen=True, slots=True)
class Said:
    """The reply of a model to one prompt.

    Attributes:
        text: as clean text.
        input_tokens: of the call, None where not metered.
        output_tokens: likewise.
    """

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None


async def ask(model: TextModel, prompt: str) -> Said:
    """Ask a model once; deadline and retries are up to the caller."""
    if isinstance(model, Runnable):
        output = await model.ainvoke(prompt)
        usage = output.usage_metadata if isinstance(output, AIMessage) else None
        counts: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
        return Said(
            clean_text(GuardedAnswer.text_of(output)),
            _count(counts.get("input_tokens")),
            _count(counts.get("output_tokens")),
        )
    rows = await model.agenerate([prompt])
    return Said(clean_text(rows[0][0].text))


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
    if not isinstance(model, Runnable | LanguageModel):
        raise InputError(
            f"is a {type(model).__name__}, no language model",
            where=where,
            hint="give a chat model of LangChain, a runnable, or a knowgate LanguageModel",
        )
    return model


def total(counts: Sequence[int | None]) -> int | None:
    """Their sum, None where one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def tagged(text: str, tag: str) -> list[str]:
    """Return the texts between `<tag>` and `</tag>`, in order, without empty ones.

    Example:
        >>> tagged("<a> one </a> and <A>two</A><a></a>", "a")
        ['one', 'two']
    """
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.IGNORECASE | re.DOTALL)
    return [" ".join(one.split()) for one in found if one.strip()]


def prompt_of_package(name: str) -> Prompt:
    """Load a prompt that ships with this package."""
    file = resources.files(__package__).joinpath("prompts", f"{name}.txt")
    return Prompt(name=name, text=file.read_text(encoding="utf-8").rstrip("\n"))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


Floats32 = NDArray[np.float32]
Integers = NDArray[np.int64]

# Queries whose dot products with all rows are held at once.
_QUERIES = 256


def top_k_in_blocks(
    queries: Floats32,
    matrix: Floats32,
    k: int,
    exclude: Sequence[int | None] | Integers | None = None,
    *,
    on_progress: OnStep | None = None,
) -> tuple[Integers, Floats32]:
    """Find the `k` rows of `matrix` with the largest dot products, for each query.

    Rows come in falling order, equal ones in the order of the matrix. Products are summed in
    float64 and rounded to float32, so that equal rows are equal however they are summed.

    Args:
        queries: of shape (queries, dimensions), finite.
        matrix: of shape (rows, dimensions), finite.
        k: rows wanted, at least 1.
        exclude: per query a row that it must not find; None or a negative number for none.
        on_progress: called with (queries done, queries in all).

    Returns:
        Row numbers of shape (queries, min(k, rows)), and their dot products. A query that
        must not find one of so few rows ends with -1 and minus infinity.

    Raises:
        InputError: `k` is below 1, a number is not finite, or the shapes do not go together.
    """
    gone = _checked(queries, matrix, k, exclude)
    width = min(k, len(matrix))
    rows = np.full((len(queries), width), -1, dtype=np.int64)
    values = np.full((len(queries), width), -np.inf, dtype=np.float32)
    if width == 0:
        return rows, values
    columns = matrix.astype(np.float64).T
    for start in range(0, len(queries), _QUERIES):
        block = queries[start : start + _QUERIES].astype(np.float64)
        products = (block @ columns).astype(np.float32)
        for at, row in enumerate(products, start=start):
            if gone[at] >= 0:
                row[gone[at]] = -np.inf
            least = np.partition(row, -width)[-width]
            best = np.flatnonzero((row >= least) & (row > -np.inf))
            best = best[np.argsort(-row[best], kind="stable")][:width]
            rows[at, : len(best)], values[at, : len(best)] = best, row[best]
        if on_progress is not None:
            on_progress(min(start + _QUERIES, len(queries)), len(queries))
    return rows, values


def _checked(
    queries: Floats32, matrix: Floats32, k: int, exclude: Sequence[int | None] | Integers | None
) -> Integers:
    """The excluded row of each query, -1 for none."""
    if k < 1:
        raise InputError(f"must be at least 1, not {k}", where="k")
    if queries.ndim != 2 or matrix.ndim != 2 or queries.shape[1] != matrix.shape[1]:
        raise InputError(
            f"queries of shape {queries.shape} and a matrix of shape {matrix.shape} do not "
            "go together"
        )
    for name, given in (("matrix", matrix), ("queries", queries)):
        if not np.isfinite(given).all():
            raise InputError("there is a number that is not finite", where=name)
    if exclude is None:
        return np.full(len(queries), -1, dtype=np.int64)
    if len(exclude) != len(queries):
        raise InputError(f"{len(queries)} expected, {len(exclude)} given", where="exclude")
    gone = np.asarray([-1 if row is None else row for row in exclude], dtype=np.int64)
    if len(gone) and gone.max() >= len(matrix):
        raise InputError(f"there is no row {gone.max()}", where="exclude")
    return gone


class PassageIndex:
    """The passages of a knowledge base, embedded once.

    Args:
        knowledge_base: that is searched.
        encoder: for passages and queries.
        on_progress: called with (passages embedded, passages in all).

    Attributes:
        encoder: as given.
        ids: of the passages, in the order of the knowledge base.
        matrix: their embeddings, of shape (passages, dimensions).

    Raises:
        InputError: the encoder gives something else than embeddings.
    """

    def __init__(
        self,
        knowledge_base: KnowledgeBase,
        encoder: TextEmbedder,
        on_progress: OnStep | None = None,
    ) -> None:
        self.encoder = encoder
        self.ids = list(knowledge_base.passages)
        self._rows = {name: row for row, name in enumerate(self.ids)}
        self.matrix = embed_all(list(knowledge_base.passages.values()), encoder, on_progress)

    def nearest(self, vector: NDArray[np.float32], k: int, without: str | None = None) -> list[str]:
        """Ids of the `k` passages nearest to a vector, best first; ties keep their order.

        Args:
            vector: of shape (dimensions,).
            k: at most this many.
            without: a passage that must not be found.
        """
        gone = -1 if without is None else self._rows[without]
        rows, _ = top_k_in_blocks(vector[None, :], self.matrix, k, [gone])
        return [self.ids[row] for row in rows[0] if row >= 0]

    def neighbours(self, k: int) -> dict[str, list[tuple[str, float]]]:
        """The `k` nearest other passages of each passage, with their cosines."""
        rows, cosines = top_k_in_blocks(self.matrix, self.matrix, k, np.arange(len(self.ids)))
        return {
            name: [
                (self.ids[row], float(cosine))
                for row, cosine in zip(rows[at], cosines[at], strict=True)
                if row >= 0
            ]
            for at, name in enumerate(self.ids)
        }

    def vector(self, name: str) -> NDArray[np.float32]:
        """The embedding of a passage, of shape (dimensions,)."""
        return np.asarray(self.matrix[self._rows[name]])

    def cosine(self, one: str, other: str) -> float:
        """The cosine of two passages."""
        return float(np.dot(self.vector(one), self.vector(other)))

    def nearest_for(self, case: Case, vector: NDArray[np.float32], k: int) -> list[str]:
        """As `nearest`, without the case's own passage where it is left out."""
        return self.nearest(vector, k, case.passage_id if case.kind.leaves_out else None)
