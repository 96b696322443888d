"""What a retrieval strategy is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..knowledge_base import KnowledgeBase
from ..ookb import Case
from ..replies import ReplyContext, StoredPassage


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
