"""Run signal measurements under deadlines, singly or batched."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from ._flow import Failure, Measure, Outcome
from ._metrics import MetricsOfGuard
from ._signal import Signal
from ._turns import Budget, Turns
from .contracts import Confidence
from .deadlines import DeadlineRunner, asked_to_stop, call_here, within
from .errors import (
    AllWorkersBusyError,
    DeadlineExceededError,
    KnowgateError,
    NoTurnError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalValueError,
    SignalWaitError,
    TaskBrokeOffError,
    UnsupportedLanguageError,
)
from .text import Request

_logger = logging.getLogger("knowgate.guard")
_QUESTIONS_PER_CALL = 32
# The share of its time that a joint call is meant to take: others may compute at the same time.
_JOINT_CALL_TAKES = 0.25
# Deadlines that one batch may spend on one signal.
_DEADLINES_PER_BATCH = 2
# Calls of one signal that may miss their deadline in one batch.
_MAX_MISSED = 3
_MAX_LOGGED = 300
# Comparing more with a message would block an event loop.
_MAX_COMPARED = 64 * 2**10
# Shorter words tell nothing, and stand in most messages.
_WORD = re.compile(r"\w{4,}")


class Patience:
    """What one batch may still spend on one signal.

    Args:
        deadline: of one question, in seconds; None for no limit.
        longest_wait: for the turns of its calls together, in seconds.
        first: questions of the first joint call.

    Attributes:
        measuring: two deadlines, whatever the size of the batch.
        waiting: seconds for turns.
        missed: calls that missed their deadline.
        joined: questions of the next joint call.
        logged: whether it was logged that the signal is not asked any more.
    """

    def __init__(self, deadline: float | None, longest_wait: float, first: int) -> None:
        self._deadline = math.inf if deadline is None else deadline
        self.measuring = Budget(_DEADLINES_PER_BATCH * self._deadline)
        self.waiting = Budget(longest_wait)
        self.missed, self.logged = 0, False
        self.joined = _QUESTIONS_PER_CALL if deadline is None else first

    @property
    def seconds(self) -> float:
        """What the next call has: its deadline, as far as the batch has so much left.

        Once a deadline was missed it is half of what is left, so that one question that hangs
        leaves time for the others.
        """
        left = self.measuring.left
        return min(self._deadline, left / 2 if self.missed else left)

    @property
    def over(self) -> bool:
        """Whether the signal is not asked about further questions."""
        return self.missed >= _MAX_MISSED or not (self.measuring.left and self.waiting.left)

    def plan(self, seconds_each: float) -> None:
        """Let the next joint call be one that ends well within its deadline."""
        fitting = _JOINT_CALL_TAKES * self.seconds
        self.joined = int(max(1, min(_QUESTIONS_PER_CALL, fitting / max(seconds_each, 1e-9))))


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a signal.

    Attributes:
        task: makes it, blocking.
        native: makes it as a coroutine; None where only `task` can. Asked for by the
            async forms only.
        here: whether the sync forms make it on the caller's own thread.
        seconds: its deadline; None for no limit.
        turns: what it waits for before its deadline begins; None for nothing.
        patience: of the batch that it is made for; None for a single decision.
    """

    task: Callable[[], Any]
    native: Callable[[], Awaitable[Any] | None]
    here: bool
    seconds: float | None
    turns: Turns | None = None
    patience: Patience | None = None

    @property
    def seconds_of_one(self) -> float | None:
        """The deadline of a single decision; what a batch takes tells nothing of one question."""
        return None if self.patience is not None else self.seconds

    @property
    def waiting(self) -> Budget | None:
        """What the batch may wait for turns; None for a single decision."""
        return None if self.patience is None else self.patience.waiting

    @contextmanager
    def time(self) -> Iterator[float | None]:
        """The seconds that the call has, which is the block; counted as the batch's.

        Raises:
            DeadlineExceededError: the batch has no time left.
        """
        if self.patience is None or self.seconds is None:
            yield self.seconds
            return
        with self.patience.measuring:
            if not self.patience.measuring.left:
                raise DeadlineExceededError
            yield self.patience.seconds


