"""When sampling can stop because the decision is fixed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Protocol, Self, runtime_checkable

from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ...read_models import CheckedSettings, Count


@runtime_checkable
class StoppingRule(Protocol):
    """Decides how many samples to draw next, given the results so far.

    A rule that speaks of a threshold also has `deciding_at(threshold)`, which
    returns the same rule for another one; a guard uses it where it is there.
    """

    def next_wave(self, matches: int, misses: int) -> int:
        """Samples to draw at once, 0 to stop.

        Args:
            matches: samples so far that repeat the greedy answer.
            misses: those that do not.
        """


# Whole numbers stay as they are given: the text of a rule is in fingerprints.
_Positive = Annotated[int | float, Field(gt=0, lt=math.inf)]


@checked_dataclass(frozen=True)
class CurtailedSampling(CheckedSettings):
    """Exact curtailment of "known if at least a share τ of n samples match".

    Stopping by this rule never changes the decision that all n samples would
    have given: it stops when enough samples match, or when so many do not that
    the rest cannot make up for it (7 matches or 4 misses at n = 10, τ = 0.7).

    Attributes:
        n: samples that a full estimate takes, at least 1.
        threshold: share τ of matching samples in (0, 1] from which on the answer
            counts as known.

    Example:
        >>> rule = CurtailedSampling(n=10, threshold=0.7)
        >>> rule.matches_needed, rule.misses_needed
        (7, 4)
        >>> rule.next_wave(matches=6, misses=0), rule.next_wave(matches=7, misses=0)
        (1, 0)
    """

    n: Count = 10
    threshold: Annotated[int | float, Field(gt=0, le=1)] = 0.7

    def deciding_at(self, threshold: float) -> Self:
        """The same rule for another threshold."""
        return replace(self, threshold=threshold)

    @property
    def matches_needed(self) -> int:
        """Matches that fix the decision "known"."""
        return matches_needed(self.n, self.threshold)

    @property
    def misses_needed(self) -> int:
        """Misses that fix the decision "not known"."""
        return self.n - self.matches_needed + 1

    def next_wave(self, matches: int, misses: int) -> int:
        """How many samples may be drawn at once without wasting one; 0 when decided."""
        return max(0, min(self.matches_needed - matches, self.misses_needed - misses))


@checked_dataclass(frozen=True)
class Sampling(CheckedSettings):
    """How many samples of a language model's answer are drawn, and how.

    Attributes:
        n: samples of a full estimate, at least 1.
        temperature: above 0.
        seed: makes the samples repeatable where the model honours seeds.

    Raises:
        InputError: a value is out of its range.
    """

    n: Count = 10
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    seed: int | None = 0


def matches_needed(n: int, threshold: float) -> int:
    """The least number of matches that is at least the share `threshold` of n, never 0."""
    # 0.7 * 10 is 7.000000000000001 in floating point, and must not become 8.
    return max(1, math.ceil(threshold * n - 1e-9))


@checked_dataclass(frozen=True)
class BayesianStopping(CurtailedSampling):
    """Stops once n samples would hardly change the decision of those drawn so far.

    The chance p that a sample matches has a Beta prior. After m matches in k samples
    the matches among the n - k that are left follow a beta-binomial distribution; its
    tail is the probability that all n would decide otherwise than the share m / k
    does now. Sampling stops where that is below `flip_probability`, and always where
    the decision is fixed. Averaged over the prior, the share of decisions that differ
    from those of all n is therefore below `flip_probability`.

    For n = 10 and τ = 0.7 the defaults stop after 3 misses or 6 matches in a row, where
    the exact rule takes 4 and 7. 5.8 samples are drawn in the mean under the prior,
    and 0.08 % of the decisions differ; at the worst p, .67, it is 0.33 %. With 0.01
    five matches in a row do: 5.5 samples, 0.23 % and 0.86 %.

    Attributes:
        n: samples that a full estimate takes, at least 1.
        threshold: share τ of matching samples in (0, 1] from which on the answer
            counts as known.
        flip_probability: what is declared, in (0, 0.5).
        prior: (matches, misses) that the Beta prior counts as seen, both above 0; the
            default is Jeffreys' prior, which expects answers to be known or not.

    Source: predictive stopping of clinical trials, e.g. Spiegelhalter, Freedman and
    Blackburn 1986.

    Example:
        >>> rule = BayesianStopping()
        >>> rule.next_wave(matches=0, misses=0), rule.next_wave(matches=0, misses=3)
        (3, 0)
        >>> round(rule.flip_chance(matches=0, misses=3), 5)
        0.00175
    """

    flip_probability: Annotated[float, Field(gt=0, lt=0.5)] = 0.005
    prior: tuple[_Positive, _Positive] = (0.5, 0.5)

    def flip_chance(self, matches: int, misses: int) -> float:
        """Probability that all n samples decide otherwise than the share of matches now.

        Args:
            matches: of the samples drawn so far.
            misses: likewise; together at least 1 and at most n.
        """
        known = _chance_known(
            self.matches_needed - matches,
            self.n - matches - misses,
            self.prior[0] + matches,
            self.prior[1] + misses,
        )
        # The very comparison that a guard makes with the share as the confidence.
        return 1.0 - known if matches / (matches + misses) >= self.threshold else known

    def next_wave(self, matches: int, misses: int) -> int:
        """The most samples that may be drawn at once without wasting one; 0 to stop.

        That is the least number of further samples after which some outcome of them
        would end the sampling: with fewer, none could.
        """
        return _least_to_stop(self, matches, misses)

    def stops(self, matches: int, misses: int) -> bool:
        """Whether sampling ends here."""
        if matches >= self.matches_needed or misses >= self.misses_needed:
            return True
        return matches + misses > 0 and self.flip_chance(matches, misses) < self.flip_probability


@lru_cache(maxsize=4096)
def _least_to_stop(rule: BayesianStopping, matches: int, misses: int) -> int:
    for further in range(rule.n + 1):
        if any(rule.stops(matches + i, misses + further - i) for i in range(further + 1)):
            return further
    # Beyond n; not reached by a rule's own waves.
    return 0


def _chance_known(needed: int, left: int, alpha: float, beta: float) -> float:
    """Tail P(X >= needed) of the beta-binomial with `left` draws and Beta(alpha, beta)."""
    if needed <= 0:
        return 1.0
    log_norm = _log_beta(alpha, beta)
    terms = (
        math.exp(math.log(math.comb(left, i)) + _log_beta(alpha + i, beta + left - i) - log_norm)
        for i in range(needed, left + 1)
    )
    return min(1.0, math.fsum(terms))


def _log_beta(alpha: float, beta: float) -> float:
    return math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
