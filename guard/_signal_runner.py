"""Run signal measurements under deadlines, singly or batched."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from ._deadline_errors import AllWorkersBusyError, DeadlineExceededError, TaskBrokeOffError
from ._metrics import MetricsOfGuard
from ._signal import Request, Signal
from .contracts import Confidence
from .deadlines import DeadlineRunner, asked_to_stop, call_here, within
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
_MOST_MISSED = 2
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
        here: whether the sync forms make it on the caller's own thread.
        seconds: its deadline; None for no limit.
        most: for a joint call: seconds altogether; the deadline then moves with each check.
    """

    task: Callable[[], Any]
    native: Callable[[], Awaitable[Any] | None]
    here: bool
    seconds: float | None
    most: float | None = None


class _Patience:
    """How often one signal missed its deadline in one batch."""

    def __init__(self) -> None:
        self.missed = 0
        self.logged = False

    @property
    def over(self) -> bool:
        return self.missed >= _MOST_MISSED


class BatchPatience(defaultdict[str, _Patience]):
    """How often each signal missed its deadline in one batch.

    After the second time it is not asked again: whatever the size of a batch, a signal that
    hangs costs two deadlines at most.
    """

    def __init__(self) -> None:
        super().__init__(_Patience)


@dataclass(frozen=True, slots=True)
class _Several:
    """Needs to be measured singly, so many at once."""

    jobs: Sequence[tuple[Need, _Patience]]
    width: int


