"""Conflict between the passages themselves, and of each with the model's own answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .._conflict_finding import ConflictFinding
from .._contracts import Generation
from ._examining import ExaminingDetector
from ._views import Said, views_of


class PassageConflict(ExaminingDetector):
    """Conflict when passages, each read alone, or the model's memory answer differently.

    One answer is drawn greedily from every passage by itself; a passage that gives
    none (a refusal) has no view. The answers of one question are one call of the
    language model with as many prompts as there are different passages.

    Args:
        language_model: what is asked.
        prompt: prompt with the slots `{context}` and `{question}`.
        same: when two answers count as one; by default when they are equal after
            normalisation. `SameMeaning` compares what they mean.
        refuses: when a reply says that there is no answer.

    Attributes:
        compares_passages: True.

    Raises:
        InputError: `language_model` is none, e.g. a bare LangChain chat model.

    Example:
        >>> from knowgate.guard.testing import ScriptedLanguageModel
        >>> model = ScriptedLanguageModel({"at nine": "nine", "at ten": "ten"})
        >>> passages = ["We open at nine.", "We are friendly.", "We open at ten."]
        >>> finding = PassageConflict(model).examine("When do you open?", "Ten.", passages)
        >>> finding.kind, [(view.answer, view.passages) for view in finding.views]
        ('passages', [('nine', (0,)), ('ten', (2,))])
    """

    compares_passages: ClassVar[bool] = True

    def examine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """Every answer there is, with the passages that support it.

        Raises:
            LanguageModelError: the model did not answer.
        """
        prompts = self._prompts(question, passages)
        drawn = self._language_model.generate(list(prompts)) if prompts else []
        return self._found(question, closed_book_answer, list(prompts.values()), drawn)

    async def aexamine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """As `examine`, without blocking the event loop."""
        prompts = self._prompts(question, passages)
        drawn = await self._language_model.agenerate(list(prompts)) if prompts else []
        return self._found(question, closed_book_answer, list(prompts.values()), drawn)

    def _prompts(self, question: str, passages: Sequence[str]) -> dict[str, list[int]]:
        prompts: dict[str, list[int]] = {}
        for index, passage in enumerate(passages):
            if passage.strip():
                filled = self._prompt.fill(context=passage, question=question)
                prompts.setdefault(filled, []).append(index)
        return prompts

    def _found(
        self,
        question: str,
        closed_book: str,
        passages: Sequence[Sequence[int]],
        drawn: Sequence[Sequence[Generation]],
    ) -> ConflictFinding:
        said: list[Said] = [
            (found.text, tuple(indices), False)
            for indices, [found] in zip(passages, drawn, strict=True)
        ]
        said.append((closed_book, (), True))
        return ConflictFinding.of(views_of(question, said, self._same, self._refuses))
