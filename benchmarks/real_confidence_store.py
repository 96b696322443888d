"""A language model whose draws are stored, so that a killed run resumes and repeats none.

Every estimator sees the same draws: the k-th sample of a prompt depends on the prompt and on
seed + k only. Times are taken from the bare model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import Generation

LAYERS = (8, 15, 20, 25, 30)


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


class StoredLM:
    """`lm`, with all that it returns kept in a file of JSON lines.

    Args:
        lm: asked for what is not there yet.
        file: appended to; its lines must come from the same model.
        rows: how many rows of generation one call may hold.
    """

    def __init__(self, lm: HuggingFaceLM, file: Path, rows: int = 80) -> None:
        self._lm, self._file, self._rows = lm, file, rows
        self.name, self.batch_size, self.max_new_tokens = lm.name, lm.batch_size, lm.max_new_tokens
        self.device = lm.device
        self._known: dict[str, Any] = {}
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):
                    row = json.loads(line)
                    self._known[row["key"]] = row["value"]

    @property
    def fingerprint(self) -> str:
        """That of the model."""
        return self._lm.fingerprint

    def _keep(self, values: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as output:
            for key, value in values.items():
                output.write(json.dumps({"key": key, "value": value}) + "\n")
        self._known |= values

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """As the model's own, seeds of greedy answers left out of account."""
        first = 0 if temperature == 0 or seed is None else seed
        count = 1 if temperature == 0 else n
        keys = [[_key(text, temperature, first + k) for k in range(count)] for text in prompts]
        missing = {
            text: row
            for text, row in zip(prompts, keys, strict=True)
            if any(key not in self._known for key in row)
        }
        left, step = list(missing), max(1, self._rows // count)
        for start in range(0, len(left), step):
            texts = left[start : start + step]
            drawn = self._lm.generate(texts, n=count, temperature=temperature, seed=first)
            self._keep(
                {
                    key: [made.text, [round(value, 6) for value in made.token_logprobs or ()]]
                    for text, row in zip(texts, drawn, strict=True)
                    for key, made in zip(missing[text], row, strict=True)
                }
            )
        found = [
            [Generation(self._known[key][0], tuple(self._known[key][1])) for key in row]
            for row in keys
        ]
        return [row * n for row in found] if temperature == 0 else found

    async def agenerate(self, prompts: Sequence[str], **options: Any) -> list[list[Generation]]:
        """As `generate`."""
        return self.generate(prompts, **options)

    def score_options(self, prompts: Sequence[str], options: Sequence[str]) -> Any:
        """As the model's own."""
        keys = [_key("score", text, *options) for text in prompts]
        left = [(key, text) for key, text in zip(keys, prompts, strict=True)]
        left = [(key, text) for key, text in left if key not in self._known]
        for start in range(0, len(left), self._rows):
            part = left[start : start + self._rows]
            scores = self._lm.score_options([text for _, text in part], options)
            self._keep({key: row.tolist() for (key, _), row in zip(part, scores, strict=True)})
        return np.array([self._known[key] for key in keys])

    def hidden_states(self, prompts: Sequence[str], layer: int) -> Any:
        """As the model's own; one pass reads all of `LAYERS`, which are those to ask for."""
        left = [text for text in prompts if _key("state", text, layer) not in self._known]
        for start in range(0, len(left), self._rows):
            part = left[start : start + self._rows]
            output = self._passed(part)
            self._keep(
                {
                    _key("state", text, number): [
                        round(float(value), 5) for value in output[number][at, -1]
                    ]
                    for number in LAYERS
                    for at, text in enumerate(part)
                }
            )
        rows = [self._known[_key("state", text, layer)] for text in prompts]
        return np.array(rows, dtype=np.float32)

    def _passed(self, prompts: Sequence[str]) -> Any:
        """Hidden states by layer, each of shape (prompts, tokens, width), padded on the left."""
        engine = self._lm.engine
        rows = engine.encoder.encode([engine.encoder.render(text) for text in prompts])
        longest = max(map(len, rows))
        ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
        positions = (mask.cumsum(-1) - 1).clamp_(min=0)
        return engine.network.forward(ids, mask, positions, hidden=True).hidden_states
