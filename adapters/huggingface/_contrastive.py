"""Decoding against conflict: CAD and COIECD.

Both compare the next-token distribution with the context in the prompt (lc, natural
log) to the one without it (lu), and raise the tokens that the context makes likelier.
The two streams run as one batch of twice the rows: first all prompts with context,
then, in the same order, all prompts without.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...guard.errors import InputError, require_known

if TYPE_CHECKING:
    import torch


def cad_scores(
    with_context: torch.Tensor, without_context: torch.Tensor, *, alpha: float = 1.0
) -> torch.Tensor:
    """Context-aware decoding: (1 + α)·lc − α·lu.

    Args:
        with_context: logits of shape (rows, vocabulary).
        without_context: logits of the same shape.
        alpha: strength of the contrast, 0 or more; 0 is decoding with context.

    Returns:
        Scores of shape (rows, vocabulary); a token that is impossible with the
        context stays so, one that is impossible only without it keeps lc.

    Source: Shi et al. 2024, Trusting Your Evidence.
    """
    lc, lu = _log_pair(with_context, without_context)
    return _keep_impossible(lc, lc + alpha * (lc - lu))


def coiecd_scores(
    with_context: torch.Tensor,
    without_context: torch.Tensor,
    *,
    alpha: float = 1.0,
    lam: float = 0.25,
) -> torch.Tensor:
    """Contextual information-entropy constraint decoding.

    With H the entropy of exp(lu), the shift −lc − H is log-softmaxed over the
    vocabulary to S. Tokens with S below min S + log(1/λ) (the likely ones under the
    context) or above max S − log(1/λ) (the least likely ones) start from lc, all
    others from lu; α·(lc − lu) is added to every token. Where a single token lies
    below the lower bound, the lower bound constrains nothing, as in the authors'
    program: that token, too, then starts from lu.

    Args:
        with_context: logits of shape (rows, vocabulary).
        without_context: logits of the same shape.
        alpha: strength of the contrast, 0 or more.
        lam: λ in (0, 1]; the smaller, the wider the two bands.

    Returns:
        Scores of shape (rows, vocabulary); impossible tokens as in `cad_scores`.

    Source: Yuan et al. 2024, Discerning and Resolving Knowledge Conflicts through
    Adaptive Decoding with Contextual Information-Entropy Constraint.
    """
    lc, lu = _log_pair(with_context, without_context)
    entropy = -(lu * lu.exp()).nansum(-1, keepdim=True)
    possible = lc.isfinite()
    shift = (-lc - entropy).masked_fill(~possible, -math.inf).log_softmax(-1)
    width = math.log(1 / lam)
    highest = shift.amax(-1, keepdim=True)
    lowest = shift.masked_fill(~possible, math.inf).amin(-1, keepdim=True)
    below = shift < lowest + width
    below &= possible
    below &= below.sum(-1, keepdim=True) != 1
    constrained = below | (shift > highest - width)
    return _keep_impossible(lc, lc.where(constrained, lu) + alpha * (lc - lu))


def _log_pair(
    with_context: torch.Tensor,
    without_context: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both streams as log-probabilities, lu set to lc where only lu is impossible."""
    lc, lu = with_context.log_softmax(-1), without_context.log_softmax(-1)
    return lc, lc.where(lu == -math.inf, lu)


def _keep_impossible(lc: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(lc == -math.inf, -math.inf)


def merging_rule(
    method: str,
    alpha: float,
    lam: float,
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The rule of that name with its parameters fixed.

    Raises:
        InputError: an unknown method, or a parameter out of its range.
    """
    require_known(method, ("cad", "coiecd"), "method")
    if not (math.isfinite(alpha) and alpha >= 0):
        raise InputError(f"{alpha} is out of range", where="alpha", hint="use 0 or more")
    if not 0 < lam <= 1:
        raise InputError(f"{lam} is out of range", where="lam", hint="use more than 0, at most 1")
    if method == "cad":
        return partial(cad_scores, alpha=alpha)
    return partial(coiecd_scores, alpha=alpha, lam=lam)


# Tokens and their log-probabilities, each of shape (answers,), from logits of shape
# (streams · answers, vocabulary) and the number of tokens generated so far.
Choose = Callable[["torch.Tensor", int], tuple["torch.Tensor", "torch.Tensor"]]


def choose_greedily(logits: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest token of each row; the lowest id among equals."""
    tokens = logits.argmax(-1)
    return tokens, _log_probabilities(logits, tokens)


def _log_probabilities(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Natural-log probability of one token per row, of shape (rows,)."""
    chosen = logits.gather(-1, tokens[:, None])[:, 0]
    return chosen - logits.logsumexp(-1)


def row_uniforms(seed: int, prompt: str, occurrence: int, count: int) -> np.ndarray:
    """`count` uniform numbers in [0, 1) that belong to one sample of one prompt.

    They depend on nothing else: not on the other prompts, on how a batch is cut or
    on the device, and drawing them touches no global random state.

    Args:
        seed: the caller's seed plus the number of the sample.
        prompt: the prompt's text.
        occurrence: 0 for the first time this prompt is in the call, then 1, …
        count: numbers wanted.
    """
    name = f"{seed}:{occurrence}:{prompt}".encode()
    key = int.from_bytes(hashlib.sha256(name).digest()[:16], "big")
    return np.random.Generator(np.random.Philox(key=key)).random(count)


def choose_sampled(temperature: float, uniforms: np.ndarray, device: torch.device) -> Choose:
    """Draw each row's token by inverting its distribution at that row's own uniform number.

    Args:
        temperature: above 0; divides the logits.
        uniforms: of shape (answers, tokens), in [0, 1).
        device: where the logits are.
    """
    import torch

    # Sums of many small probabilities need double precision, which mps lacks.
    precision = torch.float32 if device.type == "mps" else torch.float64
    numbers = torch.as_tensor(uniforms).to(precision).to(device)

    def choose(logits: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        cumulative = (logits.to(precision) / temperature).softmax(-1).cumsum(-1)
        target = numbers[:, step] * cumulative[:, -1]
        # right=True: the first token whose cumulated probability exceeds the target,
        # so that one of probability 0 is never drawn.
        tokens = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0]
        tokens = tokens.clamp_(max=logits.shape[-1] - 1)
        return tokens, _log_probabilities(logits, tokens)

    return choose


def choose_between(merge: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Choose:
    """Greedy on the scores that a rule makes of the streams with and without context.

    The log-probabilities are those of the stream with context.
    """

    def choose(logits: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        with_context, without_context = logits.chunk(2)
        tokens = merge(with_context, without_context).argmax(-1)
        return tokens, _log_probabilities(with_context, tokens)

    return choose
