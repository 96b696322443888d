"""Reading the prompts: one forward pass over all of them, or one per stream.

The streams of contrastive decoding differ in length by a whole context. Padding the
short prompts to the long ones would double the work, so each stream is read on its own
and the caches are put together afterwards: from then on all streams are one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._encoding import pad_left

if TYPE_CHECKING:
    import torch

    from ._decoding import Network


@dataclass(slots=True)
class Prefilled:
    """Prompts that a model has read.

    Attributes:
        cache: keys and values of every prompt token.
        logits: after the last token, of shape (rows, vocabulary), at least float32.
        mask: of shape (rows, longest prompt), 0 on padding.
        lengths: tokens of each prompt, of shape (rows,).
    """

    cache: Any
    logits: torch.Tensor
    mask: torch.Tensor
    lengths: torch.Tensor


def exact_logits(logits: torch.Tensor) -> torch.Tensor:
    """Logits in at least float32, in which log-probabilities are taken."""
    import torch

    return logits if logits.dtype == torch.float64 else logits.float()


def read_prompts(network: Network, prompts: Sequence[Sequence[int]]) -> Prefilled:
    """Read prompts of one stream in one pass, padded on the left."""
    import torch

    ids, mask = pad_left(prompts, network.device)
    positions = (mask.cumsum(-1) - 1).clamp_(min=0)
    output = network.forward(ids, mask, positions)
    with torch.inference_mode():
        logits = exact_logits(output.logits[:, -1])
        return Prefilled(output.past_key_values, logits, mask, mask.sum(-1))


def read_streams(network: Network, streams: Sequence[Sequence[Sequence[int]]]) -> Prefilled:
    """Read all streams; rows are those of the first stream, then those of the second."""
    if len(streams) == 1:
        return read_prompts(network, streams[0])
    first = read_prompts(network, streams[0])
    if not _can_join(first.cache):
        return read_prompts(network, [prompt for stream in streams for prompt in stream])
    return _join([first, *(read_prompts(network, stream) for stream in streams[1:])])


def _can_join(cache: Any) -> bool:
    """True when every layer keeps all keys and values, whatever their age.

    Sliding windows and recurrent states count tokens in their own ways; such models
    read all streams as one padded batch.
    """
    from transformers.cache_utils import DynamicLayer

    layers: Sequence[Any] = getattr(cache, "layers", ())
    return len(layers) > 0 and all(type(layer) is DynamicLayer for layer in layers)


def _join(parts: Sequence[Prefilled]) -> Prefilled:
    """Put read streams together as one batch, shorter ones padded on the left."""
    import torch

    longest = max(part.mask.shape[1] for part in parts)
    with torch.inference_mode():
        masks = [_pad(part.mask[:, :, None], longest)[:, :, 0] for part in parts]
        cache = parts[0].cache
        for number, layer in enumerate(cache.layers):
            twins = [part.cache.layers[number] for part in parts]
            layer.keys = torch.cat([_pad(twin.keys, longest) for twin in twins])
            layer.values = torch.cat([_pad(twin.values, longest) for twin in twins])
        return Prefilled(
            cache,
            torch.cat([part.logits for part in parts]),
            torch.cat(masks),
            torch.cat([part.lengths for part in parts]),
        )


def _pad(tensor: torch.Tensor, length: int) -> torch.Tensor:
    """Zeros in front along the last but one axis, up to `length`."""
    import torch

    return torch.nn.functional.pad(tensor, (0, 0, length - tensor.shape[-2], 0))
