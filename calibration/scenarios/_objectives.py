"""What is made small: the loss on a reply's tokens, or the preference for one of two replies."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ...guard._optional_imports import optional_import
from ._batches import TokenBatch

if TYPE_CHECKING:
    from torch import Tensor


def reply_logprobs(model: Any, batch: TokenBatch) -> Tensor:
    """Natural-log probability of every reply token, 0 elsewhere; shape (rows, longest reply)."""
    torch = optional_import("torch")
    kept = batch.targets.shape[1] + 1
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    accepted = inspect.signature(inner.forward).parameters
    options: dict[str, Any] = {}
    if "position_ids" in accepted:
        options["position_ids"] = (batch.mask.cumsum(1) - 1).clamp_min(0)
    if "logits_to_keep" in accepted:
        # Logits only where there is a loss: most of the memory of a large vocabulary is saved.
        options["logits_to_keep"] = kept
    logits = model(
        input_ids=batch.ids, attention_mask=batch.mask, use_cache=False, **options
    ).logits[:, -kept:-1]
    wanted = batch.ids[:, 1 - kept :]
    found = torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), wanted.flatten(), reduction="none"
    ).view(wanted.shape)
    result: Tensor = -found.masked_fill(~batch.targets, 0.0)
    return result


def preference_loss(
    chosen: Tensor, rejected: Tensor, base_chosen: Tensor, base_rejected: Tensor, beta: float
) -> Tensor:
    """-log sigmoid(β·(Δpolicy − Δbase)) for every pair, Δ = chosen − rejected.

    Args:
        chosen: log-probabilities of the chosen replies, shape (pairs,).
        rejected: of the rejected ones.
        base_chosen: of the chosen ones under the base model.
        base_rejected: of the rejected ones under the base model.
        beta: β, above 0.

    Source: Rafailov et al. 2023, Direct Preference Optimization.
    """
    torch = optional_import("torch")
    margin = (chosen - rejected) - (base_chosen - base_rejected)
    loss: Tensor = -torch.nn.functional.logsigmoid(beta * margin)
    return loss
