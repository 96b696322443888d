"""What the guard itself costs per decision: signals are fakes that answer at once.

    python benchmarks/overhead.py

Prints p50, p95 and p99 in microseconds. What a real scorer or language model takes comes on
top. The default deadlines move each signal to another thread, so that a stuck one can be left
behind; without deadlines (None) a sync call stays on the caller's thread.

Under "64 callers" a scorer waits 20 ms, as one on another machine would, and its own time is
taken off. Peers stand beside where they are installed: NeMo Guardrails (`RunnableRails` around a
runnable that returns at once, with no rails) and guardrails-ai (a `Guard` with a validator that
passes everything).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry

from knowgate import __version__
from knowgate.guard import (
    Confidence,
    Fingerprint,
    Guard,
    GuardMetrics,
    GuardOptions,
    Policy,
)
from knowgate.guard.testing import FakeScorer

QUESTION = "When does the registry open?"
PASSAGES = [f"Passage {i}: the registry opens at nine on weekdays." for i in range(5)]
NO_DEADLINES: Mapping[str, float | None] = {
    "relevance": None,
    "confidence": None,
    "conflict": None,
}
BATCH = 100
CALLERS = 64
WAIT_SECONDS = 0.02


class CheckingScorer(FakeScorer):
    """Says that it checks its deadline; it answers at once."""

    checks_deadline = True


class SureEstimator:
    """Is sure of an answer to any question."""

    fingerprint = Fingerprint(kind="fake")

    def estimate(self, question: str) -> Confidence:
        """Always the same."""
        return Confidence(0.9, "an answer")

    async def aestimate(self, question: str) -> Confidence:
        """As `estimate`."""
        return self.estimate(question)


class AgreeingDetector:
    """Finds no conflict."""

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """Always the same."""
        return False

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`."""
        return False


class CheckingEstimator(SureEstimator):
    """As `CheckingScorer`."""

    checks_deadline = True


class CheckingDetector(AgreeingDetector):
    """As `CheckingScorer`."""

    checks_deadline = True


def guard_with(
    *,
    deadlines: Mapping[str, float | None] | None = None,
    metrics: bool = True,
    three_signals: bool = False,
    checking: bool = False,
) -> Guard:
    """A guard over fakes; with three signals every one of them is asked for.

    Those that are `checking` say that they check their deadline.
    """
    scorer = (CheckingScorer if checking else FakeScorer)(default=0.9)
    policy = Policy(
        scorer=scorer.fingerprint,
        relevance_threshold=0.5,
        confidence_threshold=0.7 if three_signals else None,
        check_conflict=three_signals,
    )
    return Guard(
        policy,
        scorer=scorer,
        estimator=(CheckingEstimator if checking else SureEstimator)(),
        conflict_detector=(CheckingDetector if checking else AgreeingDetector)(),
        options=GuardOptions(deadlines=deadlines or {}),
        metrics=metrics and GuardMetrics.on(CollectorRegistry()),
    )


