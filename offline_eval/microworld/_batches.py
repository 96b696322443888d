"""Training rows as token tensors. Imported lazily: it needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ._tasks import Row

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEXT, ANSWER, PADDING = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded rows.

    Attributes:
        tokens: ids, shape (rows, length).
        roles: TEXT, ANSWER or PADDING for each token, same shape.
    """

    tokens: torch.Tensor
    roles: torch.Tensor


def encode_rows(rows: Sequence[Row], tokenizer: Tokenizer, *, window: int, pad: int) -> Batch:
    """Encode rows part by part and pad them to the longest; longer than `window` is cut.

    Parts may be encoded alone because no token spans the boundary between two of them.
    """
    parts = [text for row in rows for text, _ in row.parts]
    encoded = iter(tokenizer.encode_batch(parts, add_special_tokens=False))
    ids: list[list[int]] = []
    roles: list[list[int]] = []
    for row in rows:
        row_ids: list[int] = []
        row_roles: list[int] = []
        for _, is_answer in row.parts:
            part = next(encoded).ids
            row_ids += part
            row_roles += [ANSWER if is_answer else TEXT] * len(part)
        ids.append(row_ids[:window])
        roles.append(row_roles[:window])
    length = max(len(row_ids) for row_ids in ids)
    return Batch(
        torch.tensor([row + [pad] * (length - len(row)) for row in ids]),
        torch.tensor([row + [PADDING] * (length - len(row)) for row in roles]),
    )
