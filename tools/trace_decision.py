"""Show which files of the guard one decision passes through, and how often it switches.

    python tools/trace_decision.py [--calls]

Traces one `Guard.decide` with relevance alone: a scorer of the caller's own, metrics on,
deadlines as they are by default.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

import knowgate.guard
from knowgate.guard import Fingerprint, Guard, GuardMetrics, Policy

PACKAGE = Path(knowgate.guard.__file__).resolve().parent


class ConstantScorer:
    """Give every passage the same score."""

    fingerprint = Fingerprint(kind="constant")

    def score(self, question: str, passages: Sequence[str]) -> Any:
        return np.full(len(passages), 0.9)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return np.full(len(pairs), 0.9)


@dataclass
class Trace:
    """The functions of the guard that were called, in order, and the files they are in.

    Attributes:
        calls: file and function, of all threads.
        of_threads: the files of the calls of each thread.
    """

    calls: list[tuple[str, str]] = field(default_factory=list)
    of_threads: dict[int, list[str]] = field(default_factory=dict)

    def note(self, frame: Any, event: str, _: Any) -> None:
        """Record a call; to be given to `sys.setprofile`."""
        if event != "call":
            return
        path = Path(frame.f_code.co_filename).resolve()
        if path.is_relative_to(PACKAGE):
            file = str(path.relative_to(PACKAGE))
            self.calls.append((file, frame.f_code.co_qualname))
            self.of_threads.setdefault(threading.get_ident(), []).append(file)

    @property
    def files(self) -> list[str]:
        """The files passed, in the order of their first call."""
        return list(dict.fromkeys(file for file, _ in self.calls))

    @property
    def switches(self) -> int:
        """How often the next call of the same thread was in another file."""
        threads = self.of_threads.values()
        return sum(a != b for files in threads for a, b in itertools.pairwise(files))


def trace_decision() -> Trace:
    """Trace one decision with relevance alone."""
    scorer = ConstantScorer()
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    guard = Guard(policy, scorer=scorer, metrics=GuardMetrics(CollectorRegistry()))
    trace = Trace()
    # The worker thread must start while the profile function is set, so nothing is warmed up.
    # What is collected meanwhile would add calls of its own.
    gc.disable()
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    try:
        guard.decide("When does it open?", ["It opens at nine."])
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()
    return trace


def main() -> None:
    """Print the files, and with `--calls` every function, of one decision."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", action="store_true", help="print every function called")
    given = parser.parse_args()
    trace = trace_decision()
    if given.calls:
        for file, name in trace.calls:
            print(f"{file}: {name}")
    print(f"{len(trace.files)} files: {', '.join(trace.files)}")
    print(f"{len(trace.calls)} calls, {trace.switches} switches between files")


if __name__ == "__main__":
    main()