def microseconds(call: Callable[[], object], rounds: int, *, share: int = 1) -> list[float]:
    """Microseconds per decision of `rounds` calls that take `share` decisions each."""
    for _ in range(max(1, rounds // 10)):
        call()
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        taken.append((time.perf_counter() - started) / share * 1e6)
    return taken


async def async_microseconds(guard: Guard, rounds: int) -> list[float]:
    """As `microseconds`, for `adecide`."""
    taken = []
    for _ in range(rounds + rounds // 10):
        started = time.perf_counter()
        await guard.adecide(QUESTION, PASSAGES)
        taken.append((time.perf_counter() - started) * 1e6)
    return taken[rounds // 10 :]


class WaitingScorer(FakeScorer):
    """Waits as for another machine, and remembers how long."""

    def __init__(self) -> None:
        super().__init__(default=0.9)
        self.waited: dict[str, float] = {}

    async def ascore_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Score after a wait."""
        question, started = pairs[0][0], time.perf_counter()
        await asyncio.sleep(WAIT_SECONDS)
        self.waited[question] = time.perf_counter() - started
        return [0.9] * len(pairs)


async def concurrent_microseconds(rounds: int) -> list[float]:
    """The guard's own time of each call, with 64 callers at once."""
    scorer = WaitingScorer()
    guard = Guard(
        Policy(scorer=scorer.fingerprint, relevance_threshold=0.5),
        scorer=scorer,
        metrics=GuardMetrics.on(CollectorRegistry()),
    )
    taken = []

    async def caller(name: int) -> None:
        await asyncio.sleep(name * WAIT_SECONDS / CALLERS)  # not all at the same moment
        for number in range(max(10, rounds // CALLERS)):
            question = f"{QUESTION} {name} {number}"
            started = time.perf_counter()
            await guard.adecide(question, PASSAGES)
            taken.append((time.perf_counter() - started - scorer.waited[question]) * 1e6)

    await asyncio.gather(*(caller(name) for name in range(CALLERS)))
    return taken[CALLERS:]


def peers() -> dict[str, Callable[[], object]]:
    """What the peers that are installed do for one question, by name."""
    found: dict[str, Callable[[], object]] = {}
    os.environ.setdefault("OTEL_SDK_DISABLED", "true")  # guardrails-ai sends spans to its maker
    try:
        from langchain_core.runnables import RunnableLambda
        from nemoguardrails import RailsConfig
        from nemoguardrails.integrations.langchain.runnable_rails import RunnableRails

        rails = RunnableRails(RailsConfig.from_content("", "models: []"))
        railed = rails | RunnableLambda(lambda given: "nine")
        found["NeMo Guardrails, no rails"] = lambda: railed.invoke({"input": QUESTION})
    except ImportError:
        pass
    try:
        from guardrails import Guard as PeerGuard
        from guardrails.validators import PassResult, Validator, register_validator

        @register_validator(name="knowgate/passes", data_type="string")
        class Passes(Validator):
            def _validate(self, value: object, metadata: object) -> PassResult:
                return PassResult()

        peer = PeerGuard().use(Passes())
        found["guardrails-ai, no-op validator"] = lambda: peer.validate("It opens at nine.")
    except ImportError:
        pass
    return found


def machine() -> str:
    """Processor, cores in use and versions, on one line."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return (
        f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numpy {np.__version__}, knowgate {__version__}"
    )


def show(name: str, taken: Sequence[float]) -> None:
    """Print one line."""
    p50, p95, p99 = np.percentile(taken, [50, 95, 99])
    print(f"{name:42}{p50:8.1f}{p95:8.1f}{p99:8.1f}", flush=True)


def main() -> None:
    """Measure every form and print one line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=5000, help="decisions per line (default 5000)"
    )
    rounds: int = parser.parse_args().rounds
    default, bare = guard_with(), guard_with(deadlines=NO_DEADLINES)
    silent = guard_with(deadlines=NO_DEADLINES, metrics=False)
    checking, full_checking = (
        guard_with(checking=True),
        guard_with(checking=True, three_signals=True),
    )
    full = guard_with(three_signals=True)
    full_bare = guard_with(deadlines=NO_DEADLINES, three_signals=True)
    questions, collections = [QUESTION] * BATCH, [PASSAGES] * BATCH
    rows = {
        "decide, relevance only": lambda: microseconds(
            lambda: default.decide(QUESTION, PASSAGES), rounds
        ),
        "decide, scorer checks its deadline": lambda: microseconds(
            lambda: checking.decide(QUESTION, PASSAGES), rounds
        ),
        "decide, no deadlines": lambda: microseconds(
            lambda: bare.decide(QUESTION, PASSAGES), rounds
        ),
        "decide, no deadlines, no metrics": lambda: microseconds(
            lambda: silent.decide(QUESTION, PASSAGES), rounds
        ),
        "adecide, relevance only": lambda: asyncio.run(async_microseconds(default, rounds)),
        f"decide_batch of {BATCH}, per question": lambda: microseconds(
            lambda: default.decide_batch(questions, collections),
            max(10, rounds // BATCH),
            share=BATCH,
        ),
        "decide, three signals": lambda: microseconds(
            lambda: full.decide(QUESTION, PASSAGES), rounds
        ),
        "decide, three that check their deadline": lambda: microseconds(
            lambda: full_checking.decide(QUESTION, PASSAGES), rounds
        ),
        "decide, three signals, no deadlines": lambda: microseconds(
            lambda: full_bare.decide(QUESTION, PASSAGES), rounds
        ),
        f"adecide, {CALLERS} callers, beside the scorer": lambda: asyncio.run(
            concurrent_microseconds(rounds)
        ),
    }
    print(machine())
    print(f"{'microseconds per decision':42}{'p50':>8}{'p95':>8}{'p99':>8}")
    for name, measure in rows.items():
        show(name, measure())
    # Imported last: they set up spans of their own, which the guard would fill.
    for name, call in peers().items():
        show(name, microseconds(call, max(50, rounds // 20)))


if __name__ == "__main__":
    main()
