"""Conflict between the passages themselves, and of each with the model's own answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from .._arguments import checked_language_model
from .._conflict_finding import ConflictFinding
from .._contracts import Generation, LanguageModel
from .._matching import is_refusal, same_answer
from ..prompts import Prompt, bundled_prompt
from ._views import Said, Sameness, views_of


class PassageConflict:
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
        """True when any two answers differ; an empty closed-book answer stands for none.

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
