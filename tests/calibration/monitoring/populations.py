"""Signals drawn from known populations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from knowgate.calibration.monitoring import calibration_histograms
from knowgate.guard import Guarantee, Policy
from knowgate.guard.artefacts import GuaranteedRisk, Histogram, PolicyPoint
from tests.support.guards import policy_with

EDGES = tuple(i / 20 for i in range(21))
_P_VALUE = float(binom.cdf(9, 300, 0.1))
GUARANTEE = Guarantee(
    statement="At most 10%.",
    risk=0.1,
    delta=0.1,
    certified=True,
    loss="wrong reply",
    n=300,
    errors=9,
    risks=(GuaranteedRisk(kind="selective", bound=0.1, n=300, loss=9, p_value=_P_VALUE),),
    # The thresholds of `policy_with`.
    path=(PolicyPoint(relevance=0.5, confidence=0.7, p_value=_P_VALUE, let_through=300, errors=9),),
    chosen=0,
)


@dataclass(frozen=True)
class Question:
    """The calibrated signals of one question."""

    relevance: float | None
    confidence: float | None
    conflict: bool | None = None


def histogram(values: NDArray[np.float64] | Sequence[float]) -> Histogram:
    """Of values in [0, 1], twenty bins."""
    return Histogram(edges=EDGES, counts=tuple(int(c) for c in np.histogram(values, EDGES)[0]))


def questions(seed: int, n: int, relevance: float = 3.0, confidence: float = 2.0) -> list[Question]:
    """Beta-distributed signals: the larger the parameter, the higher the values."""
    rng = np.random.default_rng(seed)
    return [
        Question(float(r), float(c))
        for r, c in zip(rng.beta(relevance, 2, n), rng.beta(confidence, 2, n), strict=True)
    ]


def calibrated_policy(n: int = 600, **changes: Any) -> Policy:
    """A policy that keeps the histograms of `n` questions."""
    policy = policy_with(guarantee=GUARANTEE, **changes)
    found = calibration_histograms(policy, questions(0, n))
    return policy.model_copy(update={"histograms": found}).sealed()


def asked(policy: Policy, question: Question) -> Question:
    """What a guard under `policy` would have measured of `question`."""
    threshold = policy.relevance_threshold
    assert threshold is not None
    assert question.relevance is not None
    needed = question.relevance < threshold
    return Question(question.relevance, question.confidence if needed else None)
