"""Many calls at once on one guard and one chain: does any get what belongs to another?"""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from numpy.typing import NDArray

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard import Decision, Fingerprint, Guard, GuardOptions, Policy, Route

from .outcome import Outcome

_NUMBER = re.compile(r"#(\d+)")
_THREADS = 32


class NumberScorer:
    """Relevant are passages that have the number of the question; pauses let others in between."""

    fingerprint = Fingerprint(kind="numbers")

    def __init__(self) -> None:
        self._random, self._lock = random.Random(5), threading.Lock()

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """1 minus the place in the list for the own number, 0 for another."""
        with self._lock:
            pause = self._random.random() * 5e-4
        time.sleep(pause)
        own = _numbers(question)
        return np.asarray([float(_numbers(one) == own) for one in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """As `score`, for pairs."""
        return np.asarray([float(_numbers(a) == _numbers(b)) for a, b in pairs])


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def _question(number: int) -> str:
    return f"What is the answer to #{number}?"


def _passages(number: int) -> list[str]:
    """The own passage, for every third question none, among those of the neighbours."""
    own = [] if number % 3 == 0 else [f"The answer is #{number}."]
    found = [f"The answer is #{number - 1}.", *own, f"The answer is #{number + 1}."]
    return found[number % 2 :] if own else found


def _right(number: int, decision: Decision) -> bool:
    expected = [float(_numbers(one) == [str(number)]) for one in _passages(number)]
    route = Route.ABSTAIN if number % 3 == 0 else Route.FOLLOW_CONTEXT
    return list(decision.scores) == expected and decision.route is route


def _guard() -> Guard:
    scorer = NumberScorer()
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5, kept_margin=0.5)
    options = GuardOptions(deadlines={"relevance": None}, max_concurrency=_THREADS)
    return Guard(policy, scorer=scorer, options=options, metrics=False)


def decisions(calls: int) -> Outcome:
    """Calls of a guard from threads, from an event loop and in batches, all at once."""
    guard = _guard()
    numbers = list(range(1, calls + 1))

    def decided(number: int) -> Decision:
        return guard.decide(_question(number), _passages(number))

    def batched(some: Sequence[int]) -> list[Decision]:
        return guard.decide_batch([_question(n) for n in some], [_passages(n) for n in some])

    async def together() -> list[Decision]:
        waiting = [guard.adecide(_question(n), _passages(n)) for n in numbers]
        return list(await asyncio.gather(*waiting))

    with ThreadPoolExecutor(_THREADS) as pool:
        loop = pool.submit(asyncio.run, together())
        parts = [numbers[i : i + 50] for i in range(0, calls, 50)]
        batches = pool.map(batched, parts)
        singles = list(pool.map(decided, numbers))
        found = [*singles, *loop.result(), *(one for part in batches for one in part)]
    crossed = [n for n, one in zip(numbers * 3, found, strict=True) if not _right(n, one)]
    return Outcome("crossed decisions of concurrent calls", len(found), len(crossed))


def answers(calls: int) -> Outcome:
    """Calls of a chain from threads, from an event loop and in batches, all at once."""

    def retrieve(question: str) -> list[Document]:
        return [Document(one) for one in _passages(int(_numbers(question)[0]))]

    def generate(given: dict[str, Any]) -> str:
        return f"{given['question']} {given['context']}"

    chain = GuardedRAG(
        guard=_guard(),
        retriever=RunnableLambda(retrieve),
        with_context=RunnableLambda(generate),
        replies="I cannot say.",
    )
    numbers = list(range(1, calls + 1))
    questions = [_question(n) for n in numbers]

    async def together() -> list[Any]:
        return list(await asyncio.gather(*map(chain.ainvoke, questions)))

    with ThreadPoolExecutor(_THREADS) as pool:
        loop = pool.submit(asyncio.run, together())
        batch = pool.submit(chain.batch, questions)
        singles = list(pool.map(chain.invoke, questions))
        found = [*singles, *loop.result(), *batch.result()]
    crossed = 0
    for number, one in zip(numbers * 3, found, strict=True):
        expected = [] if number % 3 == 0 else [str(number)] * 2
        crossed += _numbers(one.answer) != expected or not _right(number, one.decision)
    return Outcome("crossed answers of a chain, concurrent calls", len(found), crossed)


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Call at once, thousands of times."""
    del folder
    yield decisions(4_000 if full else 100)
    yield answers(1_500 if full else 60)
