"""A language model that says what a script tells it to."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence

from .._contracts import Generation


class ScriptedLanguageModel:
    """Answers by the first scripted fragment that the prompt contains.

    A scripted answer is one string (always said), or several: the first is the
    greedy answer, and samples are drawn from all of them with equal chance.

    Args:
        script: fragment of a prompt → answer or answers.
        default: answer to all other prompts.
        error: raised instead, where given.

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
    ) -> None:
        self._script = {
            fragment: (said,) if isinstance(said, str) else tuple(said)
            for fragment, said in (script or {}).items()
        }
        self._default = (default,)
        self._error = error
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
        """Scripted answers; the same seed draws the same samples."""
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
            return [Generation(said[0])] * n
        draw = random.Random(f"{seed} {prompt}")  # noqa: S311 - a test's dice
        return [Generation(draw.choice(said)) for _ in range(n)]
