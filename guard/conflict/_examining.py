"""What detectors share that ask a language model and compare its answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from .._arguments import checked_language_model
from .._conflict_finding import ConflictFinding
from .._contracts import LanguageModel
from .._matching import is_refusal, same_answer
from ..prompts import Prompt, bundled_prompt
from ._views import Sameness


class ExaminingDetector(ABC):
    """A detector whose verdict is that of its finding.

    Args:
        language_model: what is asked.
        prompt: with the slots `{context}` and `{question}`.
        same: when two answers count as one.
        refuses: when an answer is none.
    """

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

    @abstractmethod
    def examine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """The answers there are, with what supports each."""

    @abstractmethod
    async def aexamine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """As `examine`, without blocking the event loop."""

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """True when the finding is a conflict.

        Raises:
            LanguageModelError: the model did not answer.
        """
        return self.examine(question, closed_book_answer, passages).conflict

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`, without blocking the event loop."""
        return (await self.aexamine(question, closed_book_answer, passages)).conflict
