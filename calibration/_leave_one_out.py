"""A policy from leave-one-out relevance: how often may a missing answer pass?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..guard import (
    Calibrator,
    Fingerprint,
    Guarantee,
    Histogram,
    PlattCalibrator,
    Policy,
    Route,
)
from ._binomial import questions_needed
from ._platt import fit_platt
from ._records import LeaveOneOutRecord, records_sha256
from ._threshold import ThresholdChoice, choose_threshold

_LOSS = "a question whose source was left out of the knowledge base passes as sufficiently covered"


def fit_leave_one_out_policy(
    records: Sequence[LeaveOneOutRecord],
    *,
    scorer: Fingerprint,
    aggregator: str = "max",
    risk: float,
    delta: float,
    created_by: str = "",
) -> Policy:
    """A policy that lets at most `risk` of unanswerable questions pass.

    The threshold is the laxest one whose exact binomial test certifies the bound
    (see `choose_threshold`); relevance is a logistic curve of the raw score.
    "No threshold meets the target" is a result: the policy then abstains from
    everything and its guarantee says so.

    Args:
        records: one per question, from the calibration half only.
        scorer: fingerprint of what measured them.
        aggregator: how passage scores became the raw values.
        risk: bound α on the pass rate, in (0, 1).
        delta: probability δ that the bound fails, in (0, 1).
        created_by: program and version.

    Returns:
        The policy, with `guarantee.certified` telling whether the target was met.
    """
    left_out = [r.left_out for r in records if r.left_out is not None]
    in_kb = [r.in_kb for r in records if r.in_kb is not None]
    choice = choose_threshold(left_out, risk=risk, delta=delta, may_pass=in_kb)
    calibrator = _order_keeping(fit_platt(in_kb, left_out), choice, left_out)
    threshold = None if choice.threshold is None else calibrator.apply(choice.threshold)
    return Policy(
        created_by=created_by,
        scorer=scorer,
        aggregator=aggregator,
        relevance_calibrator=calibrator,
        relevance_threshold=threshold,
        allowed_routes=(Route.FOLLOW_CONTEXT, Route.ABSTAIN),
        guarantee=_guarantee(choice, risk, delta),
        calibration_set_sha256=records_sha256(records),
        histograms=_histograms(calibrator, in_kb, left_out),
    )


def _order_keeping(
    calibrator: Calibrator, choice: ThresholdChoice, left_out: Sequence[float]
) -> Calibrator:
    """`calibrator`, unless it is so steep that floating point merges scores at the threshold."""
    if choice.threshold is None:
        return calibrator
    threshold = calibrator.apply(choice.threshold)
    passed = sum(calibrator.apply(score) >= threshold for score in left_out)
    if passed <= choice.errors:
        return calibrator
    lowest, highest = min(*left_out, choice.threshold), max(*left_out, choice.threshold)
    # A gentle logistic over the range of the scores: strictly rising, if not calibrated.
    slope = 4.0 / (highest - lowest)
    return PlattCalibrator(a=slope, b=-slope * (highest + lowest) / 2)


def _guarantee(choice: ThresholdChoice, risk: float, delta: float) -> Guarantee:
    if choice.threshold is None:
        statement = (
            f"No threshold certifies a pass rate of at most {risk:.1%} with confidence "
            f"{1 - delta:.1%} from {choice.n} questions, so this policy always abstains. "
            f"At least {questions_needed(risk, delta)} independent questions are needed."
        )
    else:
        statement = (
            f"With confidence {1 - delta:.1%} over the draw of the {choice.n} calibration "
            f"questions, at most {risk:.1%} of questions whose answer is missing from the "
            f"knowledge base pass as covered ({choice.errors} of {choice.n} did in "
            "calibration). It holds for new questions like these, on this knowledge base, "
            "retriever and scorer; it says nothing about another domain, another retriever or "
            "scorer, or about how the language model uses a context that passes."
        )
    return Guarantee(
        statement=statement,
        risk=risk,
        delta=delta,
        certified=choice.threshold is not None,
        loss=_LOSS,
        n=choice.n,
        errors=choice.errors,
    )


def _histograms(
    calibrator: Calibrator, in_kb: Sequence[float], left_out: Sequence[float]
) -> dict[str, Histogram]:
    edges = tuple(float(edge) for edge in np.linspace(0.0, 1.0, 21))
    names = {"relevance.in_kb": in_kb, "relevance.left_out": left_out}
    return {
        name: Histogram(
            edges=edges,
            counts=tuple(
                int(c) for c in np.histogram([calibrator.apply(s) for s in scores], edges)[0]
            ),
        )
        for name, scores in names.items()
    }
