"""Contrastive decoding by `model.generate`, to compare our own decoding with."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LogitsProcessor

from knowgate.adapters.huggingface._contrastive import merging_rule


class PairedProcessor(LogitsProcessor):  # type: ignore[misc,unused-ignore]
    """Replaces both halves of a doubled batch by their merged scores."""

    def __init__(self, method: str, lam: float = 0.25) -> None:
        self._merge = merging_rule(method, 1.0, lam)

    def __call__(self, input_ids: Any, scores: torch.Tensor) -> torch.Tensor:
        merged = self._merge(*scores.chunk(2))
        return torch.cat([merged, merged])
