"""What an estimator's steps may ask for, and how equal requests are asked together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._contracts import (
    Confidence,
    Generation,
    HiddenStateLanguageModel,
    LanguageModel,
    ScoringLanguageModel,
)
from .._errors import InputError, LanguageModelError


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
        return await asyncio.to_thread(self._without_drawing, model)

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
    """Requests put together as far as they can be.

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
    """Equal where two requests may go into one call."""
    if isinstance(request, Draw):
        return (Draw, request.n, request.temperature, request.seed)
    if isinstance(request, Score):
        return (Score, request.options)
    if isinstance(request, HiddenState):
        return (HiddenState, request.layer)
    return (Compute, number)


def _share(request: Request, number: int) -> Hashable:
    """Equal where two requests of one call have one answer."""
    if isinstance(request, Compute):
        return number
    if isinstance(request, Draw) and request.temperature > 0 and request.seed is None:
        return number
    return request.prompt


def _lacks(model: LanguageModel, method: str) -> InputError:
    return InputError(
        f"a {type(model).__name__} has no {method}",
        where="language_model",
        mend="use a local model, e.g. knowgate.adapters.huggingface.HuggingFaceLM",
    )
