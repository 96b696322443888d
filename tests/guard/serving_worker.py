"""A worker of a service in multi-process mode: `python -m tests.guard.serving_worker N WAITING`.

It decides N questions, lets calls wait, says so, and ends with its standard input.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

from knowgate.guard import process
from knowgate.guard.deadlines import DeadlineRunner
from knowgate.guard.errors import AllWorkersBusyError, DeadlineExceededError
from knowgate.guard.testing import FakeScorer
from tests.support.guards import guard_with


def main(decisions: int, waiting: int) -> None:
    """Decide, keep one thread in a call that nobody waits for, and calls behind it."""
    guard = guard_with(scorer=FakeScorer(default=0.9), metrics=True)
    for _ in range(decisions):
        guard.decide("q", ["p"])
    runner, stop = DeadlineRunner(max_workers=waiting), threading.Event()
    for _ in range(waiting - 1):
        runner.start(stop.wait, most_waiting=0)
    # A call that its thread has not begun yet is no thread's burden.
    while not process.totals("queues").get(("overdue_calls",)):
        with suppress(DeadlineExceededError, AllWorkersBusyError):
            runner.call(stop.wait, 0.01)
    for _ in range(waiting):
        runner.start(stop.wait, most_waiting=waiting)
    print("ready", flush=True)
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
