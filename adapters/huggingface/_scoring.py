"""Likelihoods of given continuations, and hidden states: one pass, no decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...guard.errors import InputError, PromptTooLongError
from ._decoding import Network, Prefilled, exact_logits, read_prompts, run_in_batches
from ._encoding import PromptEncoder, RenderedPrompt, check_text, pad_left

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


def option_scores(
    network: Network,
    encoder: PromptEncoder,
    prompts: Sequence[RenderedPrompt],
    options: Sequence[str],
    batch_size: int,
) -> NDArray[np.float64]:
    """Log-likelihood of every option after every prompt, shape (prompts, options).

    Args:
        network: the model.
        encoder: its prompts.
        prompts: each prefilled once.
        options: the same for every prompt.
        batch_size: rows computed at one time.

    Raises:
        InputError: no options, or one that gives no tokens.
        PromptTooLongError: a prompt and an option do not fit the context window.
    """
    if isinstance(options, str) or not options:
        raise InputError("is no list of strings", where="options", hint="give at least one")
    ids = encoder.encode(prompts)
    tails = [
        [_option_ids(encoder, number, prompt, ids[number], option) for option in options]
        for number, prompt in enumerate(prompts)
    ]

    def work(numbers: Sequence[int]) -> list[list[float]]:
        pairs = [(at, tail) for at, number in enumerate(numbers) for tail in tails[number]]
        rows = continuation_logprobs(network, [ids[number] for number in numbers], pairs)
        sums = [sum(row) for row in rows]
        width = len(options)
        return [sums[at * width : (at + 1) * width] for at in range(len(numbers))]

    size = max(1, batch_size // len(options))
    scores = run_in_batches(range(len(ids)), size, work, what=str(network.device))
    return np.array(scores, dtype=np.float64).reshape(len(ids), len(options))


def _option_ids(
    encoder: PromptEncoder, number: int, prompt: RenderedPrompt, ids: list[int], option: str
) -> list[int]:
    check_text(option, "an option")
    tail = encoder.continuation(prompt, ids, option)
    if not tail:
        raise InputError("holds one without tokens", where="options", hint="remove it")
    if encoder.window and len(ids) + len(tail) > encoder.window:
        raise PromptTooLongError(
            f"prompt {number} and an option have {len(ids) + len(tail)} tokens; "
            f"the context window holds {encoder.window}"
        )
    return tail


def continuation_logprobs(
    network: Network,
    prompts: Sequence[Sequence[int]],
    continuations: Sequence[tuple[int, Sequence[int]]],
) -> list[list[float]]:
    """Natural-log probability of every token of every continuation.

    Each prompt is prefilled once, however many continuations it has.

    Args:
        network: the model.
        prompts: token ids.
        continuations: pairs of a prompt's number and the token ids that follow it.

    Returns:
        One list per continuation, as long as the continuation.
    """
    import torch

    with torch.inference_mode():
        logits = _continuation_logits(network, prompts, continuations)
        longest = logits.shape[1]
        targets = torch.zeros(len(continuations), longest, dtype=torch.long)
        for row, (_, tokens) in enumerate(continuations):
            targets[row, : len(tokens)] = torch.tensor(list(tokens), dtype=torch.long)
        chosen = logits.gather(-1, targets.to(logits.device)[..., None])[..., 0]
        values = (chosen - logits.logsumexp(-1)).tolist()
    return [row[: len(tokens)] for row, (_, tokens) in zip(values, continuations, strict=True)]


def likeliest_tokens(
    network: Network, prompt: Sequence[int], continuation: Sequence[int], count: int
) -> list[list[tuple[int, float]]]:
    """The likeliest tokens at each place of a continuation, with their log-probabilities.

    Args:
        network: the model.
        prompt: token ids.
        continuation: the token ids that follow it.
        count: tokens for each place, the likeliest first.
    """
    import torch

    with torch.inference_mode():
        logits = _continuation_logits(network, [prompt], [(0, continuation)])[0]
        found = logits.log_softmax(-1).topk(min(count, logits.shape[-1]))
        rows = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return [list(zip(ids, values, strict=True)) for ids, values in rows]


def _continuation_logits(
    network: Network,
    prompts: Sequence[Sequence[int]],
    continuations: Sequence[tuple[int, Sequence[int]]],
) -> torch.Tensor:
    """Logits at every place of every continuation, shape (continuations, longest, vocabulary)."""
    import torch

    read = read_prompts(network, prompts)
    with torch.inference_mode():
        owners = torch.tensor([owner for owner, _ in continuations], device=network.device)
        logits = read.logits[owners, None]
        if max(len(tokens) for _, tokens in continuations) > 1:
            logits = torch.cat([logits, _later_logits(network, read, owners, continuations)], dim=1)
    return logits


def _later_logits(
    network: Network,
    read: Prefilled,
    owners: torch.Tensor,
    continuations: Sequence[tuple[int, Sequence[int]]],
) -> torch.Tensor:
    """Logits after every continuation token but the last, right-padded, on the prompts' cache."""
    import torch

    width = max(len(tokens) for _, tokens in continuations) - 1
    fed = torch.zeros(len(continuations), width, dtype=torch.long)
    fed_mask = torch.zeros_like(fed)
    for row, (_, tokens) in enumerate(continuations):
        kept = list(tokens)[:-1]
        fed[row, : len(kept)] = torch.tensor(kept, dtype=torch.long)
        fed_mask[row, : len(kept)] = 1
    network.select(read.cache, owners)
    steps = torch.arange(width, device=network.device)
    output = network.forward(
        fed.to(network.device),
        torch.cat([read.mask[owners], fed_mask.to(network.device)], dim=-1),
        read.lengths[owners, None] + steps,
        cache=read.cache,
        every_token=True,
    )
    return exact_logits(output.logits)


def last_hidden_states(
    network: Network, prompts: Sequence[Sequence[int]], layer: int
) -> list[NDArray[np.float32]]:
    """The hidden state of each prompt's last token after `layer` layers, shape (width,)."""
    import torch

    ids, mask = pad_left(prompts, network.device)
    positions = (mask.cumsum(-1) - 1).clamp_(min=0)
    output = network.forward(ids, mask, positions, hidden=True)
    with torch.inference_mode():
        rows: NDArray[np.float32] = output.hidden_states[layer][:, -1].float().cpu().numpy()
    return list(rows)
