"""When the greedy answer's own probability makes sampling needless."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._contracts import Generation
from .._errors import InputError
from ._stopping import matches_needed

# Full estimates of an accepted answer that may decide otherwise, at the most.
_MOST_OTHERWISE = 0.02


def answer_probability(generation: Generation) -> float | None:
    """exp(Σ log p): the model's probability of exactly this answer at temperature 1.

    Returns None where the model gave no log-probabilities, or none that are numbers.

    Example:
        >>> answer_probability(Generation("Paris", (-0.25, -0.75))) == math.exp(-1)
        True
    """
    logprobs = generation.token_logprobs
    if not logprobs or math.isnan(total := math.fsum(logprobs)):
        return None
    return min(1.0, math.exp(min(0.0, total)))


@dataclass(frozen=True, slots=True)
class GreedyShortcut:
    """Settles a question by the greedy answer's probability, where that is clear.

    At temperature 1 a sample repeats the greedy answer letter for letter with
    probability p = exp(Σ log p), and in other words at times besides: p is what the
    share of matches is at least in the long run, and lower temperatures only raise
    it. So p takes the place of the share, where n samples would hardly decide
    otherwise: no more than 2 in 100 times (1.3 at p = 0.9, n = 10 and τ = 0.7).

    Attributes:
        accept_probability: in (0, 1]; from which on an answer is known; None: never.
        reject_probability: in [0, 1); up to which an answer is not known; None, as
            improbable wordings of a sure answer are common: never.
    """

    accept_probability: float | None = 0.9
    reject_probability: float | None = None

    def __post_init__(self) -> None:
        accept, reject = self.accept_probability, self.reject_probability
        if accept is not None and not 0.0 < accept <= 1.0:
            raise InputError("must be in (0, 1] or None", where="accept_probability")
        if reject is not None and not 0.0 <= reject < (1.0 if accept is None else accept):
            raise InputError(
                "must be in [0, 1), below accept_probability, or None", where="reject_probability"
            )

    def settled(
        self, greedy: Generation, n: int, threshold: float, temperature: float
    ) -> float | None:
        """The confidence that needs no sample, or None where samples must decide.

        Args:
            greedy: the greedy answer.
            n: samples of a full estimate.
            threshold: share τ from which on an answer counts as known.
            temperature: of the samples; above 1 nothing is accepted, since p then
                says too much.
        """
        probability = answer_probability(greedy)
        if probability is None:
            return None
        accept, reject = self.accept_probability, self.reject_probability
        if reject is not None and probability <= reject:
            return min(probability, math.nextafter(threshold, 0.0))
        if accept is None or probability < max(accept, threshold) or temperature > 1.0:
            return None
        needed = matches_needed(n, threshold)
        return probability if _fewer(needed, n, probability) <= _MOST_OTHERWISE else None


def _fewer(needed: int, n: int, p: float) -> float:
    """P(X < needed) for n draws of probability p in (0, 1]."""
    if p == 1.0:
        return 0.0
    log_p, log_q = math.log(p), math.log1p(-p)
    return math.fsum(
        math.exp(
            math.lgamma(n + 1)
            - math.lgamma(i + 1)
            - math.lgamma(n - i + 1)
            + i * log_p
            + (n - i) * log_q
        )
        for i in range(needed)
    )