@dataclass(frozen=True, slots=True)
class _Several:
    """Needs to be measured singly, so many at once."""

    jobs: Sequence[tuple[Measure, Patience]]
    width: int


@dataclass(slots=True)
class _Measured:
    """The outcomes of a batch so far, and the indices of needs to be measured singly."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    singly: list[tuple[int, Patience]] = field(default_factory=list)


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

    def measure(self, need: Measure) -> Outcome:
        """The outcome of one need."""
        return self._run(self._single(need))

    async def ameasure(self, need: Measure) -> Outcome:
        """As `measure`, without blocking the event loop."""
        return await self._arun(self._single(need))

    def measure_batch(self, needs: Sequence[Measure], batch: dict[str, Patience]) -> list[Outcome]:
        """The outcomes of many needs, in order; those of one signal together where it can."""
        return self._run(self._batch(needs, batch))

    async def ameasure_batch(
        self, needs: Sequence[Measure], batch: dict[str, Patience]
    ) -> list[Outcome]:
        """As `measure_batch`, without blocking the event loop."""
        return await self._arun(self._batch(needs, batch))

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
                        result = await step.turns.acall(acall, step.seconds_of_one, step.waiting)
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

        def timed() -> Any:
            with step.time() as seconds:
                return by(step.task, seconds)

        call = timed if step.patience is not None else partial(by, step.task, step.seconds)
        if step.turns is None:
            return call()
        return step.turns.call(call, step.seconds_of_one, step.waiting)

    async def _acall(self, step: _Call) -> Any:
        with step.time() as seconds:
            if (native := step.native()) is not None:
                return await within(native, seconds)
            return await self._pool.acall(step.task, seconds)

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

        async def bounded(job: tuple[Measure, Patience]) -> Outcome:
            async with room:
                return await self._arun(self._single(*job))

        return list(await asyncio.gather(*map(bounded, several.jobs)))

    # -- one need ---------------------------------------------------------------------

    def _single(self, need: Measure, patience: Patience | None = None) -> _Steps[Outcome]:
        untraced = self._untraced(need, patience)
        return untraced if need.span is None else self._traced(need, untraced)

    def _traced(self, need: Measure, untraced: _Steps[Outcome]) -> _Steps[Outcome]:
        assert need.span is not None
        with need.span.signal(need.signal) as span:
            outcome = yield from untraced
            span.measured(outcome[0])
            return outcome

    def _untraced(self, need: Measure, patience: Patience | None) -> _Steps[Outcome]:
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
                self._turns.get(signal.name),
                patience=patience,
            )
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - all become outcomes
            if patience is not None and isinstance(error, DeadlineExceededError):
                patience.missed += 1
            value = self._failed(signal, error, request)
        if isinstance(value, Confidence):
            self._count_samples(value)
        return value, time.perf_counter() - started

    # -- many needs -------------------------------------------------------------------

    def _batch(self, needs: Sequence[Measure], batch: dict[str, Patience]) -> _Steps[list[Outcome]]:
        side_by_side: list[tuple[int, Patience]] = []
        outcomes: dict[int, Outcome] = {}
        for indices in _by_signal(needs):
            signal = needs[indices[0]].signal
            patience = self._patience(signal, batch)
            measured = yield from self._jointly(needs, indices, patience)
            outcomes |= measured.outcomes
            if signal.concurrent:
                side_by_side += measured.singly
            elif measured.singly:
                # A call that hangs does not keep the others waiting.
                width = 2 if patience.missed else 1
                outcomes |= yield from self._singly(needs, measured.singly, width)
        if side_by_side:
            outcomes |= yield from self._singly(needs, side_by_side, self._max_concurrency)
        return [outcomes[index] for index in range(len(needs))]

    def _patience(self, signal: Signal[Any], batch: dict[str, Patience]) -> Patience:
        if signal.name not in batch:
            turns = self._turns.get(signal.name)
            wait = math.inf if turns is None else turns.longest
            first = self._max_concurrency if signal.concurrent else 1
            batch[signal.name] = Patience(self._deadlines[signal.name], wait, first)
        return batch[signal.name]

    def _jointly(
        self, needs: Sequence[Measure], indices: Sequence[int], patience: Patience
    ) -> _Steps[_Measured]:
        """Measure the needs of one signal in joint calls that end well within one deadline each.

        Once a call missed its deadline, those left are measured singly, so that what was done in
        time is kept.
        """
        signal, measured, start = needs[indices[0]].signal, _Measured(), 0
        while signal.has("measure_many") and start < len(indices):
            if patience.missed or patience.over:
                break
            part = indices[start : start + patience.joined]
            asked, before = [needs[index] for index in part], patience.measuring.spent
            start += len(part)
            found: list[Outcome] | None
            if len(part) == 1:
                found = [(yield from self._single(asked[0], patience))]
            else:
                found = yield from self._together(signal, asked, patience)
            if found is None:
                measured.singly += [(index, patience) for index in part]
            else:
                measured.outcomes.update(zip(part, found, strict=True))
            patience.plan((patience.measuring.spent - before) / len(part))
        measured.singly += [(index, patience) for index in indices[start:]]
        return measured

    def _singly(
        self, needs: Sequence[Measure], jobs: Sequence[tuple[int, Patience]], width: int
    ) -> _Steps[dict[int, Outcome]]:
        found = yield _Several([(needs[index], patience) for index, patience in jobs], width)
        return dict(zip((index for index, _ in jobs), found, strict=True))

    def _together(
        self, signal: Signal[Any], needs: Sequence[Measure], patience: Patience
    ) -> _Steps[list[Outcome] | None]:
        """Outcomes of one joint call; None where each need is to be measured singly.

        The call has the deadline of one question, whatever the number of needs.
        """
        requests = [need.request for need in needs]
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
                self._deadlines[signal.name],
                self._turns.get(signal.name),
                patience=patience,
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
        typed = self._typed(signal.name, error)
        # Only what a signal itself says may quote the question.
        detail = f"{type(typed).__name__}: {getattr(typed, 'detail', '')}"
        told = _told(typed, request) if typed is error else detail
        _logger.warning("%s signal failed: %s", signal.name, told)
        return self._counted(signal, typed)

    def _not_asked(self, signal: Signal[Any], patience: Patience) -> Failure:
        """The failure of a question that the batch has no time for; logged once."""
        error: KnowgateError
        if patience.waiting.left:
            setting = self._deadline_option(signal.name)
            error = SignalTimeoutError(signal.name, "not asked: its batch has had its deadlines")
        else:
            setting = self._wait_option(signal.name)
            error = SignalWaitError(signal.name, "not asked: its batch waited too long for turns")
        if not patience.logged:
            patience.logged = True
            _logger.warning(
                "%s signal: %s; decide fewer questions at once, or change %s",
                signal.name,
                error.detail,
                setting,
            )
        return self._counted(signal, error)

    def _typed(self, signal: str, error: BaseException) -> KnowgateError:
        """The error of the guard for what a signal raised."""
        if isinstance(error, DeadlineExceededError):
            detail = f"not done by its deadline ({self._deadline_option(signal)})"
            return SignalTimeoutError(signal, detail)
        if isinstance(error, NoTurnError):
            detail = f"waited too long for its turn ({self._wait_option(signal)})"
            return SignalWaitError(signal, detail)
        return _typed(signal, error)

    def _deadline_option(self, signal: str) -> str:
        return f"GuardOptions(deadlines={{{signal!r}: {self._deadlines[signal]!r}}})"

    @staticmethod
    def _wait_option(signal: str) -> str:
        return f"GuardOptions(max_wait=…, at_once={{{signal!r}: …}})"

    def _counted(self, signal: Signal[Any], error: KnowgateError) -> Failure:
        if self._metrics is not None:
            self._metrics.count_error(signal.name, error)
        return Failure(error)


def _by_signal(needs: Sequence[Measure]) -> list[list[int]]:
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
    if sum(map(len, texts)) > _MAX_COMPARED:
        return name
    given = " ".join(texts)
    if set(_WORD.findall(message.casefold())) & set(_WORD.findall(given.casefold())):
        return name
    return f"{name}: {' '.join(message.split())[:_MAX_LOGGED]}"
