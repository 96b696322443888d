"""Run estimators step by step: the one place that calls the language model.

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
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

from ...contracts import (
    Confidence,
    Cost,
    Generation,
    HiddenStateLanguageModel,
    LanguageModel,
    PartialGenerationsError,
    ScoringLanguageModel,
    checked_language_model,
)
from ...deadlines import call_on_thread
from ...errors import InputError, KnowgateError, LanguageModelError, LanguageModelTimeoutError
from ...policy import Fingerprint
from ._requirement import Requirement


@dataclass(frozen=True, slots=True)
class Draw:
    """Answers to be generated; its answer is a `list[Generation]` of exactly `n`."""

    prompt: str
    n: int = 1
    temperature: float = 0.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Options to be scored; its answer is a `list[float]`, a natural-log likelihood each.

    The language model must be a `ScoringLanguageModel`.
    """

    prompt: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HiddenState:
    """A last token's state after `layer`; its answer is an array of shape (width,).

    The language model must be a `HiddenStateLanguageModel`.
    """

    prompt: str
    layer: int


@dataclass(frozen=True, slots=True)
class Compute:
    """Local work that takes long, e.g. embedding; its answer is what `task` returns.

    The async form runs it in a thread.
    """

    task: Callable[[], Any]


Request = Draw | Score | HiddenState | Compute
Steps = Generator[Request, Any, Confidence]


@dataclass(frozen=True, slots=True)
class JointCall:
    """Requests that differ in their prompt only, as one call.

    Attributes:
        request: the first of them.
        prompts: one per answer; empty for local work.
    """

    request: Request
    prompts: tuple[str, ...]

    def run(self, model: LanguageModel) -> list[Any]:
        """One answer per prompt.

        Raises:
            KnowgateError: the model failed, or cannot do what is asked.
        """
        request = self.request
        if isinstance(request, Draw):
            rows = model.generate(
                self.prompts, n=request.n, temperature=request.temperature, seed=request.seed
            )
            return self._checked(rows, request.n)
        return self._without_drawing(model)

    async def arun(self, model: LanguageModel) -> list[Any]:
        """As `run`, without blocking the event loop."""
        request = self.request
        if isinstance(request, Draw):
            rows = await model.agenerate(
                self.prompts, n=request.n, temperature=request.temperature, seed=request.seed
            )
            return self._checked(rows, request.n)
        return await call_on_thread(lambda: self._without_drawing(model))

    def alone(self) -> list[JointCall]:
        """The same, one prompt at a time."""
        return [JointCall(self.request, (prompt,)) for prompt in self.prompts]

    def _without_drawing(self, model: LanguageModel) -> list[Any]:
        request = self.request
        if isinstance(request, Compute):
            return [request.task()]
        if isinstance(request, Score):
            if not isinstance(model, ScoringLanguageModel):
                raise _lacks(model, "score_options")
            scores = model.score_options(self.prompts, request.options)
            return [[float(score) for score in row] for row in scores]
        if isinstance(request, HiddenState):
            if not isinstance(model, HiddenStateLanguageModel):
                raise _lacks(model, "hidden_states")
            return list(model.hidden_states(self.prompts, request.layer))
        raise TypeError(f"an estimator's step asked for a {type(request).__name__}")

    def _checked(self, rows: Sequence[Sequence[Generation]], n: int) -> list[list[Generation]]:
        if len(rows) != len(self.prompts):
            raise LanguageModelError(f"answers to {len(rows)} prompts of {len(self.prompts)}")
        for row in rows:
            if len(row) != n:
                raise LanguageModelError(f"{len(row)} generations where {n} were asked for")
        return [list(row) for row in rows]


def joint_calls(
    requests: Mapping[int, Request], batch_size: int
) -> Iterator[tuple[JointCall, list[list[int]]]]:
    """Combine requests into joint calls where possible.

    Args:
        requests: by the number of the question that waits for it.
        batch_size: prompts per call at most.

    Yields:
        A call, and for each of its prompts the numbers of the questions that wait
        for its answer: two questions with the same prompt and seed share one.
    """
    groups: dict[Hashable, dict[Hashable, list[int]]] = {}
    for number, request in requests.items():
        group = groups.setdefault(_kind(request, number), {})
        group.setdefault(_share(request, number), []).append(number)
    for group in groups.values():
        shares = list(group.values())
        for start in range(0, len(shares), batch_size):
            part = shares[start : start + batch_size]
            asked = [requests[numbers[0]] for numbers in part]
            prompts = tuple(r.prompt for r in asked if not isinstance(r, Compute))
            yield JointCall(asked[0], prompts), part


def _kind(request: Request, number: int) -> Hashable:
    """A key that is equal for requests that may go into one call."""
    if isinstance(request, Draw):
        return (Draw, request.n, request.temperature, request.seed)
    if isinstance(request, Score):
        return (Score, request.options)
    if isinstance(request, HiddenState):
        return (HiddenState, request.layer)
    return (Compute, number)


def _share(request: Request, number: int) -> Hashable:
    """A key that is equal for requests of one call that share an answer."""
    if isinstance(request, Compute):
        return number
    if isinstance(request, Draw) and request.temperature > 0 and request.seed is None:
        return number
    return request.prompt


def _lacks(model: LanguageModel, method: str) -> InputError:
    return InputError(
        f"a {type(model).__name__} has no {method}",
        where="language_model",
        hint="use a local model, e.g. knowgate.adapters.huggingface.HuggingFaceLM",
    )


BATCH_SIZE = 64
_Found = list[Confidence | KnowgateError]


class StepwiseEstimator(ABC):
    """An estimator that requests calls of the language model step by step.

    Args:
        language_model: what is asked.

    Raises:
        InputError: `language_model` is not one, e.g. a bare LangChain chat model.
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
            raise InputError(f"{on_error!r} is unknown", where="on_error", hint="raise or return")
        if isinstance(questions, str):
            raise InputError("is one string", where="questions", hint="give a list of strings")
        if batch_size < 1:
            raise InputError("must be at least 1", where="batch_size")
        steps = [self._steps(question) for question in questions]
        return (yield from _together(steps, batch_size, raising=on_error == "raise"))


def _together(
    steps: Sequence[Steps], batch_size: int, *, raising: bool
) -> Generator[JointCall, list[Any] | KnowgateError, _Found]:
    """Advance all `steps`, combining equal requests into one call; without any I/O.

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
    """The answer or error of each prompt; one that fails does not fail the others."""
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
    """The generations of each prompt, or the error where there are too few."""
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
