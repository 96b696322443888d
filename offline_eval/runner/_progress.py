"""How far a run is, what it has cost, and when it will be done."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_LEAST_WINDOW = 64
_WINDOW_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class CallProgress:
    """How far a run is, after some row was stored.

    Attributes:
        done: rows in the store, those of earlier runs included.
        total: items.
        failed: rows of this run that say why there is no answer.
        seconds: since this run began.
        eta_seconds: until all is done, at the pace of late; None before anything is
            known of it.
        input_tokens: of this run's rows that name any, None where none does.
        output_tokens: likewise.
        calls: likewise.
    """

    done: int
    total: int
    failed: int
    seconds: float
    eta_seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    calls: int | None


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What became of a run's items.

    Attributes:
        total: items.
        already: items that the store held before.
        stored: rows that this run added.
        failed: those of them that say why there is no answer.
        seconds: that it took.
        input_tokens: of the added rows that name any, None where none does.
        output_tokens: likewise.
        calls: likewise.
    """

    total: int
    already: int
    stored: int
    failed: int
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    calls: int | None


class Tally:
    """Counts rows as they are stored.

    Args:
        total: items.
        already: items that the store held before.
        at_once: most calls under way; the pace is taken over several rounds of them,
            since calls that began together end together.
        clock: tells seconds.
    """

    def __init__(
        self,
        total: int,
        already: int,
        at_once: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._already, self._clock = total, already, clock
        self._stored = self._failed = 0
        self._spent: dict[str, int] = {}
        self._began = self._clock()
        self._ends: deque[float] = deque(
            [self._began], maxlen=max(_LEAST_WINDOW, _WINDOW_ROUNDS * at_once) + 1
        )

    def add(self, row: Mapping[str, Any], *, failed: bool) -> None:
        """Count a row that is on disk."""
        self._stored += 1
        self._failed += failed
        for name in ("input_tokens", "output_tokens", "calls"):
            number = row.get(name)
            if isinstance(number, int):
                self._spent[name] = self._spent.get(name, 0) + number
        self._ends.append(self._clock())

    def progress(self) -> CallProgress:
        """The state as of now."""
        now = self._clock()
        done = self._already + self._stored
        return CallProgress(
            done=done,
            total=self._total,
            failed=self._failed,
            seconds=now - self._began,
            eta_seconds=self._eta(self._total - done, now),
            input_tokens=self._spent.get("input_tokens"),
            output_tokens=self._spent.get("output_tokens"),
            calls=self._spent.get("calls"),
        )

    def totals(self) -> RunTotals:
        """The state at the end."""
        return RunTotals(
            total=self._total,
            already=self._already,
            stored=self._stored,
            failed=self._failed,
            seconds=self._clock() - self._began,
            input_tokens=self._spent.get("input_tokens"),
            output_tokens=self._spent.get("output_tokens"),
            calls=self._spent.get("calls"),
        )

    def _eta(self, left: int, now: float) -> float | None:
        """Seconds left at the pace of the window up to now, so that a stall shows."""
        if left == 0:
            return 0.0
        ended = len(self._ends) - 1
        return left * (now - self._ends[0]) / ended if ended else None
