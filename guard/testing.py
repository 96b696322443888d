"""Fakes: parts of a guard with scripted behaviour that match the same protocols.

knowgate's own tests use them, and tests of an application that contains a guard can
use them: no patching, no network, no model.

Example:
    >>> from knowgate.guard import Guard, Policy
    >>> scorer = FakeScorer({"opening hours": 0.9}, default=0.1)
    >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    >>> guard = Guard(policy, scorer=scorer, metrics=False)
    >>> guard.decide("When?", ["Our opening hours are nine to five."]).route.value
    'follow_context'
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .contracts import (
    Generation,
    RelevanceScorer,
)
from .fingerprint import Fingerprint

__all__ = [
    "FakeScorer",
    "ScriptedLanguageModel",
]


class ScriptedLanguageModel:
    """Answers by the first scripted fragment that the prompt contains.

    A scripted answer is one string (always said), or several: the first is the
    greedy answer, and samples are drawn from all of them with equal chance.

    Args:
        script: fragment of a prompt → answer or answers.
        default: answer to all other prompts.
        error: raised instead, where given.
        logprobs: answer → its natural-log probability, given as that of one token;
            answers that are not in it come without.

    Attributes:
        calls: how often it was asked.
        generated: how many generations it gave altogether.
        prompts: every prompt it was given, in order.
    """

    def __init__(
        self,
        script: Mapping[str, str | Sequence[str]] | None = None,
        *,
        default: str = "I don't know",
        error: Exception | None = None,
        logprobs: Mapping[str, float] | None = None,
    ) -> None:
        self._script = {
            fragment: (said,) if isinstance(said, str) else tuple(said)
            for fragment, said in (script or {}).items()
        }
        self._default = (default,)
        self._error = error
        self._logprobs = dict(logprobs or {})
        self._lock = threading.Lock()
        self.calls = 0
        self.generated = 0
        self.prompts: list[str] = []

    @property
    def fingerprint(self) -> str:
        """Always `scripted`."""
        return "scripted"

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """Scripted answers; the k-th depends on the prompt and on `seed` + k."""
        with self._lock:
            self.calls += 1
            self.generated += n * len(prompts)
            self.prompts.extend(prompts)
        if self._error is not None:
            raise self._error
        return [self._answers(prompt, n, temperature, seed) for prompt in prompts]

    async def agenerate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """As `generate`."""
        return self.generate(prompts, n=n, temperature=temperature, seed=seed)

    def _answers(
        self, prompt: str, n: int, temperature: float, seed: int | None
    ) -> list[Generation]:
        said = next((s for f, s in self._script.items() if f in prompt), self._default)
        if temperature == 0.0:
            return [self._generation(said[0])] * n
        if seed is None:
            dice = [random.Random(f"None {prompt}")] * n  # noqa: S311 - a test's dice
        else:
            dice = [random.Random(f"{seed + k} {prompt}") for k in range(n)]  # noqa: S311
        return [self._generation(die.choice(said)) for die in dice]

    def _generation(self, text: str) -> Generation:
        logprob = self._logprobs.get(text)
        return Generation(text, None if logprob is None else (logprob,))


class FakeScorer(RelevanceScorer):
    """Scores a passage by the first scripted fragment it contains.

    Args:
        scores: fragment → score for passages that contain it.
        default: score of all other passages; may be NaN, to test failures.

    Attributes:
        calls: how often it was asked to score.
    """

    def __init__(self, scores: Mapping[str, float] | None = None, *, default: float = 0.0) -> None:
        self._scores = dict(scores or {})
        self._default = default
        self._lock = threading.Lock()
        self.calls = 0

    @property
    def fingerprint(self) -> Fingerprint:
        """A fingerprint of its own kind."""
        return Fingerprint(kind="fake")

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Scripted scores of shape (len(pairs),)."""
        with self._lock:
            self.calls += 1
        return np.asarray([self._one(passage) for _, passage in pairs], dtype=np.float64)

    def _one(self, passage: str) -> float:
        for fragment, score in self._scores.items():
            if fragment in passage:
                return score
        return self._default
