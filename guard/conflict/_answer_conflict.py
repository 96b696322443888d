"""Conflict: the model's own answer against its answer from the context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .._conflict_finding import ConflictFinding
from ._examining import ExaminingDetector
from ._views import Said, views_of


class AnswerConflict(ExaminingDetector):
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
