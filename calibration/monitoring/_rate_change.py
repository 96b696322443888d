"""Has a rate changed? A detector with a controlled number of steps between false alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...guard.errors import InputError
from ._state import number, probability, state_of, whole

Direction = Literal["up", "down"]

_STAKES = np.geomspace(0.02, 0.9, 10)
_STATE = "rate_change_detector"
_LONGEST = 10**15


@dataclass(frozen=True, slots=True)
class RateChange:
    """An alarm.

    Attributes:
        direction: where the rate went.
        seen_at: steps taken when the alarm was raised.
        began_after: the step after which the change probably began.
    """

    direction: Direction
    seen_at: int
    began_after: int


class RateChangeDetector:
    """Watches a stream of yes and no for a rate that rises or falls, at an unknown time.

    For each direction ten gamblers bet against "the rate is still in the baseline range", each
    restarting with 1 whenever he falls below it (a CUSUM of e-values); the alarm is
    raised when their mean capital reaches `run_length`. As long as the rate stays in the
    range, whatever the dependence on the past, an alarm comes after `run_length` steps
    on average at the earliest. An alarm stays until `reset`.

    Not for several threads at once; `DecisionMonitor` sees to that.

    Args:
        low: smallest rate that counts as unchanged, in [0, 1).
        high: largest one, in (0, 1].
        run_length: steps between false alarms, on average at least; above 1.

    Raises:
        InputError: a number is out of range.

    Source: Shin, Ramdas and Rinaldo 2023, E-detectors: a nonparametric framework for
    sequential change detection.

    Example:
        >>> detector = RateChangeDetector.from_rate(0.2, run_length=1000)
        >>> for step in range(200):
        ...     detector.observe(step % 5 == 0 if step < 100 else step % 2 == 0)
        >>> detector.alarm
        RateChange(direction='up', seen_at=141, began_after=100)
    """

    def __init__(self, low: float, high: float, *, run_length: float = 100_000) -> None:
        if not 0.0 <= low <= high <= 1.0 or high == 0.0 or low == 1.0:
            raise InputError(f"no range of rates: [{low}, {high}]")
        is_number = isinstance(run_length, int | float) and not isinstance(run_length, bool)
        if not is_number or not 1.0 < run_length <= _LONGEST:
            raise InputError(f"run_length must be above 1 and at most 1e15, not {run_length!r}")
        self.low, self.high = float(low), float(high)
        self.run_length = float(run_length)
        self._after = {event: log_factors(self.low, self.high, event) for event in (False, True)}
        self.reset()

    @classmethod
    def from_rate(cls, rate: float, *, run_length: float = 100_000) -> RateChangeDetector:
        """A detector for a baseline that is known exactly, in (0, 1)."""
        rate = probability(rate, "the baseline rate")
        return cls(rate, rate, run_length=run_length)

    @classmethod
    def from_counts(
        cls, events: int, trials: int, *, confidence: float = 0.95, run_length: float = 100_000
    ) -> RateChangeDetector:
        """A detector for a baseline of `events` in `trials`.

        The range is the exact interval (Clopper and Pearson): with this confidence over the
        draw of the baseline it holds the true rate, and `run_length` is kept.
        A small baseline therefore sees large changes only.

        Raises:
            InputError: no trials, more events than trials, or no whole numbers.
        """
        whole_numbers = all(
            isinstance(n, int) and not isinstance(n, bool) for n in (events, trials)
        )
        if not whole_numbers or not 0 <= events <= trials <= _LONGEST or trials < 1:
            raise InputError(
                f"a baseline of {events!r} in {trials!r}", hint="two counts: (abstained, decisions)"
            )
        tail = (1 - probability(confidence, "confidence")) / 2
        from scipy.stats import beta

        low = 0.0 if events == 0 else float(beta.ppf(tail, events, trials - events + 1))
        high = 1.0 if events == trials else float(beta.ppf(1 - tail, events + 1, trials - events))
        return cls(low, high, run_length=run_length)

    def reset(self) -> None:
        """Reset the alarm and all steps, with the same baseline."""
        self.steps = 0
        self._alarm: RateChange | None = None
        self._capital = np.zeros((2, len(_STAKES)))
        self._begun = np.zeros((2, len(_STAKES)), dtype=np.int64)

    @property
    def alarm(self) -> RateChange | None:
        """The first alarm since the last reset."""
        return self._alarm

    def log_evidence(self, direction: Direction) -> float:
        """Natural logarithm of the mean capital for a change in this direction; alarms at
        log(2 · `run_length`), as each direction has half of the whole.
        """
        logs = self._capital[0 if direction == "up" else 1]
        largest = float(logs.max())
        return largest + math.log(float(np.mean(np.exp(logs - largest))))

    def observe(self, event: bool) -> None:
        """Take one step; constant time and memory."""
        self._begun[self._capital <= 0] = self.steps
        self._capital = np.maximum(self._capital, 0.0) + self._after[bool(event)]
        self.steps += 1
        # The mean of all twenty is at most the largest, so most steps end here.
        if self._alarm is None and self._capital.max() >= math.log(self.run_length):
            self._raise_if_enough()

    def to_dict(self) -> dict[str, Any]:
        """Everything it knows, as JSON holds it; `from_dict` gives back its equal."""
        alarm = self._alarm
        return {
            "kind": _STATE,
            "low": self.low,
            "high": self.high,
            "run_length": self.run_length,
            "steps": self.steps,
            "capital": self._capital.tolist(),
            "begun": self._begun.tolist(),
            "alarm": None if alarm is None else [alarm.direction, alarm.seen_at, alarm.began_after],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> RateChangeDetector:
        """Restore a detector from `to_dict`.

        Raises:
            InputError: the state is not one of a rate change detector.
        """
        found = state_of(state, _STATE)
        detector = cls(
            number(found, "low"), number(found, "high"), run_length=number(found, "run_length")
        )
        detector.steps = whole(found, "steps")
        try:
            capital = np.asarray(found["capital"], dtype=np.float64)
            begun = np.asarray(found["begun"], dtype=np.int64)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError("a saved rate change detector is broken") from None
        if capital.shape != detector._capital.shape or begun.shape != capital.shape:
            raise InputError("a saved rate change detector is broken")
        if not np.all(np.isfinite(capital)):
            raise InputError("a saved rate change detector is broken")
        detector._capital, detector._begun = capital, begun
        alarm = found.get("alarm")
        if alarm is not None:
            detector._alarm = _alarm_of(alarm)
        return detector

    def _raise_if_enough(self) -> None:
        directions: tuple[Direction, Direction] = ("up", "down")
        evidence = [self.log_evidence(direction) for direction in directions]
        if float(np.logaddexp(evidence[0], evidence[1])) - math.log(2) < math.log(self.run_length):
            return
        row = int(np.argmax(evidence))
        best = int(np.argmax(self._capital[row]))
        self._alarm = RateChange(directions[row], self.steps, int(self._begun[row, best]))


def log_factors(low: float, high: float, event: bool) -> NDArray[np.float64]:
    """By what one step multiplies each gambler's capital: logarithms, shape (2, stakes).

    Row 0 bets on a rate above `high`, row 1 on one below `low`; where the rate is
    in between, no factor is above 1 on average.
    """
    up = 1 - _STAKES + (_STAKES / high if event else 0.0)
    down = 1 - _STAKES + (0.0 if event else _STAKES / (1 - low))
    return np.asarray(np.log(np.stack([up, down])))


def _alarm_of(value: object) -> RateChange:
    if not isinstance(value, list | tuple) or len(value) != 3 or value[0] not in ("up", "down"):
        raise InputError("field 'alarm' of a saved rate change detector is broken")
    steps = {"seen_at": value[1], "began_after": value[2]}
    return RateChange(value[0], whole(steps, "seen_at"), whole(steps, "began_after"))
