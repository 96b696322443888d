"""How far a run is, and what became of its items."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

_LEAST_WINDOW = 64
_WINDOW_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, after a row was stored.

    Attributes:
        stage: what is being done, such as `asking`; empty where there is one stage only.
        done: items of the stage that are stored, those of earlier runs included.
        total: items of the stage.
        failed: rows of this run with an error.
        seconds: since this stage began.
        eta_seconds: until all is done, at the recent pace; None before anything is
            known of it.
        input_tokens: of this run's rows that state any, None where none does.
        output_tokens: likewise.
        calls: likewise.
    """

    stage: str
    done: int
    total: int
    failed: int = 0
    seconds: float = 0.0
    eta_seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls: int | None = None


OnStep = Callable[[int, int], None]
"""Called with the number of items done, and of all items."""

OnProgress = Callable[[Progress], object]
"""Called after every stored row; what it raises ends the run."""


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What became of a run's items.

    Attributes:
        total: items.
        already: items that the table held before.
        stored: rows that this run added.
        failed: those of them with an error.
        seconds: that it took.
        input_tokens: of the added rows that state any, None where none does.
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
        already: items that the table held before.
        at_once: most calls under way; the pace is taken over several rounds of them,
            since calls that began together end together.
        clock: gives seconds.
        stage: what is being done.
    """

    def __init__(
        self,
        total: int,
        already: int,
        at_once: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        stage: str = "",
    ) -> None:
        self._stage = stage
        self._total, self._already, self._clock = total, already, clock
        self._stored = self._failed = 0
        self._spent: dict[str, int] = {}
        self._began = self._clock()
        self._ends: deque[float] = deque(
            [self._began], maxlen=max(_LEAST_WINDOW, _WINDOW_ROUNDS * at_once) + 1
        )

    def add(self, row: Mapping[str, Any] | BaseModel, *, failed: bool) -> None:
        """Count a row that is on disk."""
        self._stored += 1
        self._failed += failed
        for name in ("input_tokens", "output_tokens", "calls"):
            number = row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)
            if isinstance(number, int):
                self._spent[name] = self._spent.get(name, 0) + number
        self._ends.append(self._clock())

    def progress(self) -> Progress:
        """Return the state as of now."""
        now = self._clock()
        done = self._already + self._stored
        return Progress(
            stage=self._stage,
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
        """Return the state at the end."""
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
