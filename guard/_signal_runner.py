"""Having needs met in time: one at a time, or those of several questions at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping

from ._flow import Failure, Need, Outcome, shared_time
from ._measure import Instruments, failure_of, keeps_hanging
from .contracts import Confidence
from .deadlines import (
    AllWorkersBusyError,
    DeadlineExceededError,
    DeadlineRunner,
    asked_to_stop,
    within,
)
from .decision import SignalName
from .errors import KnowgateError
from .metrics import GuardMetrics


class Asking:
    """Has a guard's needs met by their deadlines; failures become outcomes and are counted.

    Args:
        instruments: what measures.
        deadlines: seconds per signal; None waits for ever.
        max_concurrency: language-model questions under way at once in a batch.
        metrics: None for none.
    """

    def __init__(
        self,
        instruments: Instruments,
        deadlines: Mapping[str, float | None],
        max_concurrency: int,
        metrics: GuardMetrics | None,
    ) -> None:
        self._instruments, self._deadlines = instruments, deadlines
        self._max_concurrency, self._metrics = max_concurrency, metrics
        # Stuck calls keep their threads, so there are more of them than a batch needs at once.
        self._runner = DeadlineRunner(max(64, 2 * max_concurrency))

    # -- one need ---------------------------------------------------------------

    def timed(self, need: Need) -> tuple[Outcome, float]:
        """What came of one need, and how many seconds it took."""
        started = time.perf_counter()
        try:
            outcome = self._runner.call(self._instruments.task(need), self._seconds(need))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - all become outcomes
            outcome = self._failed(need.signal, error)
        return outcome, time.perf_counter() - started

    async def atimed(self, need: Need) -> tuple[Outcome, float]:
        """As `timed`, without blocking the event loop."""
        started = time.perf_counter()
        try:
            native = self._instruments.native(need)
            if native is None:
                task = self._instruments.task(need)
                outcome = await self._runner.acall(task, self._seconds(need))
            else:
                outcome = await within(native, self._seconds(need))
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and asked_to_stop():
                raise  # the caller cancelled this decision, not the signal itself
            outcome = self._failed(need.signal, error)
        return outcome, time.perf_counter() - started

    def _seconds(self, need: Need) -> float | None:
        return self._deadlines[need.signal]

    def _failed(self, signal: SignalName, error: BaseException) -> Failure:
        failure = failure_of(signal, error)
        if self._metrics is not None:
            self._metrics.count_error(signal, failure.error)
        return failure

    # -- relevance of several questions at once --------------------------------

    def score_together(self, needs: list[Need]) -> list[tuple[Outcome, float]]:
        """The relevance of several questions, in one call; one by one where that fails."""
        task, seconds = self._joint_task(needs)
        started = time.perf_counter()
        try:
            outcomes = self._runner.call(task, seconds)
        except AllWorkersBusyError as error:
            return self._all_failed(needs, error, started)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - see the next line
            # One pair that is bad, or on which the scorer hangs, must not fail its neighbours.
            alone: list[tuple[Outcome, float]] = []
            for need in needs:
                hangs = keeps_hanging(alone)
                alone.append((self._given_up(need), 0.0) if hangs else self.timed(need))
            return alone
        return shared_time(outcomes, started)

    async def ascore_together(self, needs: list[Need]) -> list[tuple[Outcome, float]]:
        """As `score_together`, without blocking the event loop."""
        task, seconds = self._joint_task(needs)
        started = time.perf_counter()
        try:
            outcomes = await self._runner.acall(task, seconds)
        except AllWorkersBusyError as error:
            return self._all_failed(needs, error, started)
        except Exception:  # noqa: BLE001 - as in the sync form
            alone: list[tuple[Outcome, float]] = []
            for need in needs:
                hangs = keeps_hanging(alone)
                alone.append((self._given_up(need), 0.0) if hangs else await self.atimed(need))
            return alone
        return shared_time(outcomes, started)

    # -- confidence of several questions at once -------------------------------

    def estimate_together(self, needs: list[Need]) -> list[tuple[Outcome, float]] | None:
        """The confidence of several questions, in one call.

        None where each question is to be asked alone: a joint call cannot be made, or failed.

        It has the time that the questions would have, so many side by side.
        """
        if len(needs) < 2 or not self._instruments.estimates_many:
            return None
        started = time.perf_counter()
        seconds = self._seconds_together(needs)
        try:
            found = self._runner.call(lambda: self._instruments.confidences(needs), seconds)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - fails again, typed, alone
            return None
        return shared_time([self._outcome(one) for one in found], started)

    async def aestimate_together(self, needs: list[Need]) -> list[tuple[Outcome, float]] | None:
        """As `estimate_together`, without blocking the event loop."""
        if len(needs) < 2 or not self._instruments.estimates_many:
            return None
        started = time.perf_counter()
        try:
            found = await within(
                self._instruments.aconfidences(needs), self._seconds_together(needs)
            )
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and asked_to_stop():
                raise
            return None
        return shared_time([self._outcome(one) for one in found], started)

    def _seconds_together(self, needs: list[Need]) -> float | None:
        seconds = self._deadlines[SignalName.CONFIDENCE]
        return None if seconds is None else seconds * math.ceil(len(needs) / self._max_concurrency)

    def _outcome(self, found: Confidence | KnowgateError) -> Outcome:
        if isinstance(found, Confidence):
            return found
        return self._failed(SignalName.CONFIDENCE, found)

    def _given_up(self, need: Need) -> Failure:
        return self._failed(need.signal, DeadlineExceededError())

    def _joint_task(self, needs: list[Need]) -> tuple[Callable[[], list[Outcome]], float | None]:
        per_question = self._deadlines[SignalName.RELEVANCE]
        seconds = None if per_question is None else per_question * len(needs)
        return lambda: self._instruments.relevances(needs), seconds

    def _all_failed(
        self, needs: list[Need], error: Exception, started: float
    ) -> list[tuple[Outcome, float]]:
        seconds = (time.perf_counter() - started) / len(needs)
        return [(self._failed(need.signal, error), seconds) for need in needs]
