"""What training lowers: ranking within a topic, and telling answered from unanswered sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...guard._optional_imports import optional_import
from ._trainable_encoder import Encoded

if TYPE_CHECKING:
    from torch import Tensor

_SPECIAL_PIECES = (0, 101, 102)
_OUT = -1e4
# Passages of one retrieved set: the sufficient one and four others, or five others.
_SET = 5
_FLOOR = -50.0


def similarities(
    questions: Encoded, passages: Encoded, idf: Tensor, length_penalty: float
) -> Tensor:
    """Cosine, IDF match, match and coverage of every question with every passage.

    Returns:
        Shape (questions, passages, 4), the features of the trained scorer.
    """
    torch: Any = optional_import("torch")
    functional = torch.nn.functional

    def mean(encoded: Encoded) -> Any:
        return functional.normalize((encoded.vectors * encoded.mask[..., None]).sum(1), dim=-1)

    cosine = mean(questions) @ mean(passages).T
    asked = functional.normalize(questions.vectors, dim=-1)
    told = functional.normalize(passages.vectors, dim=-1)
    pairs = torch.einsum("aid,bjd->abij", asked, told)
    best = pairs.masked_fill(~passages.mask[None, :, None, :], -1.0).amax(3)
    special = torch.tensor(_SPECIAL_PIECES)
    content = (questions.mask & ~torch.isin(questions.ids, special)).float()
    weights = idf[questions.ids] * content
    weights = weights / weights.sum(1, keepdim=True).clamp_min(1e-6)
    plain = content / content.sum(1, keepdim=True).clamp_min(1.0)
    same = questions.ids[:, None, :, None] == passages.ids[None, :, None, :]
    exact = (same & passages.mask[None, :, None, :]).any(3).float()
    penalty = length_penalty * torch.log(passages.mask.sum(1).float() / 100.0)
    matched = [(best * weights[:, None]).sum(2), (best * plain[:, None]).sum(2)]
    matched.append((exact * weights[:, None]).sum(2))
    found: Tensor = torch.stack([cosine, *[one - penalty for one in matched]], dim=-1)
    return found


class SetObjective:
    """InfoNCE within the batch, and cross-entropy of sets with and without the passage.

    Ranking alone says nothing of questions that no passage answers. So the best score
    and its margin over the rest, in a set with the sufficient passage and in one
    without it, go through a logistic unit of their own.

    Source of the ranking loss: van den Oord et al. 2018, InfoNCE.
    """

    def __init__(self) -> None:
        torch: Any = optional_import("torch")
        self._torch = torch
        self.mix = torch.nn.Parameter(torch.tensor([10.0, 5.0, 5.0, 1.0]))
        self.unit = torch.nn.Parameter(torch.tensor([0.25, 0.25, -3.0]))

    def parameters(self) -> list[Any]:
        """What is trained beside the adapter."""
        return [self.mix, self.unit]

    def loss(self, similarity: Tensor, unusable: Tensor) -> Tensor:
        """The mean loss of a batch; passage i suffices for question i."""
        torch = self._torch
        functional = torch.nn.functional
        scores = (similarity * self.mix).sum(-1).masked_fill(unusable, _OUT)
        n = scores.shape[0]
        own = torch.arange(n)
        ranking = functional.cross_entropy(scores, own)
        others = scores.clone()
        others[own, own] = _OUT
        best = others.topk(min(_SET, others.shape[1]), dim=1).values.clamp_min(_FLOOR)
        answered = torch.cat([scores[own, own][:, None], best[:, : _SET - 1]], dim=1)
        answered = answered.sort(dim=1, descending=True).values
        logits = torch.cat([self._logit(answered), self._logit(best)])
        labels = torch.cat([torch.ones(n), torch.zeros(n)])
        total: Tensor = ranking + functional.binary_cross_entropy_with_logits(logits, labels)
        return total

    def _logit(self, ordered: Any) -> Any:
        top = ordered[:, 0]
        # A batch of one question against its own passage alone has no rest.
        rest = ordered[:, 1:].mean(1) if ordered.shape[1] > 1 else top
        return self.unit[0] * top + self.unit[1] * (top - rest) + self.unit[2]


def learning_rate(step: int, steps: int, warm_up: int) -> float:
    """Share of the full rate: a linear rise, then half a cosine down to 2 %."""
    rise = min(1.0, (step + 1) / max(1, warm_up))
    return rise * max(0.02, 0.5 * (1.0 + math.cos(math.pi * step / max(1, steps))))
