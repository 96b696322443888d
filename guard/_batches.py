"""Measure signals for many questions: together where a signal can, otherwise side by side."""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ._failures import Patience
from ._measuring import Call, SignalRunner, Steps
from ._signal import Signal
from .contracts import Confidence
from .deadlines import DeadlineRunner
from .errors import AllWorkersBusyError, DeadlineExceededError, KnowgateError, SignalValueError
from .routing import Measure, Outcome


@dataclass(frozen=True, slots=True)
class _Several:
    """Needs to be measured singly, so many at once."""

    runner: SignalRunner
    jobs: Sequence[tuple[Measure, Patience]]
    width: int

    def run(self, _: DeadlineRunner) -> list[Outcome]:
        """Their outcomes, measured on threads."""

        def measured(context: contextvars.Context, job: tuple[Measure, Patience]) -> Outcome:
            return context.run(self.runner.run, self.runner.single(*job))

        # Each in a copy of the caller's context, as tracing needs it.
        contexts = [contextvars.copy_context() for _ in self.jobs]
        if self.width == 1:
            return list(map(measured, contexts, self.jobs))
        with ThreadPoolExecutor(min(self.width, len(self.jobs))) as threads:
            return list(threads.map(measured, contexts, self.jobs))

    async def arun(self, _: DeadlineRunner) -> list[Outcome]:
        """As `run`, as tasks of the event loop."""
        room = asyncio.Semaphore(self.width)

        async def measured(job: tuple[Measure, Patience]) -> Outcome:
            async with room:
                return await self.runner.arun(self.runner.single(*job))

        return list(await asyncio.gather(*map(measured, self.jobs)))


# Indices of needs to be measured singly.
_Singly = list[tuple[int, Patience]]


class BatchRunner(SignalRunner):
    """Also measures signals for many questions.

    Args:
        max_concurrency: measurements under way at once in a batch.
        parts: see `SignalRunner`.
    """

    def __init__(self, max_concurrency: int, *parts: Any) -> None:
        super().__init__(*parts)
        self._max_concurrency = max_concurrency

    def measure_batch(self, needs: Sequence[Measure], batch: dict[str, Patience]) -> list[Outcome]:
        """The outcomes of many needs, in order; those of one signal together where it can."""
        return self.run(self._batch(needs, batch))

    async def ameasure_batch(
        self, needs: Sequence[Measure], batch: dict[str, Patience]
    ) -> list[Outcome]:
        """As `measure_batch`, without blocking the event loop."""
        return await self.arun(self._batch(needs, batch))

    def _batch(self, needs: Sequence[Measure], batch: dict[str, Patience]) -> Steps[list[Outcome]]:
        by_signal: dict[str, list[int]] = {}
        for index, need in enumerate(needs):
            by_signal.setdefault(need.signal.name, []).append(index)
        side_by_side: _Singly = []
        outcomes: dict[int, Outcome] = {}
        for indices in by_signal.values():
            signal = needs[indices[0]].signal
            patience = self._patience(signal, batch)
            found, singly = yield from self._jointly(needs, indices, patience)
            outcomes |= found
            if signal.concurrent:
                side_by_side += singly
            elif singly:
                # A call that hangs does not keep the others waiting.
                outcomes |= yield from self._singly(needs, singly, 2 if patience.missed else 1)
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
    ) -> Steps[tuple[dict[int, Outcome], _Singly]]:
        """Measure the needs of one signal in joint calls that end well within one deadline each.

        Once a call missed its deadline, those left are measured singly, so that what was done in
        time is kept.

        Returns:
            The outcomes so far, and what is to be measured singly.
        """
        outcomes: dict[int, Outcome] = {}
        singly, start = list[int](), 0
        while needs[indices[0]].signal.has("measure_many") and start < len(indices):
            if patience.missed or patience.over:
                break
            part = indices[start : start + patience.joined]
            asked, before = [needs[index] for index in part], patience.measuring.spent
            start += len(part)
            found: list[Outcome] | None
            if len(part) == 1:
                found = [(yield from self.single(asked[0], patience))]
            else:
                found = yield from self._together(asked, patience)
            if found is None:
                singly += part
            else:
                outcomes.update(zip(part, found, strict=True))
            patience.plan((patience.measuring.spent - before) / len(part))
        return outcomes, [(index, patience) for index in (*singly, *indices[start:])]

    def _singly(
        self, needs: Sequence[Measure], jobs: _Singly, width: int
    ) -> Steps[dict[int, Outcome]]:
        found = yield _Several(self, [(needs[index], patience) for index, patience in jobs], width)
        return dict(zip((index for index, _ in jobs), found, strict=True))

    def _together(
        self, needs: Sequence[Measure], patience: Patience
    ) -> Steps[list[Outcome] | None]:
        """Outcomes of one joint call; None where each need is to be measured singly.

        The call has the deadline of one question, whatever the number of needs.
        """
        signal, requests = needs[0].signal, [need.request for need in needs]
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
            values = yield Call(
                signal,
                lambda: checked(signal.measure_many(requests)),
                native,
                "ameasure_many",
                self._deadlines[signal.name],
                self._turns.get(signal.name),
                patience,
            )
        except AllWorkersBusyError as error:
            values = [error] * len(needs)
        except DeadlineExceededError:
            patience.missed += 1
            return None
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - fails again, typed, singly
            # One question that is bad, or that takes too long, must not fail the others.
            return None
        share = (time.perf_counter() - started) / len(needs)
        found = []
        for need, value in zip(needs, values, strict=True):
            failed = isinstance(value, Exception)
            outcome = self._failures.of(signal, value, need.request) if failed else value
            if isinstance(value, Confidence):
                self._count_samples(value)
            if need.span is not None:
                need.span.measured_jointly(signal, begun, outcome)
            found.append((outcome, share))
        return found


def _checked(signal: Signal[Any], value: Any, request: Any) -> Any:
    try:
        return value if isinstance(value, KnowgateError) else signal.check(value, request)
    except SignalValueError as error:
        return error
