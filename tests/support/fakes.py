"""Fakes that only tests of the guard itself need; `knowgate.guard.testing` has the others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from knowgate.guard import Fingerprint, LanguageModelError
from knowgate.guard.contracts import (
    Answerability,
    Confidence,
    ConflictFinding,
    Generation,
    PartialGenerationsError,
    Premise,
    SetScore,
    View,
)
from knowgate.guard.signals.answerability import AnswerabilityVeto
from knowgate.guard.testing import FakeScorer, ScriptedLanguageModel


class FakeConflictDetector:
    """Find a conflict for the scripted questions, or as their scripted views are."""

    def __init__(
        self,
        conflicting: Collection[str] = (),
        *,
        views: Mapping[str, Sequence[View]] | None = None,
    ) -> None:
        self._conflicting = frozenset(conflicting)
        self._views = {question: tuple(said) for question, said in (views or {}).items()}
        self._lock = threading.Lock()
        self.calls = 0

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        with self._lock:
            self.calls += 1
        if question in self._views:
            return ConflictFinding.of(self._views[question]).conflict
        return question in self._conflicting

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        return self.detect(question, closed_book_answer, passages)

    def examine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        conflict = self.detect(question, closed_book_answer, passages)
        if question in self._views:
            return ConflictFinding.of(self._views[question])
        every = tuple(range(len(passages)))
        if conflict and closed_book_answer:
            views = [View("another answer", every), View(closed_book_answer, (), True)]
            return ConflictFinding.of(views)
        known = bool(closed_book_answer)
        return ConflictFinding.of([View(closed_book_answer or "an answer", every, known)])

    async def aexamine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        return self.examine(question, closed_book_answer, passages)


class FakeEstimator:
    """Give confidence and closed-book answer by question, or raise."""

    def __init__(
        self,
        values: Mapping[str, float] | None = None,
        *,
        answers: Mapping[str, str] | None = None,
        default: float = 0.0,
        error: Exception | None = None,
    ) -> None:
        self._values = dict(values or {})
        self._answers = dict(answers or {})
        self._default = default
        self._error = error
        self._lock = threading.Lock()
        self.calls = 0

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="fake")

    def estimate(self, question: str) -> Confidence:
        with self._lock:
            self.calls += 1
        if self._error is not None:
            raise self._error
        return Confidence(
            self._values.get(question, self._default), self._answers.get(question, "an answer")
        )

    async def aestimate(self, question: str) -> Confidence:
        return self.estimate(question)


class FailingLanguageModel(ScriptedLanguageModel):
    """Fail after so many generations; what a failing call still gives comes along in its error."""

    def __init__(self, *script: Any, fails_after: int, **options: Any) -> None:
        super().__init__(*script, **options)
        self._fails_after = fails_after

    def generate(self, prompts: Sequence[str], **options: Any) -> list[list[Generation]]:
        before, n = self.generated, options.get("n", 1)
        rows = super().generate(prompts, **options)
        given = max(0, min(n * len(prompts), self._fails_after - before))
        self.generated = before + given
        if given == n * len(prompts):
            return rows
        error = LanguageModelError("the script ends here")
        rows = [row[: max(0, given - at * n)] for at, row in enumerate(rows)]
        if len(rows) == 1 and not rows[0]:
            raise error
        short = [error if len(row) < n else None for row in rows]
        raise PartialGenerationsError(str(error), rows, short)


class ScriptedAnswerability(AnswerabilityVeto):
    """Give the scripted verdict, slowly, or raise; note calls and the passages seen."""

    fingerprint = Fingerprint(kind="fake")

    def __init__(
        self,
        verdicts: Mapping[str, Answerability] | None = None,
        *,
        error: BaseException | None = None,
        seconds: float = 0.0,
    ) -> None:
        self._verdicts, self._error, self._seconds = dict(verdicts or {}), error, seconds
        self.calls, self.seen = 0, list[tuple[str, ...]]()

    def detect(self, question: str, passages: Sequence[str]) -> Answerability:
        time.sleep(self._seconds)
        return self._verdict(question, passages)

    async def adetect(self, question: str, passages: Sequence[str]) -> Answerability:
        await asyncio.sleep(self._seconds)
        return self._verdict(question, passages)

    def _verdict(self, question: str, passages: Sequence[str]) -> Answerability:
        self.calls += 1
        self.seen.append(tuple(passages))
        if self._error is not None:
            raise self._error
        return self._verdicts.get(question, Answerability(Premise.UNDECIDED))


class FakeSetScorer(FakeScorer):
    """Judge passages together by the sum of their scores, but for questions with a fragment."""

    def __init__(self, *scores: Any, unsupported: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*scores, **more)
        self._unsupported = tuple(unsupported)

    def supports(self, question: str) -> bool:
        return not any(fragment in question for fragment in self._unsupported)

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        return self.score_sets([question], [passages])[0]

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        scores = iter(self.score_pairs([("", text) for texts in passages for text in texts]))
        found = [tuple(float(next(scores)) for _ in texts) for texts in passages]
        return [SetScore(one, sum(one)) for one in found]


class SlowScorer(FakeScorer):
    """Give zeros after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
        time.sleep(self._seconds)
        return super().score_pairs(pairs)


class FailingScorer(FakeScorer):
    """Raise an error, whose message stands for text that must not be logged."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
        raise self._error
