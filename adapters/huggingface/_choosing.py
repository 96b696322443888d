"""How the next token is chosen: greedy, sampled, or from two contrasted streams.

A chooser maps logits of shape (streams · rows, vocabulary) to one token per row and
its natural-log probability under the model at temperature 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch


class Chooser(Protocol):
    """Chooses one token per row."""

    def __call__(
        self, logits: torch.Tensor, rows: Sequence[int], step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and their log-probabilities, each of shape (rows,).

        Args:
            logits: of shape (streams · len(rows), vocabulary), at least float32.
            rows: the answer that each row belongs to.
            step: tokens generated so far.
        """
        ...


def log_probabilities(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Natural-log probability of one token per row, of shape (rows,)."""
    chosen = logits.gather(-1, tokens[:, None])[:, 0]
    return chosen - logits.logsumexp(-1)


def choose_greedily(
    logits: torch.Tensor, rows: Sequence[int], step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest token of each row; the lowest id among equals."""
    tokens = logits.argmax(-1)
    return tokens, log_probabilities(logits, tokens)


def row_uniforms(seed: int, prompt: str, occurrence: int, count: int) -> np.ndarray:
    """`count` uniform numbers in [0, 1) that belong to one sample of one prompt.

    They depend on nothing else: not on the other prompts, on how a batch is cut or
    on the device, and drawing them touches no global random state.

    Args:
        seed: the caller's seed plus the number of the sample.
        prompt: the prompt's text.
        occurrence: 0 for the first time this prompt stands in the call, then 1, …
        count: numbers wanted.
    """
    name = f"{seed}:{occurrence}:{prompt}".encode()
    key = int.from_bytes(hashlib.sha256(name).digest()[:16], "big")
    return np.random.Generator(np.random.Philox(key=key)).random(count)


class SamplingChooser:
    """Draws each row's token by inverting its distribution at that row's own uniform number.

    Args:
        temperature: above 0; divides the logits.
        uniforms: of shape (answers, tokens), in [0, 1).
        device: where the logits are.
    """

    def __init__(self, temperature: float, uniforms: np.ndarray, device: torch.device) -> None:
        import torch

        # Sums of many small probabilities need double precision, which mps lacks.
        self._precision = torch.float32 if device.type == "mps" else torch.float64
        self._temperature = temperature
        self._uniforms = torch.as_tensor(uniforms).to(self._precision).to(device)

    def __call__(
        self, logits: torch.Tensor, rows: Sequence[int], step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Chooser`."""
        import torch

        scaled = logits.to(self._precision) / self._temperature
        cumulative = scaled.softmax(-1).cumsum(-1)
        index = torch.as_tensor(rows, device=self._uniforms.device)
        target = self._uniforms[index, step] * cumulative[:, -1]
        # right=True: the first token whose cumulated probability exceeds the target,
        # so that one of probability 0 is never drawn.
        tokens = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0]
        tokens = tokens.clamp_(max=logits.shape[-1] - 1)
        return tokens, log_probabilities(logits, tokens)


class ContrastiveChooser:
    """Greedy on the scores that a merging rule makes of the two streams.

    Args:
        merge: maps logits with and without context, each (rows, vocabulary), to scores.
    """

    def __init__(self, merge: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        self._merge = merge

    def __call__(
        self, logits: torch.Tensor, rows: Sequence[int], step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Chooser`; the log-probabilities are those of the stream with context."""
        with_context, without_context = logits.chunk(2)
        tokens = self._merge(with_context, without_context).argmax(-1)
        return tokens, log_probabilities(with_context, tokens)
