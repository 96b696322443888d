"""Fit a policy to leave-one-out relevance: how often may a missing answer pass?

left-out relevance ─► one question per passage ─► thresholds, strict to lax ─► exact test
all relevance ─► logistic curve that keeps the order at the chosen threshold ─► Policy
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ...guard.decision import Route
from ...guard.policy import (
    Calibrator,
    Guarantee,
    Histogram,
    PlattCalibrator,
    Policy,
    StepCalibrator,
)
from .. import CalibrationRecord, fit_platt
from .._records import lines_sha256
from .._statistics import questions_needed
from ._certificate import Certificate, certify_leak
from ._fit import Fit, FitSettings
from ._path import PathPoint
from ._risks import Leak
from ._statement import percent
from ._units import one_per_group

Floats = NDArray[np.float64]
_LOSS = "a question whose source was left out of the knowledge base passes as sufficiently covered"


def fit_leak(records: Sequence[CalibrationRecord], risk: Leak, settings: FitSettings) -> Fit:
    """Fit a policy that lets at most `risk.bound` of questions without an answer pass.

    The certificate rests on one question per group: questions on one passage tend to pass
    together, so counting each as evidence of its own certifies falsely more often than
    `delta`. Which one depends on the ids alone. All questions go into the calibrator, a
    logistic curve of the raw score. A question whose relevance could not be measured is left
    out: a guard abstains from those, so that can only lower the pass rate. A question whose
    source the retriever missed counts as left out only, never as answerable.
    """
    in_kb = [r.relevance for r in records if _is_answerable(r) and r.relevance is not None]
    measured = [r for r in records if r.case == "left_out" and r.relevance is not None]
    left_out = [r.relevance for r in measured if r.relevance is not None]
    units = np.asarray([r.relevance for r in one_per_group(measured)], dtype=np.float64)
    thresholds = thresholds_between(units, [*in_kb, *left_out])
    calibrator = fit_platt(in_kb, left_out)
    certificate = certify_leak(
        units, thresholds, _path(calibrator, thresholds), risk.target, settings.delta
    )
    threshold = None
    if certificate.chosen is not None:
        raw = float(thresholds[certificate.chosen])
        kept = _order_keeping(calibrator, raw, [*in_kb, *left_out])
        if kept is not calibrator:
            calibrator = kept
            certificate = certify_leak(
                units, thresholds, _path(kept, thresholds), risk.target, settings.delta
            )
        threshold = calibrator.apply(raw)
    policy = Policy(
        created_by=settings.binding.created_by,
        scorer=settings.binding.scorer,
        aggregator=settings.binding.aggregator,
        relevance_calibrator=calibrator,
        relevance_threshold=threshold,
        allowed_routes=(Route.FOLLOW_CONTEXT, Route.ABSTAIN),
        guarantee=_guarantee(certificate, risk.bound, settings.delta),
        calibration_set_sha256=_sha256(records),
        histograms=_histograms(calibrator, in_kb, left_out),
    )
    return Fit(policy, certificate, tuple(tested.point for tested in certificate.points))


def _is_answerable(record: CalibrationRecord) -> bool:
    return record.case == "in_kb" and record.context_right is True


def thresholds_between(must_not_pass: Floats, may_pass: Sequence[float]) -> Floats:
    """Compute a threshold above each score that must not pass, the highest first.

    Args:
        must_not_pass: one finite score per independent question.
        may_pass: other scores, used only to place thresholds in the middle of the free
            gap, away from both neighbours.

    Returns:
        Shape (distinct scores that must not pass,); one less where nothing can lie above the
        highest of them.

    Example:
        >>> thresholds_between(np.array([0.1, 0.1, 0.5]), [0.9, 0.2]).round(2).tolist()
        [0.7, 0.15]
    """
    below = np.unique(must_not_pass)[::-1]
    levels = np.unique(np.concatenate([below, np.asarray(may_pass, dtype=np.float64)]))
    # Where there is nothing above, the next number up.
    levels = np.append(levels, math.inf)
    above = levels[np.searchsorted(levels, below, side="right")]
    with np.errstate(over="ignore"):
        above = np.where(np.isinf(above), np.nextafter(below, math.inf), above)
    # The middle of the gap, so that the last bit of a score never decides; halved first,
    # because the sum of two huge scores would be infinite.
    middle = below / 2 + above / 2
    found = np.where((below < middle) & (middle <= above), middle, above)
    return np.asarray(found[np.isfinite(found)])


def _path(calibrator: Calibrator, thresholds: Floats) -> Iterator[PathPoint]:
    return (PathPoint(calibrator.apply(raw), None) for raw in thresholds.tolist())


def _order_keeping(calibrator: Calibrator, threshold: float, scores: Sequence[float]) -> Calibrator:
    """`calibrator`, unless it merges the threshold with the score beneath it.

    A curve that is too steep or too flat for floating point, or one that clips,
    would let scores pass that the certificate counts as abstained from.
    """
    beneath = max(score for score in scores if score < threshold)
    for candidate in (calibrator, _gentle_curve(min(scores), max(*scores, threshold))):
        if candidate is not None and candidate.apply(beneath) < candidate.apply(threshold):
            return candidate
    # Tells the two sides of the threshold apart, and no more.
    return StepCalibrator(edges=(threshold,), values=(0.25, 0.75))


def _gentle_curve(lowest: float, highest: float) -> Calibrator | None:
    """A logistic curve that rises over the range of the scores, if not calibrated."""
    width = highest - lowest
    if not 0.0 < width < math.inf:
        return None
    a = 4.0 / width
    b = -a * (lowest + width / 2)
    return PlattCalibrator(a=a, b=b) if 0.0 < a < math.inf and math.isfinite(b) else None


def _guarantee(certificate: Certificate, risk: float, delta: float) -> Guarantee:
    confidence, bound = percent(1 - Decimal(str(delta))), percent(Decimal(str(risk)))
    n, errors = certificate.questions, 0
    if certificate.chosen is None:
        statement = (
            f"No threshold certifies a pass rate of at most {bound} with confidence "
            f"{confidence} from {n} question{'' if n == 1 else 's'} on different "
            "passages, so this policy always abstains. At least "
            f"{questions_needed(risk, delta)} independent questions are needed to calibrate on, "
            "one per passage; those kept back for testing do not count."
        )
    else:
        errors = certificate.points[certificate.chosen].wrong
        statement = (
            f"With confidence {confidence} over the draw of the {n} calibration "
            "questions (one per passage, taken as independent draws), "
            f"at most {bound} of questions whose answer is missing from the "
            f"knowledge base pass as covered ({errors} of {n} did in "
            "calibration). It holds for new questions like these, each passage counting once, "
            "on this knowledge base, retriever and scorer, where a question that cannot be "
            "scored is abstained from; it says nothing about another domain, another retriever "
            "or scorer, or about how the language model uses a context that passes."
        )
    return Guarantee(
        statement=statement,
        risk=risk,
        delta=delta,
        certified=certificate.chosen is not None,
        loss=_LOSS,
        n=n,
        errors=errors,
    )


def _sha256(records: Sequence[CalibrationRecord]) -> str:
    pairs: dict[str, list[str | float | None]] = {}
    for record in records:
        values = pairs.setdefault(
            record.question_id, [record.question_id, record.group, None, None]
        )
        if _is_answerable(record):
            values[2] = record.relevance
        elif record.case == "left_out":
            values[3] = record.relevance
    return lines_sha256(map(json.dumps, pairs.values()))


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
