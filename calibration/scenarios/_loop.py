"""The loop: batches, gradients in parts, AdamW with a linear fall."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...guard import DeviceError
from ...guard._optional_imports import optional_import
from ._batches import shuffled_batches
from ._errors import TrainingDivergedError
from ._settings import ScenarioTrainingSettings

_CLIP = 1.0
# Loss of some examples as a tensor, to be divided by the second: their weight in a batch's mean.
PartLoss = Callable[[Sequence[int]], Any]
PartWeight = Callable[[Sequence[int]], float]


def learning_rate_share(step: int, steps: int, warm_up: float) -> float:
    """Share of the peak rate: a linear rise, then a linear fall towards 0.

    >>> [round(learning_rate_share(step, 4, 0.0), 2) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    rising = math.ceil(steps * warm_up)
    if step < rising:
        return (step + 1) / (rising + 1)
    return (steps - step) / max(1, steps - rising)


def run_epochs(
    model: Any,
    lengths: Sequence[int],
    loss_of: PartLoss,
    weight_of: PartWeight,
    settings: ScenarioTrainingSettings,
    *,
    seed: int,
    on_progress: Callable[[int, int], None] | None,
) -> list[float]:
    """Train the adapter in place; returns the mean loss of each epoch.

    Args:
        model: whose trainable parameters move.
        lengths: tokens of each example.
        loss_of: summed loss of the examples with these numbers.
        weight_of: what the sum over a batch is divided by.
        settings: how.
        seed: of the order.
        on_progress: called with steps done and steps in all.

    Raises:
        TrainingDivergedError: a loss or a gradient is NaN or infinite.
        DeviceError: a batch does not fit into memory.
    """
    torch = optional_import("torch")
    trained = [one for one in model.parameters() if one.requires_grad]
    optimiser = torch.optim.AdamW(
        trained, lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    steps = settings.epochs * math.ceil(len(lengths) / settings.batch_size)
    losses: list[float] = []
    done = 0
    for epoch in range(settings.epochs):
        total, weights = 0.0, 0.0
        for batch in shuffled_batches(lengths, settings.batch_size, f"order/{seed}/{epoch}"):
            share = learning_rate_share(done, steps, settings.warm_up)
            for group in optimiser.param_groups:
                group["lr"] = settings.learning_rate * share
            weight = weight_of(batch)
            loss = _back_propagate(batch, loss_of, weight, settings.rows_at_once)
            norm = torch.nn.utils.clip_grad_norm_(trained, _CLIP)
            if not (math.isfinite(loss) and bool(torch.isfinite(norm))):
                raise TrainingDivergedError(
                    f"the loss is no number any more at step {done + 1} of {steps} — "
                    "use a lower learning rate"
                )
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            total, weights, done = total + loss, weights + weight, done + 1
            if on_progress is not None:
                on_progress(done, steps)
        losses.append(total / weights)
    return losses


def _back_propagate(
    batch: Sequence[int], loss_of: PartLoss, weight: float, rows_at_once: int | None
) -> float:
    """Add a batch's gradients part by part; returns the summed loss."""
    torch = optional_import("torch")
    size = rows_at_once or len(batch)
    total = 0.0
    try:
        for start in range(0, len(batch), size):
            loss = loss_of(batch[start : start + size])
            (loss / weight).backward()
            total += float(loss.detach())
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"{size} examples do not fit into memory at one time — lower rows_at_once, "
            "or use quantise"
        ) from error
    return total
