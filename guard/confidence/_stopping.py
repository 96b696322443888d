"""When sampling can stop because the decision is fixed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable


@runtime_checkable
class StoppingRule(Protocol):
    """Says how many samples to draw next, given how those drawn so far went.

    A rule that speaks of a threshold also has `deciding_at(threshold)`, which
    returns the same rule for another one; a guard uses it where it is there.
    """

    def next_wave(self, matches: int, misses: int) -> int:
        """Samples to draw at once, 0 to stop.

        Args:
            matches: samples so far that repeat the greedy answer.
            misses: those that do not.
        """
        ...


@dataclass(frozen=True, slots=True)
class CurtailedSampling:
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

    n: int = 10
    threshold: float = 0.7

    def __post_init__(self) -> None:
        check_rule(self.n, self.threshold)

    def deciding_at(self, threshold: float) -> CurtailedSampling:
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


@dataclass(frozen=True, slots=True)
class FullSampling:
    """No stopping: all n samples, drawn at once.

    Attributes:
        n: samples of an estimate, at least 1.

    Example:
        >>> FullSampling(n=10).next_wave(matches=0, misses=0)
        10
    """

    n: int = 10

    def __post_init__(self) -> None:
        check_rule(self.n, 1.0)

    def next_wave(self, matches: int, misses: int) -> int:
        """All samples that are left."""
        return max(0, self.n - matches - misses)


def check_rule(n: int, threshold: float) -> None:
    """Refuse a rule that makes no sense.

    Raises:
        ValueError: `n` is below 1, or `threshold` outside (0, 1].
    """
    if n < 1:
        raise ValueError("n must be at least 1")
    if not 0.0 < threshold <= 1.0:
        raise ValueError("threshold must be in (0, 1]")


def matches_needed(n: int, threshold: float) -> int:
    """The least number of matches that is at least the share `threshold` of n, never 0."""
    # 0.7 * 10 is 7.000000000000001 in floating point, and must not become 8.
    return max(1, math.ceil(threshold * n - 1e-9))
