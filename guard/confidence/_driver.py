"""Estimators as plain steps, and the one place that asks the language model.

An estimator is written once, as a generator: `_steps(question)` yields requests,
is sent their answers, and returns the `Confidence`. Sync, async and many questions
at once differ only in who fulfils the requests, so they cannot disagree.

    def _steps(self, question: str) -> Steps:
        [greedy] = yield Draw(self._prompt.fill(question=question))
        ...
        return Confidence(value, greedy.text.strip(), calls=1)

A request that fails raises its error at the `yield`: a step may catch it, e.g. a
`PartialGenerationsError`, and go on with what arrived. One estimator runs inside
another by `yield from other._steps(question)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, Literal, overload

from .._arguments import checked_language_model
from .._contracts import Confidence, Cost, LanguageModel, Requirement
from .._errors import (
    InputError,
    KnowgateError,
    LanguageModelTimeoutError,
    PartialGenerationsError,
)
from .._fingerprint import Fingerprint
from ._requests import (
    Compute,
    Draw,
    HiddenState,
    JointCall,
    Request,
    Score,
    Steps,
    joint_calls,
)

__all__ = ["Compute", "Draw", "HiddenState", "Request", "Score", "Steps", "StepwiseEstimator"]

BATCH_SIZE = 64
_Found = list[Confidence | KnowgateError]


class StepwiseEstimator(ABC):
    """An estimator that says step by step what it needs of the language model.

    Args:
        language_model: what is asked.

    Raises:
        InputError: `language_model` is none, e.g. a bare LangChain chat model.
    """

    requirement: ClassVar[Requirement] = Requirement.TEXT

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
    def _steps(self, question: str) -> Steps:
        """Yields requests, is sent their answers, returns the confidence."""

    def estimate(self, question: str) -> Confidence:
        """Confidence in the closed-book answer to `question`.

        Raises:
            LanguageModelError: the model did not answer.
        """
        [found] = self.estimate_many([question])
        return found

    async def aestimate(self, question: str) -> Confidence:
        """As `estimate`, without blocking the event loop."""
        [found] = await self.aestimate_many([question])
        return found

    @overload
    def estimate_many(
        self,
        questions: Sequence[str],
        *,
        on_error: Literal["raise"] = "raise",
        batch_size: int = BATCH_SIZE,
    ) -> list[Confidence]: ...

    @overload
    def estimate_many(
        self,
        questions: Sequence[str],
        *,
        on_error: Literal["raise", "return"],
        batch_size: int = BATCH_SIZE,
    ) -> list[Confidence | KnowgateError]: ...

    def estimate_many(
        self,
        questions: Sequence[str],
        *,
        on_error: Literal["raise", "return"] = "raise",
        batch_size: int = BATCH_SIZE,
    ) -> list[Confidence] | list[Confidence | KnowgateError]:
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
        model = self._language_model
        calls = self._lockstep(questions, on_error, batch_size)
        try:
            call = next(calls)
            while True:
                try:
                    answers: list[Any] | KnowgateError = call.run(model)
                except KnowgateError as error:
                    answers = error
                call = calls.send(answers)
        except StopIteration as stop:
            found: list[Confidence | KnowgateError] = stop.value
            return found

    @overload
    async def aestimate_many(
        self,
        questions: Sequence[str],
        *,
        on_error: Literal["raise"] = "raise",
        batch_size: int = BATCH_SIZE,
    ) -> list[Confidence]: ...

    @overload
    async def aestimate_many(
        self,
        questions: Sequence[str],
        *,
        on_error: Literal["raise", "return"],
        batch_size: int = BATCH_SIZE,
    ) -> list[Confidence | KnowgateError]: ...

    async def aestimate_many(
        self,
        questions: Sequence[str],
        *,
        on_error: Literal["raise", "return"] = "raise",
        batch_size: int = BATCH_SIZE,
    ) -> list[Confidence] | list[Confidence | KnowgateError]:
        """As `estimate_many`, without blocking the event loop."""
        model = self._language_model
        calls = self._lockstep(questions, on_error, batch_size)
        try:
            call = next(calls)
            while True:
                try:
                    answers: list[Any] | KnowgateError = await call.arun(model)
                except KnowgateError as error:
                    answers = error
                call = calls.send(answers)
        except StopIteration as stop:
            found: list[Confidence | KnowgateError] = stop.value
            return found

    def _lockstep(
        self, questions: Sequence[str], on_error: str, batch_size: int
    ) -> Generator[JointCall, list[Any] | KnowgateError, _Found]:
        if on_error not in ("raise", "return"):
            raise InputError(f"{on_error!r} is unknown", where="on_error", mend="raise or return")
        if isinstance(questions, str):
            raise InputError("is one string", where="questions", mend="give a list of strings")
        if batch_size < 1:
            raise InputError("must be at least 1", where="batch_size")
        steps = [self._steps(question) for question in questions]
        return (yield from _together(steps, batch_size, raising=on_error == "raise"))


def _together(
    steps: Sequence[Steps], batch_size: int, *, raising: bool
) -> Generator[JointCall, list[Any] | KnowgateError, _Found]:
    """Move all `steps` forward, asking for equal requests in one call; without input or output.

    Yields calls, receives their answers or the error in which they ended.
    """
    found: dict[int, Confidence | KnowgateError] = {}
    waiting: dict[int, Request] = {}

    def advance(number: int, resume: Callable[[], Request]) -> None:
        try:
            waiting[number] = resume()
        except StopIteration as stop:
            found[number] = stop.value
        except KnowgateError as error:
            if raising:
                raise
            found[number] = error

    for number, one in enumerate(steps):
        advance(number, one.__next__)
    while waiting:
        asked, waiting = waiting, {}
        for call, owners in joint_calls(asked, batch_size):
            answers = yield from _fulfilled(call)
            for answer, numbers in zip(answers, owners, strict=True):
                for number in numbers:
                    advance(number, _resume(steps[number], answer))
    return [found[number] for number in range(len(steps))]


def _resume(steps: Steps, answer: Any) -> Callable[[], Request]:
    if isinstance(answer, KnowgateError):
        return lambda: steps.throw(answer)
    # A list of its own: two questions may share one answer.
    return lambda: steps.send(list(answer) if isinstance(answer, list) else answer)


def _fulfilled(
    call: JointCall,
) -> Generator[JointCall, list[Any] | KnowgateError, list[Any]]:
    """Per prompt its answer or its error; a prompt that fails does not take others along."""
    answers = yield call
    if not isinstance(answers, KnowgateError):
        return answers
    if isinstance(answers, PartialGenerationsError) and _fits(answers, call):
        return _parted(answers)
    if len(call.prompts) <= 1:
        return [answers]
    alone: list[Any] = []
    for part in call.alone():
        if _hangs(alone):  # else an outage would cost a deadline for every question
            alone.append(alone[-1])
        else:
            alone.extend((yield from _fulfilled(part)))
    return alone


def _fits(error: PartialGenerationsError, call: JointCall) -> bool:
    return len(error.generations) == len(error.errors) == len(call.prompts)


def _parted(error: PartialGenerationsError) -> list[Any]:
    """Per prompt its generations, or why there are too few."""
    parts: list[Any] = []
    for row, why in zip(error.generations, error.errors, strict=True):
        if why is None:
            parts.append(list(row))
        elif not row:
            parts.append(why)
        else:
            part = PartialGenerationsError(str(why), [row], [why])
            part.__cause__ = why
            parts.append(part)
    return parts


def _hangs(answers: Sequence[Any]) -> bool:
    last = answers[-2:]
    return len(last) == 2 and all(isinstance(a, LanguageModelTimeoutError) for a in last)
