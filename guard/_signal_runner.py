"""Run signal measurements under deadlines, singly or batched."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ._deadline_errors import AllWorkersBusyError, DeadlineExceededError, TaskBrokeOffError
from ._metrics import MetricsOfGuard
from ._signal import Request, Signal
from .deadlines import DeadlineRunner, asked_to_stop, within
from .errors import (
    KnowgateError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalValueError,
    UnsupportedLanguageError,
)
from .routing import Failure, Need, Outcome

_logger = logging.getLogger("knowgate.guard")
_QUESTIONS_PER_CALL = 32
_MOST_LOGGED = 300
# Comparing more with a message would block an event loop.
_MOST_COMPARED = 64 * 2**10
# Shorter words tell nothing, and stand in most messages.
_WORD = re.compile(r"\w{4,}")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a signal.

    Attributes:
        task: makes it, blocking.
        native: makes it as a coroutine; None where only `task` can. Asked for by the
            async forms only.
        seconds: its deadline; None for no limit.
    """

    task: Callable[[], Any]
    native: Callable[[], Awaitable[Any] | None]
    seconds: float | None


@dataclass(frozen=True, slots=True)
class _Several:
    """Needs to be measured singly, side by side."""

    needs: Sequence[Need]


# Yields what to run, and is sent the result or thrown the error; the sync and async forms
# only differ in how they run it.
_Result = TypeVar("_Result")
_Steps = Generator[_Call | _Several, Any, _Result]


class SignalRunner:
    """Measures signals within their deadlines; failures become outcomes and are counted.

    Args:
        deadlines: seconds by signal name; None for no limit.
        max_concurrency: measurements under way at once in a batch.
        metrics: None for none.
    """

    def __init__(
        self,
        deadlines: Mapping[str, float | None],
        max_concurrency: int,
        metrics: MetricsOfGuard | None,
    ) -> None:
        self._deadlines = deadlines
        self._max_concurrency, self._metrics = max_concurrency, metrics
        # Stuck calls keep their threads, so there are more of them than a batch needs at once.
        self._pool = DeadlineRunner(max(64, 2 * max_concurrency))

    def measure(self, need: Need) -> Outcome:
        """The outcome of one need."""
        return self._run(self._single(need))

    async def ameasure(self, need: Need) -> Outcome:
        """As `measure`, without blocking the event loop."""
        return await self._arun(self._single(need))

    def measure_batch(self, needs: Sequence[Need]) -> list[Outcome]:
        """The outcomes of many needs, in order; those of one signal together where it can."""
        return self._run(self._batch(needs))

    async def ameasure_batch(self, needs: Sequence[Need]) -> list[Outcome]:
        """As `measure_batch`, without blocking the event loop."""
        return await self._arun(self._batch(needs))

    # -- sync and async ---------------------------------------------------------------

    def _run(self, steps: _Steps[_Result]) -> _Result:
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, _Call):
                        result = self._pool.call(step.task, step.seconds)
                    else:
                        result = self._side_by_side(step.needs)
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - an outcome
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return cast("_Result", stop.value)

    async def _arun(self, steps: _Steps[_Result]) -> _Result:
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, _Several):
                        result = await self._aside_by_side(step.needs)
                    elif (native := step.native()) is not None:
                        result = await within(native, step.seconds)
                    else:
                        result = await self._pool.acall(step.task, step.seconds)
                except (Exception, asyncio.CancelledError) as error:
                    if isinstance(error, asyncio.CancelledError) and asked_to_stop():
                        raise  # the caller cancelled this decision, not the signal itself
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return cast("_Result", stop.value)

    def _side_by_side(self, needs: Sequence[Need]) -> list[Outcome]:
        with ThreadPoolExecutor(min(self._max_concurrency, len(needs))) as threads:
            # Each in a copy of the caller's context, as tracing needs it.
            jobs = [(contextvars.copy_context(), need) for need in needs]
            return list(threads.map(lambda job: job[0].run(self.measure, job[1]), jobs))

    async def _aside_by_side(self, needs: Sequence[Need]) -> list[Outcome]:
        room = asyncio.Semaphore(self._max_concurrency)

        async def bounded(need: Need) -> Outcome:
            async with room:
                return await self.ameasure(need)

        return list(await asyncio.gather(*map(bounded, needs)))

    # -- one need ---------------------------------------------------------------------

    def _single(self, need: Need) -> _Steps[Outcome]:
        signal, request = need.signal, need.request
        started = time.perf_counter()

        async def native() -> Any:
            return signal.check(await signal.ameasure(request), request)

        try:
            value = yield _Call(
                lambda: signal.check(signal.measure(request), request),
                lambda: native() if signal.has("ameasure") else None,
                self._deadlines[signal.name],
            )
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - all become outcomes
            value = self._failed(signal, error, request)
        return value, time.perf_counter() - started

    # -- many needs -------------------------------------------------------------------

    def _batch(self, needs: Sequence[Need]) -> _Steps[list[Outcome]]:
        outcomes: dict[int, Outcome] = {}
        singly: list[int] = []
        for indices in _by_signal(needs):
            signal = needs[indices[0]].signal
            for start in range(0, len(indices), _QUESTIONS_PER_CALL):
                part = indices[start : start + _QUESTIONS_PER_CALL]
                asked = [needs[index] for index in part]
                found = (yield from self._together(signal, asked)) if len(part) > 1 else None
                if found is None and signal.concurrent:
                    singly += part
                    continue
                if found is None:
                    found = yield from self._one_by_one(asked)
                outcomes.update(zip(part, found, strict=True))
        if singly:
            found = yield _Several([needs[index] for index in singly])
            outcomes.update(zip(singly, found, strict=True))
        return [outcomes[index] for index in range(len(needs))]

    def _together(self, signal: Signal[Any], needs: Sequence[Need]) -> _Steps[list[Outcome] | None]:
        """Outcomes of one joint call; None where each need is to be measured singly.

        The call has the time that the needs would have one by one, or side by side.
        """
        if not signal.has("measure_many"):
            return None
        requests = [need.request for need in needs]
        width = self._max_concurrency if signal.concurrent else 1
        seconds = self._deadlines[signal.name]
        started = time.perf_counter()

        def checked(values: Sequence[Any]) -> list[Any]:
            if len(values) != len(requests):
                detail = f"{len(values)} values for {len(requests)} questions"
                raise SignalValueError(signal.name, detail)
            pairs = zip(values, requests, strict=True)
            return [_checked(signal, value, request) for value, request in pairs]

        async def native() -> list[Any]:
            return checked(await signal.ameasure_many(requests))

        try:
            values = yield _Call(
                lambda: checked(signal.measure_many(requests)),
                lambda: native() if signal.has("ameasure_many") else None,
                None if seconds is None else seconds * math.ceil(len(needs) / width),
            )
        except AllWorkersBusyError as error:
            values = [error] * len(needs)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - fails again, typed, singly
            # One question that is bad, or that takes too long, must not fail the others.
            return None
        share = (time.perf_counter() - started) / len(needs)
        return [
            (
                self._failed(signal, value, request) if isinstance(value, Exception) else value,
                share,
            )
            for value, request in zip(values, requests, strict=True)
        ]

    def _one_by_one(self, needs: Sequence[Need]) -> _Steps[list[Outcome]]:
        outcomes: list[Outcome] = []
        for need in needs:
            if _keeps_hanging(outcomes):
                failure = self._failed(need.signal, DeadlineExceededError(), need.request)
                outcomes.append((failure, 0.0))
            else:
                outcomes.append((yield from self._single(need)))
        return outcomes

    # -- failures ---------------------------------------------------------------------

    def _failed(self, signal: Signal[Any], error: BaseException, request: Request) -> Failure:
        """The typed failure for whatever a signal raised; logged without a word of the user."""
        if isinstance(error, UnsupportedLanguageError):
            return Failure(error)  # the signal works, so this does not count as its failure
        typed = _typed(signal.name, error)
        _logger.warning("%s signal failed: %s", signal.name, _told(typed, request))
        if self._metrics is not None:
            self._metrics.count_error(signal.name, typed)
        return Failure(typed)


