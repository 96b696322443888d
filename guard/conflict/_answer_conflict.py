"""Conflict: the model's own answer against its answer from the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._arguments import checked_language_model
from .._contracts import LanguageModel
from .._matching import is_refusal, same_answer
from ..prompts import Prompt, bundled_prompt


class AnswerConflict:
    """Conflict when the closed-book and the context answer are not the same.

    The context answer is drawn greedily from the same language model. A refusal
    on either side is no conflict: there is only one answer then.

    Args:
        language_model: what is asked.
        prompt: prompt with the slots `{context}` and `{question}`.
        same: when two answers count as one; by default when they are equal after
            normalisation.

    Raises:
        InputError: `language_model` is none, e.g. a bare LangChain chat model.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        prompt: Prompt | None = None,
        same: Callable[[str, str], bool] = same_answer,
    ) -> None:
        self._language_model = checked_language_model(language_model)
        self._prompt = prompt or bundled_prompt("with_context")
        self._same = same

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """True when the passages support another answer than the closed-book one.

        Raises:
            LanguageModelError: the model did not answer.
        """
        [[found]] = self._language_model.generate([self._filled(question, passages)])
        return self._differs(closed_book_answer, found.text)

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`, without blocking the event loop."""
        [[found]] = await self._language_model.agenerate([self._filled(question, passages)])
        return self._differs(closed_book_answer, found.text)

    def _filled(self, question: str, passages: Sequence[str]) -> str:
        return self._prompt.fill(context="\n\n".join(passages), question=question)

    def _differs(self, closed_book: str, from_context: str) -> bool:
        if is_refusal(closed_book) or is_refusal(from_context):
            return False
        return not self._same(closed_book, from_context)
