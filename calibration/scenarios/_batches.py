"""Batches of rows alike in length, in an order that the seed decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from ...guard._optional_imports import optional_import
from ._target_tokens import TokenRow

if TYPE_CHECKING:
    import torch

# Rows are sorted by length within this many batches: wider saves padding, narrower mixes more.
_SORTED_TOGETHER = 8


def shuffled_batches(lengths: Sequence[int], size: int, seed: str) -> list[list[int]]:
    """Every row's number once, in batches of `size`; the last one made may be smaller.

    Args:
        lengths: tokens of each row.
        size: rows per batch.
        seed: decides which rows meet and in which order the batches come.
    """
    rng = Random(seed)  # noqa: S311 - no secret
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches: list[list[int]] = []
    for start in range(0, len(order), size * _SORTED_TOGETHER):
        window = sorted(order[start : start + size * _SORTED_TOGETHER], key=lambda at: lengths[at])
        batches += [window[at : at + size] for at in range(0, len(window), size)]
    rng.shuffle(batches)
    return batches


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Rows padded on the left, so that all replies end together.

    Attributes:
        ids: of shape (rows, longest).
        mask: 1 on tokens, 0 on padding, same shape.
        targets: of shape (rows, longest reply), True on a reply's tokens.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    targets: torch.Tensor


def pad_rows(rows: Sequence[TokenRow], device: torch.device) -> TokenBatch:
    """Token rows as tensors on `device`."""
    library = optional_import("torch")
    longest = max(len(row.ids) for row in rows)
    replies = max(row.targets for row in rows)
    ids = library.zeros(len(rows), longest, dtype=library.long)
    mask = library.zeros(len(rows), longest, dtype=library.long)
    targets = library.zeros(len(rows), replies, dtype=library.bool)
    for number, row in enumerate(rows):
        ids[number, longest - len(row.ids) :] = library.tensor(row.ids)
        mask[number, longest - len(row.ids) :] = 1
        targets[number, replies - row.targets :] = True
    return TokenBatch(ids.to(device), mask.to(device), targets.to(device))