def _by_signal(needs: Sequence[Need]) -> list[list[int]]:
    indices: dict[str, list[int]] = {}
    for index, need in enumerate(needs):
        indices.setdefault(need.signal.name, []).append(index)
    return list(indices.values())


def _checked(signal: Signal[Any], value: Any, request: Any) -> Any:
    try:
        return value if isinstance(value, KnowgateError) else signal.check(value, request)
    except SignalValueError as error:
        return error


def _typed(signal: str, error: BaseException) -> KnowgateError:
    if isinstance(error, DeadlineExceededError):
        return SignalTimeoutError(signal, "not done by its deadline")
    if isinstance(error, AllWorkersBusyError):
        return SignalOverloadError(signal, "too many earlier calls are still under way")
    if isinstance(error, KnowgateError):
        return error
    cause = error
    detail = f"raised {type(error).__name__}"
    if isinstance(error, TaskBrokeOffError) and error.__cause__ is not None:
        cause = error.__cause__
        detail = f"ended with {type(cause).__name__}"
    # The message of a foreign error may quote the question: only its type is kept.
    typed = SignalError(signal, detail)
    typed.__cause__ = cause
    return typed


def _told(error: KnowgateError, request: Request) -> str:
    """Type and message of an error; the type alone where the message may quote the user."""
    message = error.detail if isinstance(error, SignalError) else str(error)
    texts = (request.question, request.closed_book_answer, *request.passages)
    name = type(error).__name__
    if sum(map(len, texts)) > _MOST_COMPARED:
        return name
    given = " ".join(texts)
    if set(_WORD.findall(message.casefold())) & set(_WORD.findall(given.casefold())):
        return name
    return f"{name}: {' '.join(message.split())[:_MOST_LOGGED]}"


def _keeps_hanging(outcomes: Sequence[Outcome]) -> bool:
    """Whether two questions in a row, each alone, missed the deadline.

    Without this a signal that never answers would cost a deadline for every question.
    """
    last = [value for value, _ in outcomes[-2:]]
    return len(last) == 2 and all(
        isinstance(value, Failure) and isinstance(value.error, SignalTimeoutError) for value in last
    )
