"""Programs that load a guard and serve it from other processes, as servers of workers do."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

QUESTION = "When does the library open?"
PASSAGES = ["The library opens at nine on weekdays.", "Dogs bark."]


def fork_after_load(workers: int) -> None:
    """Load the default guard, compute on two threads, then fork workers that decide alike."""
    import torch

    from knowgate.guard import Guard

    torch.set_num_threads(2)
    guard = Guard.default()
    expected = guard.decide(QUESTION, PASSAGES)
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            found = guard.decide(QUESTION, [*PASSAGES, "Another one."])
            same = guard.decide(QUESTION, PASSAGES)
            right = found.failed_signals == () and same.relevance is not None
            close = abs((same.relevance or 0) - (expected.relevance or 0)) < 1e-5
            os._exit(0 if right and close and same.route is expected.route else 1)
        print(pid, *_ended(pid), flush=True)
    again = guard.decide(QUESTION, PASSAGES)
    print("parent", again.relevance == expected.relevance, flush=True)


def _ended(pid: int) -> tuple[str, int]:
    """How a worker ended; one that hangs is killed."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "ended", os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hung", -9


def decide_with(path: Path, found: Any) -> None:
    """Load a policy in a process of its own, and decide."""
    from knowgate.guard import Guard
    from knowgate.guard.testing import FakeScorer

    guard = Guard.load(path, scorer=FakeScorer(default=0.9), metrics=False)
    found.put(guard.decide("q", ["p"]).route.value)
