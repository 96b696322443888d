"""A detector of false premises with scripted verdicts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence

from .._premise_finding import Answerability, Premise


class ScriptedAnswerability:
    """Says of each question what it was told to say, of others that it is undecided.

    Args:
        verdicts: question → the verdict on it.
        error: raised instead of any verdict.
        seconds: how long every verdict takes.

    Attributes:
        calls: how often it was asked.
        seen: the passages it was given, call by call.
    """

    def __init__(
        self,
        verdicts: Mapping[str, Answerability] | None = None,
        *,
        error: BaseException | None = None,
        seconds: float = 0.0,
    ) -> None:
        self._verdicts = dict(verdicts or {})
        self._error, self._seconds = error, seconds
        self._lock = threading.Lock()
        self.calls = 0
        self.seen: list[tuple[str, ...]] = []

    def detect(self, question: str, passages: Sequence[str]) -> Answerability:
        """The scripted verdict."""
        time.sleep(self._seconds)
        return self._verdict(question, passages)

    async def adetect(self, question: str, passages: Sequence[str]) -> Answerability:
        """As `detect`, without blocking the event loop."""
        await asyncio.sleep(self._seconds)
        return self._verdict(question, passages)

    def _verdict(self, question: str, passages: Sequence[str]) -> Answerability:
        with self._lock:
            self.calls += 1
            self.seen.append(tuple(passages))
        if self._error is not None:
            raise self._error
        return self._verdicts.get(question, Answerability(Premise.UNDECIDED))