@dataclass(slots=True)
class _Measured:
    """The outcomes of a batch so far, and the indices of needs to be measured singly."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    singly: list[tuple[int, _Patience]] = field(default_factory=list)


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

    def measure_batch(self, needs: Sequence[Need], patience: BatchPatience) -> list[Outcome]:
        """The outcomes of many needs, in order; those of one signal together where it can."""
        return self._run(self._batch(needs, patience))

    async def ameasure_batch(self, needs: Sequence[Need], patience: BatchPatience) -> list[Outcome]:
        """As `measure_batch`, without blocking the event loop."""
        return await self._arun(self._batch(needs, patience))

    # -- sync and async ---------------------------------------------------------------

    def _run(self, steps: _Steps[_Result]) -> _Result:
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, _Several):
                        result = self._side_by_side(step)
                    elif step.here:
                        result = call_here(step.task, step.seconds, most=step.most)
                    else:
                        result = self._pool.call(step.task, step.seconds, most=step.most)
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - an outcome
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return cast("_Result", stop.value)
        finally:
            steps.close()  # a span must end where it began

    async def _arun(self, steps: _Steps[_Result]) -> _Result:
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, _Several):
                        result = await self._aside_by_side(step)
                    elif (native := step.native()) is not None:
                        result = await within(native, step.seconds, most=step.most)
                    else:
                        result = await self._pool.acall(step.task, step.seconds, most=step.most)
                except (Exception, asyncio.CancelledError) as error:
                    if isinstance(error, asyncio.CancelledError) and asked_to_stop():
                        raise  # the caller cancelled this decision, not the signal itself
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return cast("_Result", stop.value)
        finally:
            steps.close()

    def _side_by_side(self, several: _Several) -> list[Outcome]:
        if several.width == 1:
            return [self._run(self._single(*job)) for job in several.jobs]
        with ThreadPoolExecutor(min(several.width, len(several.jobs))) as threads:
            # Each in a copy of the caller's context, as tracing needs it.
            contexts = [contextvars.copy_context() for _ in several.jobs]
            return list(
                threads.map(
                    lambda context, job: context.run(self._run, self._single(*job)),
                    contexts,
                    several.jobs,
                )
            )

    async def _aside_by_side(self, several: _Several) -> list[Outcome]:
        room = asyncio.Semaphore(several.width)

        async def bounded(job: tuple[Need, _Patience]) -> Outcome:
            async with room:
                return await self._arun(self._single(*job))

        return list(await asyncio.gather(*map(bounded, several.jobs)))

    # -- one need ---------------------------------------------------------------------

    def _single(self, need: Need, patience: _Patience | None = None) -> _Steps[Outcome]:
        untraced = self._untraced(need, patience)
        return untraced if need.span is None else self._traced(need, untraced)

    def _traced(self, need: Need, untraced: _Steps[Outcome]) -> _Steps[Outcome]:
        assert need.span is not None
        with need.span.signal(need.signal) as span:
            outcome = yield from untraced
            span.measured(outcome[0])
            return outcome

    def _untraced(self, need: Need, patience: _Patience | None) -> _Steps[Outcome]:
        signal, request = need.signal, need.request
        if patience is not None and patience.over:
            return self._not_asked(signal, patience), 0.0
        started = time.perf_counter()

        async def native() -> Any:
            return signal.check(await signal.ameasure(request), request)

        try:
            value = yield _Call(
                lambda: signal.check(signal.measure(request), request),
                lambda: native() if signal.has("ameasure") else None,
                signal.checks_deadline,
                self._deadlines[signal.name],
            )
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - all become outcomes
            if patience is not None and isinstance(error, DeadlineExceededError):
                patience.missed += 1
            value = self._failed(signal, error, request)
        if isinstance(value, Confidence):
            self._count_samples(value)
        return value, time.perf_counter() - started

    # -- many needs -------------------------------------------------------------------

    def _batch(self, needs: Sequence[Need], patience: BatchPatience) -> _Steps[list[Outcome]]:
        side_by_side: list[tuple[int, _Patience]] = []
        outcomes: dict[int, Outcome] = {}
        for indices in _by_signal(needs):
            signal = needs[indices[0]].signal
            measured = yield from self._jointly(needs, indices, patience[signal.name])
            outcomes |= measured.outcomes
            if signal.concurrent:
                side_by_side += measured.singly
            elif measured.singly:
                # A call that hangs does not keep the others waiting.
                width = 2 if measured.singly[0][1].missed else 1
                outcomes |= yield from self._singly(needs, measured.singly, width)
        if side_by_side:
            outcomes |= yield from self._singly(needs, side_by_side, self._max_concurrency)
        return [outcomes[index] for index in range(len(needs))]

    def _jointly(
        self, needs: Sequence[Need], indices: Sequence[int], patience: _Patience
    ) -> _Steps[_Measured]:
        """Measure the needs of one signal in joint calls, as far as these succeed."""
        signal, measured = needs[indices[0]].signal, _Measured()
        for start in range(0, len(indices), _QUESTIONS_PER_CALL):
            part = indices[start : start + _QUESTIONS_PER_CALL]
            asked = [needs[index] for index in part]
            found = None
            if len(part) > 1 and not patience.over:
                found = yield from self._together(signal, asked, patience)
            if found is None:
                measured.singly += [(index, patience) for index in part]
            else:
                measured.outcomes.update(zip(part, found, strict=True))
        return measured

    def _singly(
        self, needs: Sequence[Need], jobs: Sequence[tuple[int, _Patience]], width: int
    ) -> _Steps[dict[int, Outcome]]:
        found = yield _Several([(needs[index], patience) for index, patience in jobs], width)
        return dict(zip((index for index, _ in jobs), found, strict=True))

    def _together(
        self, signal: Signal[Any], needs: Sequence[Need], patience: _Patience
    ) -> _Steps[list[Outcome] | None]:
        """Outcomes of one joint call; None where each need is to be measured singly.

        The call has one deadline, whatever the number of needs. As long as it checks it,
        it has the time that the needs would have one by one, or side by side.
        """
        if not signal.has("measure_many"):
            return None
        requests = [need.request for need in needs]
        width = self._max_concurrency if signal.concurrent else 1
        seconds = self._deadlines[signal.name]
        started, begun = time.perf_counter(), time.time_ns()

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
                signal.checks_deadline,
                seconds,
                None if seconds is None else seconds * math.ceil(len(needs) / width),
            )
        except AllWorkersBusyError as error:
            values = [error] * len(needs)
        except DeadlineExceededError:
            patience.missed += 1
            return None
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - fails again, typed, singly
            # One question that is bad, or that takes too long, must not fail the others.
            return None
        for value in values:
            if isinstance(value, Confidence):
                self._count_samples(value)
        share = (time.perf_counter() - started) / len(needs)
        found = [
            self._failed(signal, value, request) if isinstance(value, Exception) else value
            for value, request in zip(values, requests, strict=True)
        ]
        for need, value in zip(needs, found, strict=True):
            if need.span is not None:
                need.span.measured_jointly(signal, begun, value)
        return [(value, share) for value in found]

    def _count_samples(self, confidence: Confidence) -> None:
        if self._metrics is not None:
            self._metrics.count_samples(confidence)

    # -- failures ---------------------------------------------------------------------

    def _failed(self, signal: Signal[Any], error: BaseException, request: Request) -> Failure:
        """The typed failure for whatever a signal raised; logged without a word of the user."""
        if isinstance(error, UnsupportedLanguageError):
            return Failure(error)  # the signal works, so this does not count as its failure
        typed = _typed(signal.name, error)
        _logger.warning("%s signal failed: %s", signal.name, _told(typed, request))
        return self._counted(signal, typed)

    def _not_asked(self, signal: Signal[Any], patience: _Patience) -> Failure:
        """The failure of a question that a hanging signal is not asked about; logged once."""
        error = SignalTimeoutError(signal.name, "not asked again: it missed its deadline twice")
        if not patience.logged:
            patience.logged = True
            _logger.warning("%s signal is not asked again in this batch: it hangs", signal.name)
        return self._counted(signal, error)

    def _counted(self, signal: Signal[Any], error: KnowgateError) -> Failure:
        if self._metrics is not None:
            self._metrics.count_error(signal.name, error)
        return Failure(error)


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
