"""End processes right after calls were abandoned in the middle of a forward pass.

Python ends with a thread still inside torch, which aborts the process unless the thread has
stopped by then.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from knowgate.guard import Fingerprint, Guard, GuardOptions, Policy

from .outcome import Outcome, tally

CODE = 7
# Processes; most of them only wait a second for their calls.
_AT_ONCE = 7
_QUESTION = "When does the registry open?"


class EndlessTorch:
    """A scorer that is in torch for ever; it checks its deadline, or does not."""

    fingerprint = Fingerprint(kind="fake")

    def __init__(self, checks: bool) -> None:
        self._checks = checks

    def score(self, question: str, passages: Sequence[str]) -> Any:
        """Never returns."""
        return self.score_pairs([])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """Never returns."""
        import torch

        from knowgate.guard.deadlines import check_deadline

        layer = torch.nn.Linear(500, 500)
        given = torch.rand(500, 500)
        while True:
            if self._checks:
                check_deadline()
            with torch.inference_mode():
                layer(given)


class Sleeping(EndlessTorch):
    """A scorer that blocks for ever and can be told nothing."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """Never returns in time."""
        time.sleep(3600)
        return np.zeros(len(pairs))


def guard_over(scorer: Any) -> Guard:
    """A guard that waits .02 s for `scorer`."""
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    options = GuardOptions(deadlines={"relevance": 0.02})
    return Guard(policy, scorer=scorer, options=options, metrics=False)


def missed(guard: Guard) -> None:
    """Miss a deadline."""
    guard.decide(_QUESTION, ["At nine."])


def missed_in_a_batch(guard: Guard) -> None:
    """Miss the deadlines of a batch."""
    guard.decide_batch([_QUESTION] * 9, [["At nine."]] * 9)


def missed_on_threads(guard: Guard) -> None:
    """Miss deadlines on many threads."""
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: missed(guard), range(4)))


def missed_in_a_loop(guard: Guard) -> None:
    """Miss a deadline in an event loop."""
    asyncio.run(guard.adecide(_QUESTION, ["At nine."]))


def cancelled(guard: Guard) -> None:
    """Cancel a decision, and end its event loop."""

    async def work() -> None:
        task = asyncio.ensure_future(guard.adecide(_QUESTION, ["At nine."]))
        await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(work())


def under_way(guard: Guard) -> None:
    """Leave while a daemon thread still waits for its decision."""
    threading.Thread(target=missed, args=(guard,), daemon=True).start()
    time.sleep(0.01)


def scored_alone(guard: Guard) -> None:
    """Leave while a daemon thread scores without any guard."""
    scorer: Any = guard.scorer
    threading.Thread(target=scorer.score, args=(_QUESTION, ["At nine."]), daemon=True).start()
    time.sleep(0.01)


WAYS: dict[str, Callable[[Guard], None]] = {
    work.__name__: work
    for work in (
        missed,
        missed_in_a_batch,
        missed_on_threads,
        missed_in_a_loop,
        cancelled,
        under_way,
        scored_alone,
    )
}
SCORERS: dict[str, Callable[[], Any]] = {
    "checks": lambda: EndlessTorch(checks=True),
    "never checks": lambda: EndlessTorch(checks=False),
    "sleeps": lambda: Sleeping(checks=False),
}


def leave(way: str, scorer: str) -> None:
    """Abandon a call and end this process with `CODE`, as the interpreter does at its end."""
    WAYS[way](guard_over(SCORERS[scorer]()))
    ctypes.pythonapi.Py_Exit(CODE)


def exit_codes(cases: Sequence[tuple[str, str]]) -> list[int]:
    """The exit codes of processes that call `leave`, negative for a signal.

    They are forked from one that has imported torch and nothing that is slow to tear down.
    """
    command = [sys.executable, "-m", __name__, *(f"{way}/{scorer}" for way, scorer in cases)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=True, timeout=10 * len(cases) + 300
    )
    return [int(line) for line in done.stdout.split()]


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Count the processes that end in another way than they wanted."""
    every = [(way, scorer) for scorer in SCORERS for way in WAYS]
    cases = (every * 6)[:100] if full else [*every[:: len(WAYS)], ("scored_alone", "never checks")]
    codes = exit_codes(cases)
    yield tally(
        "a process that ends after abandoned calls is aborted",
        ((f"{way}, {scorer}", code) for (way, scorer), code in zip(cases, codes, strict=True)),
        lambda code: code != CODE,
    )


def _main() -> None:
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # or every process copies the memory of this one at its end
    cases = sys.argv[1:]
    for start in range(0, len(cases), _AT_ONCE):
        for process in [_forked(case) for case in cases[start : start + _AT_ONCE]]:
            print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


def _forked(case: str) -> int:
    process = os.fork()
    if not process:
        leave(*case.split("/"))
    return process


if __name__ == "__main__":
    _main()
