"""What a number of questions and passages can certify, before anything is measured.

passages, questions of each ─► simulated scores ─► the test of the certificate ─► figures
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..statistics import Floats, questions_needed
from .certificate import binomial_p_values
from .leak import leak_p_values
from .risks import Leak

Certified = Callable[[Floats], NDArray[np.bool_]]
# Correlation of the scores of two questions on one passage, in the simulation.
CORRELATION = 0.5
_SEPARATIONS = (0.85, 0.9, 0.95)
_MOST_UNITS = 20_000


@dataclass(frozen=True, slots=True)
class LeakPlan:
    """What can be certified about the leak.

    Attributes:
        questions: that will be measured.
        passages: that they are about.
        needed: passages that it takes at least.
        smallest: smallest bound that so many passages can certify; None: none.
        false_abstention: by AUROC of the scorer the share of answerable questions that a
            policy abstains from on average; empty where nothing can be certified.
    """

    questions: int
    passages: int
    needed: int
    smallest: float | None
    false_abstention: dict[float, float]

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        bound: float,
        *,
        delta: float = 0.1,
        draws: int = 200,
        seed: int = 0,
    ) -> LeakPlan:
        """Say what a calibration on so many questions per passage can certify.

        Numbers of passages come from the test itself; rates of false abstention from the same
        test on simulated scores: normal, with correlation .5 within a passage.

        Args:
            sizes: questions of each passage, each at least 1.
            bound: on the leak, in (0, 1).
            delta: probability that the promise fails by bad luck.
            draws: simulated calibrations.
            seed: of the draws.

        Example:
            >>> found = LeakPlan.of([4] * 15, 0.1)
            >>> found.questions, found.passages, found.needed, found.smallest
            (60, 15, 22, 0.15)
        """
        from scipy.special import ndtr, ndtri

        needed = questions_needed(bound, delta)
        rates: dict[float, float] = {}
        if len(sizes) >= needed:
            thresholds = LeakPlan.simulate(
                sizes, bound, delta=delta, correlation=CORRELATION, draws=draws, seed=seed
            )
            for auroc in _SEPARATIONS:
                shift = math.sqrt(2.0) * float(ndtri(auroc))
                rates[auroc] = float(ndtr(thresholds - shift).mean())
        return cls(sum(sizes), len(sizes), needed, Leak.smallest(len(sizes), delta), rates)

    @staticmethod
    def units_for(leak: float, bound: float, *, delta: float) -> int | None:
        """About how many passages with one question each certify a bound, if they go like these.

        Args:
            leak: share of the passages that leaks at the wanted threshold.
            bound: on the leak, in (0, 1).
            delta: probability that the promise fails by bad luck.

        Returns:
            None where no number that anybody could measure would do.

        Example:
            >>> LeakPlan.units_for(0.0, 0.1, delta=0.1), LeakPlan.units_for(0.2, 0.1, delta=0.1)
            (22, None)
        """
        if leak >= bound:
            return None
        counts = np.arange(1, _MOST_UNITS + 1)
        p_values = binomial_p_values(np.ceil(leak * counts - 1e-9), counts, bound)
        enough = np.flatnonzero(p_values <= delta)
        return int(counts[enough[0]]) if len(enough) else None

    @staticmethod
    def simulate(
        sizes: Sequence[int],
        bound: float,
        *,
        delta: float,
        correlation: float,
        draws: int,
        seed: int = 0,
        certified: Certified | None = None,
    ) -> Floats:
        """Thresholds that calibrations on simulated scores of left-out questions choose.

        Scores are standard normal.

        Args:
            sizes: questions of each passage.
            bound: on the leak.
            delta: probability that the promise fails by bad luck.
            correlation: of the scores of two questions on one passage, in [0, 1].
            draws: simulated calibrations.
            seed: of the draws.
            certified: another test than the product's: whether shares that pass, of shape
                (draws, passages), are certified.

        Returns:
            Shape (draws,); infinite where nothing is certified.
        """
        rng, each, most = np.random.default_rng(seed), np.asarray(sizes), max(sizes)
        shared = rng.normal(size=(draws, len(sizes), 1))
        scores = rng.normal(size=(draws, len(sizes), most))
        # A trace of noise of their own, so that no two scores tie.
        scores *= math.sqrt(max(1e-12, 1.0 - correlation))
        scores += math.sqrt(correlation) * shared
        scores[:, np.arange(most) >= each[:, None]] = math.nan  # a passage has fewer
        p_values = leak_p_values(each.astype(np.float64), bound, delta)
        passes = certified or (lambda shares: p_values(shares) <= delta)
        ranked = -np.sort(-scores.reshape(draws, -1), axis=1)  # NaN last
        rows, count = np.arange(draws), sum(sizes)
        # Of each draw, the score above which the laxest certified threshold lies.
        passed, failed = np.full(draws, -1), np.full(draws, count)
        while (open_ := (failed - passed) > 1).any():
            middle = (passed + failed) // 2
            limit = ranked[rows, np.clip(middle, 0, count - 1)]
            found = passes((scores > limit[:, None, None]).sum(axis=2) / each)
            passed = np.where(open_ & found, middle, passed)
            failed = np.where(open_ & ~found, middle, failed)
        found_at = ranked[rows, np.clip(passed, 0, count - 1)]
        return np.asarray(np.where(passed >= 0, found_at, math.inf))
