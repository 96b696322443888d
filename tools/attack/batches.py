"""Batches of many questions that no cache holds: all of them end after two deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from knowgate.guard import Decision, Guard, GuardOptions, Policy, Reason
from knowgate.guard.deadlines import check_deadline
from knowgate.guard.testing import FakeScorer
from tests.adapters.serve.service import client_of, make_app

from .outcome import Outcome

# Deadlines until a batch counts as one that does not end: two, and what a busy machine takes.
_MOST_DEADLINES = 4


class SteadyScorer(FakeScorer):
    """Takes the same time for each question, and checks its deadline."""

    checks_deadline = True

    def __init__(self, seconds: float) -> None:
        super().__init__(default=0.9)
        self._seconds = seconds

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """The scores, as slowly."""
        for _ in dict(pairs):
            check_deadline()
            time.sleep(self._seconds)
        return np.full(len(pairs), 0.9)


def steady_guard(deadline: float) -> Guard:
    """A guard that has time for ten questions within the deadline of one."""
    scorer = SteadyScorer(deadline / 10)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    return Guard(policy, scorer=scorer, options=_options(deadline), metrics=False)


def real_guard(deadline: float) -> Guard:
    """A guard over the embedded scorer, which has computed something before."""
    guard = Guard.default(options=_options(deadline), metrics=False)
    guard.decide("When does it open?", ["At nine."])
    return guard


def _options(deadline: float) -> GuardOptions:
    return GuardOptions(deadlines={"relevance": deadline})


def _questions(count: int) -> tuple[list[str], list[list[str]]]:
    """Questions with five passages each, of words that occur nowhere."""
    random = Random(count)

    def text(words: int) -> str:
        return " ".join("".join(random.choices("abcdefghij", k=6)) for _ in range(words))

    return (
        [f"{number} {text(8)}?" for number in range(count)],
        [[text(40) for _ in range(5)] for _ in range(count)],
    )


async def _over_http(guard: Guard, asked: tuple[list[str], list[list[str]]]) -> list[str]:
    pairs = zip(*asked, strict=True)
    body = {"requests": [{"question": one, "passages": given} for one, given in pairs]}
    async with client_of(make_app(guard)) as client:
        reply = await client.post("/v1/decide/batch", json=body, timeout=600)
    return [one["decision"]["reason"] for one in reply.json()["results"]]


def _reasons(found: Sequence[Decision]) -> list[str]:
    return [str(one.reason) for one in found]


def batches(guard: Guard, deadline: float, counts: Sequence[int]) -> Outcome:
    """Decide batches in each form.

    One gets through if it takes longer than its deadlines, or if none of its questions was
    decided, or one is without a decision.
    """
    cases, tried = [], 0
    for count in counts:
        for form in ("sync", "async", "http"):
            asked, started = _questions(count), time.monotonic()
            if form == "sync":
                reasons = _reasons(guard.decide_batch(*asked))
            elif form == "async":
                reasons = _reasons(asyncio.run(guard.adecide_batch(*asked)))
            else:
                reasons = asyncio.run(_over_http(guard, asked))
            took = time.monotonic() - started
            decided = len(reasons) - reasons.count(Reason.RELEVANCE_FAILED)
            tried += 1
            if took > _MOST_DEADLINES * deadline or not decided or len(reasons) != count:
                cases.append(f"{form} {count}: {took:.1f} s, {decided} decided")
    attack = f"a batch that takes longer than {_MOST_DEADLINES} deadlines, or decides nothing"
    return Outcome(attack, tried, len(cases), cases=tuple(cases))


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Decide batches of questions with a scorer that takes its time; `full` with the real one."""
    if full:
        yield batches(real_guard(3.0), 3.0, (64, 256))
    else:
        yield batches(steady_guard(0.2), 0.2, (200,))
