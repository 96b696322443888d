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
from functools import partial
from typing import Any, TypeVar, cast

from ._deadline_errors import (
    AllWorkersBusyError,
    DeadlineExceededError,
    NoTurnError,
    TaskBrokeOffError,
)
from ._metrics import MetricsOfGuard
from ._signal import Request, Signal
from ._turns import Turns
from .contracts import Confidence
from .deadlines import DeadlineRunner, asked_to_stop, call_here, within
from .errors import (
    KnowgateError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalValueError,
    SignalWaitError,
    UnsupportedLanguageError,
)
from .routing import Failure, Need, Outcome

_logger = logging.getLogger("knowgate.guard")
_QUESTIONS_PER_CALL = 32
# Until it is known how long a question takes.
_QUESTIONS_PER_FIRST_CALL = 4
# Deadlines that a joint call is meant to take, and those that it may take.
_JOINT_CALL_TAKES = 0.5
_JOINT_CALL_MAY_TAKE = 2
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
        turns: what it waits for before its deadline begins; None for nothing.
        joint: whether it is made for several questions.
    """

    task: Callable[[], Any]
    native: Callable[[], Awaitable[Any] | None]
    here: bool
    seconds: float | None
    most: float | None = None
    turns: Turns | None = None
    joint: bool = False

    @property
    def seconds_of_one(self) -> float | None:
        """The deadline, where it is that of one question."""
        return None if self.joint else self.seconds


class _Patience:
    """How often one signal missed its deadline in one batch.

    Attributes:
        joined: questions of the next joint call.
    """

    def __init__(self) -> None:
        self.missed = 0
        self.logged = False
        self.joined = _QUESTIONS_PER_FIRST_CALL

    def plan(self, seconds_each: float, deadline: float | None) -> None:
        """Let the next joint call be one that ends well within its deadline."""
        fitting = _JOINT_CALL_TAKES * (math.inf if deadline is None else deadline)
        least = 1 if self.missed else 2
        self.joined = int(max(least, min(_QUESTIONS_PER_CALL, fitting / max(seconds_each, 1e-9))))

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
        turns: by the name of signals whose questions wait for each other.
        max_concurrency: measurements under way at once in a batch.
        pool: threads for calls that may get stuck.
        metrics: None for none.
    """

    def __init__(
        self,
        deadlines: Mapping[str, float | None],
        turns: Mapping[str, Turns],
        max_concurrency: int,
        pool: DeadlineRunner,
        metrics: MetricsOfGuard | None,
    ) -> None:
        self._deadlines, self._turns = deadlines, turns
        self._max_concurrency, self._pool, self._metrics = max_concurrency, pool, metrics

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
                    else:
                        result = self._call(step)
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
                    elif step.turns is None:
                        result = await self._acall(step)
                    else:
                        acall = partial(self._acall, step)
                        result = await step.turns.acall(acall, step.seconds_of_one)
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

    def _call(self, step: _Call) -> Any:
        by = call_here if step.here else self._pool.call
        call = partial(by, step.task, step.seconds, most=step.most)
        return call() if step.turns is None else step.turns.call(call, step.seconds_of_one)

    async def _acall(self, step: _Call) -> Any:
        if (native := step.native()) is not None:
            return await within(native, step.seconds, most=step.most)
        return await self._pool.acall(step.task, step.seconds, most=step.most)

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
                turns=self._turns.get(signal.name),
            )
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - all become outcomes
            if patience is not None and isinstance(error, DeadlineExceededError | NoTurnError):
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
            if signal.computes_here:
                outcomes |= yield from self._in_parts(needs, indices, patience[signal.name])
                continue
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

    def _in_parts(
        self, needs: Sequence[Need], indices: Sequence[int], patience: _Patience
    ) -> _Steps[dict[int, Outcome]]:
        """Measure the needs of one signal in joint calls that end well within one deadline each.

        What a call misses is measured singly, so that what was done in time is kept.
        """
        deadline = self._deadlines[needs[indices[0]].signal.name]
        outcomes: dict[int, Outcome] = {}
        start = 0
        while start < len(indices):
            part = indices[start : start + patience.joined]
            asked = [needs[index] for index in part]
            start += len(part)
            found = None
            if len(part) > 1 and not patience.over:
                found = yield from self._together(asked[0].signal, asked, patience)
            if found is None:
                # A call that hangs does not keep the others waiting.
                width = 2 if patience.missed else 1
                jobs = [(index, patience) for index in part]
                outcomes |= yield from self._singly(needs, jobs, width)
            else:
                outcomes.update(zip(part, found, strict=True))
            patience.plan(max(outcomes[index][1] for index in part), deadline)
        return outcomes

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

        The call has one deadline, whatever the number of needs. As long as it checks it, it has
        two; that of a signal that waits for others has what the needs would have side by side.
        """
        if not signal.has("measure_many"):
            return None
        requests = [need.request for need in needs]
        width = self._max_concurrency if signal.concurrent else 1
        seconds, most = self._deadlines[signal.name], None
        if seconds is not None:
            waits = seconds * math.ceil(len(needs) / width)
            most = seconds * _JOINT_CALL_MAY_TAKE if signal.computes_here else waits
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
                most,
                self._turns.get(signal.name),
                joint=True,
            )
        except AllWorkersBusyError as error:
            patience.missed += isinstance(error, NoTurnError)
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
        typed = self._typed(signal.name, error)
        # Only what a signal itself says may quote the question.
        detail = f"{type(typed).__name__}: {getattr(typed, 'detail', '')}"
        told = _told(typed, request) if typed is error else detail
        _logger.warning("%s signal failed: %s", signal.name, told)
        return self._counted(signal, typed)

    def _not_asked(self, signal: Signal[Any], patience: _Patience) -> Failure:
        """The failure of a question that a hanging signal is not asked about; logged once."""
        error = SignalTimeoutError(signal.name, "not asked again: it missed its deadline twice")
        if not patience.logged:
            patience.logged = True
            _logger.warning(
                "%s signal is not asked again in this batch: twice it did not end in time (%s)",
                signal.name,
                self._deadline_option(signal.name),
            )
        return self._counted(signal, error)

    def _typed(self, signal: str, error: BaseException) -> KnowgateError:
        """The error of the guard for what a signal raised."""
        if isinstance(error, DeadlineExceededError):
            detail = f"not done by its deadline ({self._deadline_option(signal)})"
            return SignalTimeoutError(signal, detail)
        if isinstance(error, NoTurnError):
            setting = f"GuardOptions(max_wait=…, at_once={{{signal!r}: …}})"
            return SignalWaitError(signal, f"waited too long for its turn ({setting})")
        return _typed(signal, error)

    def _deadline_option(self, signal: str) -> str:
        return f"GuardOptions(deadlines={{{signal!r}: {self._deadlines[signal]!r}}})"

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
