"""The training loop, shared by the bundled scorer's making and by tuning on one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...guard._optional_imports import optional_import
from ._objective import SetObjective, learning_rate, similarities
from ._topic_batches import TopicBatches
from ._trainable_encoder import MAX_PASSAGE_PIECES, MAX_QUESTION_PIECES, TrainableEncoder

_CLIP = 1.0


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long and how fast.

    Attributes:
        steps: batches.
        rate: peak learning rate of the adapter.
        mix_rate: peak learning rate of the objective's own seven numbers.
        warm_up: steps of the rise.
        length_penalty: of the match features.
    """

    steps: int
    rate: float = 3e-4
    mix_rate: float = 2e-2
    warm_up: int = 60
    length_penalty: float = 0.06


def train_adapter(
    encoder: TrainableEncoder,
    batches: TopicBatches,
    idf: NDArray[np.float32],
    settings: TrainingSettings,
    on_step: Callable[[int, float], bool] | None = None,
) -> int:
    """Train the encoder's adapter in place.

    Args:
        encoder: whose adapter is trained.
        batches: what on.
        idf: weight per word-piece id.
        settings: how.
        on_step: called after each step with its number (from 1) and loss; training
            stops early when it returns True.

    Returns:
        Steps taken.
    """
    torch: Any = optional_import("torch")
    objective = SetObjective()
    table = torch.from_numpy(np.array(idf, dtype=np.float32))
    groups = [
        {"params": encoder.parameters(), "peak": settings.rate, "weight_decay": 0.01},
        {"params": objective.parameters(), "peak": settings.mix_rate, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.rate)
    trained = [*encoder.parameters(), *objective.parameters()]
    for step in range(settings.steps):
        share = learning_rate(step, settings.steps, settings.warm_up)
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * share
        batch = batches.draw()
        asked = encoder.encode(batch.questions, MAX_QUESTION_PIECES)
        told = encoder.encode(batch.passages, MAX_PASSAGE_PIECES)
        found = similarities(asked, told, table, settings.length_penalty)
        loss: Any = objective.loss(found, torch.from_numpy(batch.unusable))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, _CLIP)
        optimizer.step()
        if on_step is not None and on_step(step + 1, float(loss.detach())):
            return step + 1
    return settings.steps
