"""What one batch may spend on a signal: two deadlines, however many questions it has."""

from __future__ import annotations

import math
import threading
import time

_QUESTIONS_PER_CALL = 32
# The share of its time that a joint call is meant to take: others may compute at the same time.
_JOINT_CALL_TAKES = 0.25
# Deadlines that one batch may spend on one signal.
_DEADLINES_PER_BATCH = 2
# Calls of one signal that may miss their deadline in one batch.
_MOST_MISSED = 3


class Budget:
    """Seconds that may be spent in blocks of `with`; those that overlap are counted once.

    Args:
        seconds: in all; infinity for no limit.

    Example:
        >>> budget = Budget(60.0)
        >>> with budget:
        ...     pass
        >>> 0 <= budget.spent < 60, 0 < budget.left <= 60
        (True, True)
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._before = seconds, 0.0
        self._lock, self._blocks, self._since = threading.Lock(), 0, 0.0

    @property
    def spent(self) -> float:
        """Seconds so far."""
        with self._lock:
            return self._before + (time.monotonic() - self._since if self._blocks else 0.0)

    @property
    def left(self) -> float:
        """Seconds to go, at least 0."""
        return max(0.0, self._seconds - self.spent)

    def __enter__(self) -> Budget:
        """Begin to spend."""
        with self._lock:
            if not self._blocks:
                self._since = time.monotonic()
            self._blocks += 1
        return self

    def __exit__(self, *exc: object) -> None:
        """Spend no more."""
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._before += time.monotonic() - self._since


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
        return self.missed >= _MOST_MISSED or not (self.measuring.left and self.waiting.left)

    def plan(self, seconds_each: float) -> None:
        """Let the next joint call be one that ends well within its deadline."""
        fitting = _JOINT_CALL_TAKES * self.seconds
        self.joined = int(max(1, min(_QUESTIONS_PER_CALL, fitting / max(seconds_each, 1e-9))))


class BatchPatience(dict[str, Patience]):
    """What one batch may still spend on each signal: two of its deadlines, whatever its size.

    What was measured by then is kept; the questions left count as failed by their deadline.
    """
