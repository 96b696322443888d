"""Choose a threshold by what errors cost: best on these questions, and nothing is guaranteed.

raw relevance of what may pass, and of what must not ─► a candidate in each gap ─► the cheapest
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .. import CalibrationRecord, fit_platt
from ._certificate import Certificate
from ._fit import Fit, FitSettings
from ._leak import order_keeping, populations_of, raw_relevance, threshold_policy
from ._leak_certificate import LeftOut
from ._risks import Costs, Uncertified

Floats = NDArray[np.float64]
_ROUNDING = 1e-9


def fit_by_costs(
    records: Sequence[CalibrationRecord], risk: Uncertified, settings: FitSettings
) -> Fit:
    """Fit a policy whose threshold is the best one on these records; its note says so.

    Raises:
        ValueError: no question of one of the two kinds was measured.
    """
    in_kb, missing = raw_relevance(records)
    for kind, scores in (("answerable", in_kb), ("unanswerable", missing.scores)):
        if not len(scores):
            raise ValueError(f"no {kind} question was measured, so that errors cannot be weighed")
    raw = best_threshold(records, risk)
    scores = [*in_kb, *missing.scores.tolist()]
    calibrator = fit_platt(in_kb, missing.scores.tolist())
    if raw is not None:
        calibrator = order_keeping(calibrator, raw, scores)
    policy = threshold_policy(records, calibrator, raw, settings)
    questions = len({record.question_id for record in records})
    note = f"Threshold chosen {risk.words} on {questions} questions; nothing is guaranteed."
    untested = Certificate((), 0, None, len(missing.scores))
    policy = policy.model_copy(update={"note": note})
    return Fit(policy, untested, (), tuple(records), risk)


def best_threshold(records: Sequence[CalibrationRecord], risk: Uncertified) -> float | None:
    """The raw threshold that is best on these records, of equals the strictest.

    The leak counts every passage or topic once, false abstention every question, as they are
    reported.

    Returns:
        None where it is best to let nothing pass, and where one of the two kinds is missing.
    """
    in_kb = np.sort([r.relevance for r in records if r.is_answerable and r.relevance is not None])
    missing = [r for r in records if r.is_missing and r.relevance is not None]
    if not len(in_kb) or not missing:
        return None
    levels = np.unique([*in_kb, *(r.relevance for r in missing)])
    # Halved first, because the sum of two huge scores would be infinite.
    middle = levels[:-1] / 2 + levels[1:] / 2
    middle = np.where((levels[:-1] < middle) & (middle <= levels[1:]), middle, levels[1:])
    thresholds = np.concatenate([levels[:1], middle, [math.inf]])
    abstained = np.searchsorted(in_kb, thresholds)
    if isinstance(risk, Costs):
        of_leak, of_abstention = risk.weights
        costs = of_leak * _leaks(missing, thresholds) + of_abstention * abstained / len(in_kb)
        allowed = costs <= costs.min() + _ROUNDING * (of_leak + of_abstention)
    else:
        # Of a new question, which falls into each gap between n scores with probability 1/(n + 1).
        allowed = abstained <= max(0.0, risk.share * (len(in_kb) + 1) - 0.5)
    found = float(thresholds[np.flatnonzero(allowed)[-1]])
    return found if math.isfinite(found) else None


def _leaks(missing: Sequence[CalibrationRecord], thresholds: Floats) -> Floats:
    """Share that passes at each threshold; of several kinds their mean."""
    found = []
    for case in populations_of(missing):
        left_out = LeftOut.of([record for record in missing if record.case == case])
        order = np.argsort(left_out.scores)
        beneath = np.concatenate([[0.0], np.cumsum(left_out.weights[order])])
        found.append(1.0 - beneath[np.searchsorted(left_out.scores[order], thresholds)])
    return np.asarray(np.mean(found, axis=0))
