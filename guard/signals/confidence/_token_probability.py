"""Confidence from the probabilities of the greedy answer's own tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from ..._model_steps import Steps
from ...contracts import Confidence, Cost, Generation, LanguageModel
from ...errors import InputError, LanguageModelError, require_known
from ...prompts import Prompt
from ._driver import ClosedBookEstimator
from .stopping import matches_needed

Statistic = Literal["sequence", "mean", "minimum"]


def token_probability(logprobs: Sequence[float], statistic: Statistic = "sequence") -> float:
    """One probability in [0, 1] from the log-probabilities of an answer's tokens.

    Args:
        logprobs: natural logs, at least one; -inf is a probability of 0.
        statistic: `sequence` is exp(Σ log p), the probability of exactly this answer;
            `mean` is exp(Σ log p / tokens), the inverse of the perplexity; `minimum` is
            exp(min log p), the least probable token.

    Raises:
        InputError: no tokens, NaN, or an unknown statistic.

    Example:
        >>> [round(token_probability([-0.1, -0.3], s), 3) for s in ("sequence", "mean", "minimum")]
        [0.67, 0.819, 0.741]
    """
    if not len(logprobs) or any(math.isnan(value) for value in logprobs):
        raise InputError("holds no numbers or NaN", where="logprobs")
    require_known(statistic, get_args(Statistic), "statistic")
    value = min(logprobs) if statistic == "minimum" else math.fsum(logprobs)
    # Rounding in half precision leaves log-probabilities a little above 0.
    return math.exp(min(0.0, value / len(logprobs) if statistic == "mean" else value))


class TokenProbability(ClosedBookEstimator):
    """Probability that the model gives to its own greedy answer, in [0, 1].

    One greedy call and nothing else: the cheapest estimator there is, where the model
    gives log-probabilities. Good on short answers; weak where the same thing can be
    said in many ways, since every wording takes its share of the probability, and on
    models that were tuned to sound sure. `sequence` falls with the answer's length,
    `mean` does not, `minimum` looks at the weakest token only. The token that ends the
    answer counts where the model gives it, as local ones do. A refusal has confidence 0.

    Args:
        language_model: what is asked; it must give `token_logprobs`.
        statistic: see `token_probability`.
        prompt: closed-book prompt with a `{question}` slot.

    Raises:
        InputError: `language_model` is not one, or the statistic is unknown.

    Source: sequence likelihood and perplexity as in Malinin and Gales 2021; the minimum
    after Manakul et al. 2023 (SelfCheckGPT), who take the maximum of −log p.
    """

    kind = "token_probability"

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        statistic: Statistic = "sequence",
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(language_model, prompt)
        require_known(statistic, get_args(Statistic), "statistic")
        self._statistic: Statistic = statistic

    @property
    def cost(self) -> Cost:
        """One greedy answer."""
        return Cost(greedy_calls=1)

    def _settings(self) -> Mapping[str, str]:
        return {"statistic": self._statistic, "prompt_sha256": self._prompt.sha256}

    def _after(self, question: str, answer: str, greedy: Generation) -> Steps[Confidence]:
        value = token_probability(required_logprobs(greedy), self._statistic)
        return Confidence(value, answer, calls=1)
        yield  # asks for nothing more


def required_logprobs(generation: Generation) -> tuple[float, ...]:
    """The token log-probabilities of a generation.

    Raises:
        LanguageModelError: the model gave none, or NaN.
    """
    logprobs = generation.token_logprobs
    if not logprobs or any(math.isnan(value) for value in logprobs):
        raise LanguageModelError(
            "the language model gave no token log-probabilities — ask the provider for them, "
            "use a local model, or an estimator that needs text only"
        )
    return logprobs


# Full estimates of an accepted answer that may decide otherwise, at the most.
_MOST_OTHERWISE = 0.02


def settled_by_greedy(greedy: Generation, n: int, threshold: float, least: float) -> float | None:
    """The confidence that the greedy answer's own probability gives, where that is clear.

    At temperature 1 a sample repeats the greedy answer letter for letter with
    probability p = exp(Σ log p), and in other words at times besides: p is what the
    share of matches is at least in the long run, and lower temperatures only raise
    it. So p takes the place of the share, where n samples would hardly decide
    otherwise: no more than 2 in 100 times (1.3 at p = 0.9, n = 10 and τ = 0.7).

    Args:
        greedy: the greedy answer.
        n: samples of a full estimate.
        threshold: share τ from which on an answer counts as known.
        least: probability below which samples must decide.

    Returns:
        None where samples must decide, or the model gave no log-probabilities that are numbers.

    Example:
        >>> settled_by_greedy(Generation("Paris", (-0.01, -0.02)), 10, 0.7, 0.9) == math.exp(-0.03)
        True
    """
    logprobs = greedy.token_logprobs
    if not logprobs or math.isnan(total := math.fsum(logprobs)):
        return None
    probability = math.exp(min(0.0, total))
    if probability < least:
        return None
    otherwise = _fewer(matches_needed(n, threshold), n, probability)
    return probability if otherwise <= _MOST_OTHERWISE else None


def _fewer(needed: int, n: int, p: float) -> float:
    """P(X < needed) for n draws of probability p."""
    if p == 1.0:
        return 0.0
    log_p, log_q = math.log(p), math.log1p(-p)
    logs = (math.log(math.comb(n, i)) + i * log_p + (n - i) * log_q for i in range(needed))
    return math.fsum(map(math.exp, logs))
