"""Conflict: the model's own answer against its answer from the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from .._arguments import checked_language_model
from .._conflict_finding import ConflictFinding
from .._contracts import LanguageModel
from .._matching import is_refusal, same_answer
from ..prompts import Prompt, bundled_prompt
from ._views import Said, Sameness, views_of


class AnswerConflict:
    """Conflict when the closed-book and the context answer are not the same.

    The context answer is drawn greedily from the same language model, from all
    passages together: one call. A refusal on either side is no conflict: there is
    only one answer then. Passages that contradict each other go unnoticed here
    (see `PassageConflict`).

    Args:
        language_model: what is asked.
        prompt: prompt with the slots `{context}` and `{question}`.
        same: when two answers count as one; by default when they are equal after
            normalisation. `SameMeaning` compares what they mean.
        refuses: when a reply says that there is no answer.

    Attributes:
        compares_passages: False; a policy that asks for that refuses this detector.

    Raises:
        InputError: `language_model` is none, e.g. a bare LangChain chat model.
    """

    compares_passages: ClassVar[bool] = False

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        prompt: Prompt | None = None,
        same: Sameness = same_answer,
        refuses: Callable[[str], bool] = is_refusal,
    ) -> None:
        self._language_model = checked_language_model(language_model)
        self._prompt = prompt or bundled_prompt("with_context")
        self._same = same
        self._refuses = refuses

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """True when the passages support another answer than the closed-book one.

        Raises:
            LanguageModelError: the model did not answer.
        """
        return self.examine(question, closed_book_answer, passages).conflict

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`, without blocking the event loop."""
        return (await self.aexamine(question, closed_book_answer, passages)).conflict

    def examine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """Both answers, the context's as the view of all passages.

        Raises:
            LanguageModelError: the model did not answer.
        """
        if not passages:
            return self._found(question, closed_book_answer, passages, "")
        [[found]] = self._language_model.generate([self._filled(question, passages)])
        return self._found(question, closed_book_answer, passages, found.text)

    async def aexamine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """As `examine`, without blocking the event loop."""
        if not passages:
            return self._found(question, closed_book_answer, passages, "")
        [[found]] = await self._language_model.agenerate([self._filled(question, passages)])
        return self._found(question, closed_book_answer, passages, found.text)

    def _filled(self, question: str, passages: Sequence[str]) -> str:
        return self._prompt.fill(context="\n\n".join(passages), question=question)

    def _found(
        self, question: str, closed_book: str, passages: Sequence[str], from_context: str
    ) -> ConflictFinding:
        said: list[Said] = [
            (from_context, tuple(range(len(passages))), False),
            (closed_book, (), True),
        ]
        return ConflictFinding.of(views_of(question, said, self._same, self._refuses))
