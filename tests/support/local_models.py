"""Scripted language models that can do what only local ones can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowgate.guard import InputError
from knowgate.guard.testing import ScriptedLanguageModel


class ScoringLM(ScriptedLanguageModel):
    """Scores every prompt's options by one table; what is not in it has -inf."""

    def __init__(self, scores: Mapping[str, float], **settings: Any) -> None:
        super().__init__(**settings)
        self._scores = scores
        self.scored: list[str] = []

    def score_options(self, prompts: Sequence[str], options: Sequence[str]) -> NDArray[np.float64]:
        self.scored.extend(prompts)
        row = [self._scores.get(option, -np.inf) for option in options]
        return np.asarray([row] * len(prompts), dtype=np.float64)


class StatefulLM(ScriptedLanguageModel):
    """Hidden states of three layers; the second shows a number that the prompt ends with."""

    layers, width = 3, 5
    name = "stateful"

    @property
    def fingerprint(self) -> str:
        return self.name

    def hidden_states(self, prompts: Sequence[str], layer: int) -> NDArray[np.float32]:
        if not 0 <= layer <= self.layers:
            raise InputError("is out of range", where="layer")
        rows = []
        for prompt in prompts:
            noise = np.random.default_rng([layer, *prompt.encode()]).normal(size=self.width)
            shown = float(prompt.split("#")[1].split()[0]) if layer == 2 else 0.0
            noise[3] = noise[3] * 0.1 + shown
            rows.append(noise)
        return np.asarray(rows, dtype=np.float32).reshape(len(prompts), self.width)
