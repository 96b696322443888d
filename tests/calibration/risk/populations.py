"""Populations of questions whose every risk and coverage is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration import CalibrationRecord
from knowgate.guard import Policy

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Draw:
    """Signals and outcomes of n questions."""

    relevance: Floats
    confidence: Floats
    context_right: Bools
    closed_book_right: Bools

    def records(self, *, variants: int = 1) -> list[CalibrationRecord]:
        """One record per question; or several, all alike: fully dependent variants."""
        columns = zip(
            self.relevance.tolist(),
            self.confidence.tolist(),
            self.context_right.tolist(),
            self.closed_book_right.tolist(),
            strict=True,
        )
        return [
            CalibrationRecord(f"q{number}", *columns_of_one, case=str(variant))
            for number, columns_of_one in enumerate(columns)
            for variant in range(variants)
        ]

    def outcome(self, relevance: float | None, confidence: float | None) -> tuple[float, float]:
        """Coverage and risk of a pair of thresholds on these questions."""
        follow = np.zeros(len(self.relevance), dtype=bool)
        if relevance is not None:
            follow = self.relevance >= relevance
        answer = np.zeros(len(self.relevance), dtype=bool)
        if confidence is not None:
            answer = ~follow & (self.confidence >= confidence)
        through = follow | answer
        wrong = (follow & ~self.context_right) | (answer & ~self.closed_book_right)
        if not through.any():
            return 0.0, 0.0
        return float(through.mean()), float(wrong.sum() / through.sum())

    def outcomes(self, levels: Floats) -> tuple[Floats, Floats]:
        """`outcome` of every pair of `levels`, which rise: coverages and risks."""
        places = len(levels) + 1
        cell = np.searchsorted(levels, self.relevance, "right") * places
        cell += np.searchsorted(levels, self.confidence, "right")

        def passing(those: Bools) -> tuple[Floats, Floats]:
            counts = np.bincount(cell[those], minlength=places**2).reshape(places, places)
            # Rows: how many levels the relevance reaches; columns: the same of confidence.
            above = counts[::-1].cumsum(axis=0)[::-1].sum(axis=1)[1:, None]
            below = counts.cumsum(axis=0)[:-1, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
            return above.astype(np.float64), below.astype(np.float64)

        everything = np.ones(len(cell), dtype=bool)
        follow, answer = passing(everything)
        follow_wrong, answer_wrong = (
            passing(~self.context_right)[0],
            passing(~self.closed_book_right)[1],
        )
        through = follow + answer
        wrong = follow_wrong + answer_wrong
        return through / len(cell), wrong / np.maximum(through, 1.0)

    def outcome_of(self, policy: Policy) -> tuple[float, float]:
        """Coverage and risk of a policy that looks for no conflict."""
        assert not policy.check_conflict
        return self.outcome(policy.relevance_threshold, policy.confidence_threshold)


def calibrated(n: int, rng: np.random.Generator) -> Draw:
    """Both signals say how likely their answer is right."""
    relevance, confidence = rng.beta(1.2, 1.0, n), rng.beta(0.8, 1.0, n)
    return _drawn(relevance, confidence, relevance, confidence, rng)


def distorted(n: int, rng: np.random.Generator) -> Draw:
    """Both signals rise with being right, but are far from probabilities."""
    relevance, confidence = rng.random(n), rng.random(n)
    return _drawn(
        relevance,
        confidence,
        1 / (1 + np.exp(3 - 8 * relevance)),
        1 / (1 + np.exp(4 - 6 * confidence)),
        rng,
    )


def dependent(n: int, rng: np.random.Generator) -> Draw:
    """Easy questions have high signals and right answers of both kinds."""
    ease = rng.normal(size=n)
    relevance = 1 / (1 + np.exp(-(ease + rng.normal(size=n))))
    confidence = 0.5 + 0.5 / (1 + np.exp(-(ease + rng.normal(size=n))))
    sure = 1 / (1 + np.exp(-1.5 * ease - 1))
    return _drawn(relevance, confidence, sure, 1 / (1 + np.exp(-1.5 * ease)), rng)


def useless(n: int, rng: np.random.Generator) -> Draw:
    """Neither signal says anything, and more goes wrong than any bound allows."""
    shares = np.full(n, 0.6)
    return _drawn(rng.random(n), rng.random(n), shares, shares, rng)


def highest_wrong(n: int, rng: np.random.Generator) -> Draw:
    """Relevance says much, but its highest 2 % are wrong; memory knows nothing."""
    relevance = rng.random(n)
    shares = np.select([relevance > 0.98, relevance > 0.45], [0.0, 0.97], 0.3)
    return _drawn(relevance, np.zeros(n), shares, np.zeros(n), rng)


def _drawn(
    relevance: Floats, confidence: Floats, context: Floats, memory: Floats, rng: np.random.Generator
) -> Draw:
    n = len(relevance)
    return Draw(relevance, confidence, rng.random(n) < context, rng.random(n) < memory)
