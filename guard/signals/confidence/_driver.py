"""Estimators that ask the language model step by step.

An estimator is written once, as a generator: `_steps(question)` yields requests, is sent
their answers, and returns the `Confidence`. Its sync, async and batch forms follow.

    def _steps(self, question: str) -> Steps[Confidence]:
        [greedy] = yield Draw(self._prompt.fill(question=question))
        ...
        return Confidence(value, greedy.text.strip(), calls=1)

One estimator runs inside another by `yield from other._steps(question)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from ..._model_steps import BATCH_SIZE, Draw, Steps, arun_steps, run_steps
from ...contracts import Confidence, Cost, Generation, LanguageModel, checked_language_model
from ...errors import InputError, require_known
from ...fingerprint import Fingerprint
from ...matching import is_refusal
from ...prompts import Prompt


class StepwiseEstimator(ABC):
    """An estimator that requests calls of the language model step by step.

    Args:
        language_model: what is asked.

    Raises:
        InputError: `language_model` is not one, e.g. a bare LangChain chat model.
    """

    def __init__(self, language_model: LanguageModel) -> None:
        self._language_model = checked_language_model(language_model)

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The most that one question may cost."""

    @property
    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""

    @abstractmethod
    def _steps(self, question: str) -> Steps[Confidence]:
        """Yields requests, is sent their answers, returns the confidence."""

    def estimate(self, question: str) -> Confidence:
        """Confidence in the closed-book answer to `question`.

        Raises:
            LanguageModelError: the model did not answer.
        """
        found: Confidence = self.estimate_many([question])[0]
        return found

    async def aestimate(self, question: str) -> Confidence:
        """As `estimate`, without blocking the event loop."""
        found: Confidence = (await self.aestimate_many([question]))[0]
        return found

    def estimate_many(
        self,
        questions: Sequence[str],
        *,
        on_error: Literal["raise", "return"] = "raise",
        batch_size: int = BATCH_SIZE,
    ) -> list[Any]:
        """As `estimate` for each question, with their requests put together.

        Args:
            questions: any number; memory grows with `batch_size`, not with them.
            on_error: "raise" the first error, or "return" it in its question's place.
            batch_size: prompts per call of the language model at most.

        Returns:
            One confidence per question, in order: those of `estimate`, given a model
            whose answers depend on prompt and seed only.

        Raises:
            LanguageModelError: the model failed for a question, under "raise".
            InputError: an argument is out of range.
        """
        steps, raising = self._begun(questions, on_error)
        return run_steps(self._language_model, steps, batch_size, raising=raising)

    async def aestimate_many(
        self,
        questions: Sequence[str],
        *,
        on_error: Literal["raise", "return"] = "raise",
        batch_size: int = BATCH_SIZE,
    ) -> list[Any]:
        """As `estimate_many`, without blocking the event loop."""
        steps, raising = self._begun(questions, on_error)
        return await arun_steps(self._language_model, steps, batch_size, raising=raising)

    def _begun(
        self, questions: Sequence[str], on_error: str
    ) -> tuple[list[Steps[Confidence]], bool]:
        """The steps of each question, and whether errors are raised."""
        require_known(on_error, ("raise", "return"), "on_error")
        if isinstance(questions, str):
            raise InputError("is one string", where="questions", hint="give a list of strings")
        return list(map(self._steps, questions)), on_error == "raise"


class ClosedBookEstimator(StepwiseEstimator):
    """An estimator that first draws the greedy closed-book answer; a refusal has confidence 0.

    Args:
        language_model: what is asked.
        prompt: closed-book prompt with a `{question}` slot; by default the bundled one.
        seed: of the greedy answer.
    """

    kind: ClassVar[str]

    def __init__(
        self, language_model: LanguageModel, prompt: Prompt | None, seed: int | None = None
    ) -> None:
        super().__init__(language_model)
        self._prompt = prompt or Prompt.bundled("closed_book")
        self._greedy_seed = seed

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        settings = {"language_model": self._language_model.fingerprint, **self._settings()}
        return Fingerprint(kind=self.kind, backend="language_model", settings=settings)

    @abstractmethod
    def _settings(self) -> Mapping[str, str | int | float | bool | None]:
        """What fingerprints record besides the language model."""

    def _steps(self, question: str) -> Steps[Confidence]:
        prompt = self._prompt.fill(question=question)
        [greedy] = yield Draw(prompt, seed=self._greedy_seed)
        answer = greedy.text.strip()
        if is_refusal(answer):
            saved = self.cost.sampled_calls
            return Confidence(0.0, answer, samples_saved=saved, calls=1)
        return (yield from self._after(question, answer, greedy))

    @abstractmethod
    def _after(self, question: str, answer: str, greedy: Generation) -> Steps[Confidence]:
        """The steps after a greedy answer that is no refusal."""
