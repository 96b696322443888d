"""Contrastive decoding by `model.generate`, to compare our own decoding with."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LogitsProcessor

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.adapters.huggingface._contrastive import merging_rule


class PairedProcessor(LogitsProcessor):  # type: ignore[misc,unused-ignore]
    """Replaces both halves of a doubled batch by their merged scores."""

    def __init__(self, method: str, lam: float = 0.25) -> None:
        self._merge = merging_rule(method, 1.0, lam)

    def __call__(self, input_ids: Any, scores: torch.Tensor) -> torch.Tensor:
        merged = self._merge(*scores.chunk(2))
        return torch.cat([merged, merged])


def contrastive_ids(
    lm: HuggingFaceLM, with_context: list[str], without_context: list[str], method: str = "coiecd"
) -> list[list[int]]:
    """Every token id of our own contrastive answers, an end token included."""
    contextual, bare = (
        [lm.engine.encoder.render(text) for text in side]
        for side in (with_context, without_context)
    )
    rule = (method, 1.0, 0.25)
    return [answer.ids for answer in lm.engine.contrast(contextual, bare, rule, lm.settings())]
