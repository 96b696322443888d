"""Fit a policy to leave-one-out relevance: how often may a missing answer pass?

left-out relevance, passage by passage ─► thresholds, strict to lax ─► test ─► threshold
all relevance ─► logistic curve that keeps the order at the chosen threshold ─► Policy

Nothing is set aside: the threshold is tested on the raw scale, where a higher one never lets
more pass, and the curve only renames it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

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
from ._certificate import Certificate
from ._fit import Fit, FitSettings
from ._leak_certificate import LeftOut, certify_leak, thresholds_between
from ._risks import Leak
from ._statement import percent, stored_point, stored_risk

Floats = NDArray[np.float64]
_LOSS = "a question whose source was left out of the knowledge base passes as sufficiently covered"
_METHOD = "exact test of one question per passage, averaged over all ways of drawing them"


def fit_leak(records: Sequence[CalibrationRecord], risk: Leak, settings: FitSettings) -> Fit:
    """Fit a policy that lets at most `risk.bound` of questions without an answer pass.

    The passage is the unit: questions on one passage tend to pass together, so counting each
    as evidence of its own certifies falsely more often than `delta`. All of them count, as
    one question per passage does on average. All questions go into the calibrator, a
    logistic curve of the raw score. A question whose relevance could not be measured is left
    out: a guard abstains from those, so that can only lower the pass rate. A question whose
    source the retriever missed counts as left out only, never as answerable. A left-out case that
    review found to be answered by another passage counts as one that may pass.
    """
    in_kb, left_out = raw_relevance(records)
    thresholds = thresholds_between(left_out.scores, [*in_kb, *left_out.scores.tolist()])
    calibrator, certificate, raw = certified_calibrator(
        in_kb, left_out, thresholds, risk, settings.level
    )
    policy = leak_policy(records, calibrator, certificate, raw, risk, settings)
    path = tuple(tested.point for tested in certificate.points)
    return Fit(policy, certificate, path, tuple(records), risk)


def leak_policy(
    records: Sequence[CalibrationRecord],
    calibrator: Calibrator,
    certificate: Certificate,
    raw: float | None,
    risk: Leak,
    settings: FitSettings,
) -> Policy:
    """Make the policy with this raw threshold; None: it always abstains."""
    in_kb, left_out = raw_relevance(records)
    return Policy(
        created_by=settings.binding.created_by,
        scorer=settings.binding.scorer,
        aggregator=settings.binding.aggregator,
        relevance_calibrator=calibrator,
        relevance_threshold=None if raw is None else calibrator.apply(raw),
        allowed_routes=(Route.FOLLOW_CONTEXT, Route.ABSTAIN),
        guarantee=_with_reviews(
            leak_guarantee(certificate, raw, left_out, risk, settings), records
        ),
        retrieval=settings.binding.retrieval,
        calibration_set_sha256=_sha256(records),
        histograms=_histograms(calibrator, in_kb, left_out.scores.tolist()),
    )


def raw_relevance(records: Sequence[CalibrationRecord]) -> tuple[list[float], LeftOut]:
    """Raw relevance of what may pass, and of what must not."""
    in_kb = [r.relevance for r in records if r.may_pass and r.relevance is not None]
    return in_kb, LeftOut.of(
        [r for r in records if r.case == "left_out" and r.relevance is not None]
    )


def certified_calibrator(
    in_kb: Sequence[float], left_out: LeftOut, thresholds: Floats, risk: Leak, level: float
) -> tuple[Calibrator, Certificate, float | None]:
    """Fit a calibrator, and test thresholds, which it may rename but not move.

    Returns:
        The calibrator, the certificate and the raw threshold that it chose.
    """
    calibrator = fit_platt(in_kb, left_out.scores.tolist())
    certificate, raw = certify_leak(left_out, thresholds, calibrator, risk.target, level)
    if raw is not None:
        kept = _order_keeping(calibrator, raw, [*in_kb, *left_out.scores.tolist()])
        if kept is not calibrator:
            calibrator = kept
            certificate, raw = certify_leak(left_out, thresholds, kept, risk.target, level)
    return calibrator, certificate, raw


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


def leak_guarantee(
    certificate: Certificate,
    threshold: float | None,
    left_out: LeftOut,
    risk: Leak,
    settings: FitSettings,
) -> Guarantee:
    """State what was certified, and the counts that it follows from."""
    n, passages = certificate.questions, len(left_out.sizes)
    # What says nothing stays out of the file.
    more: dict[str, Any] = {"method": _METHOD} if passages < n else {}
    if settings.binding.candidates > 1:
        more["candidates"] = settings.binding.candidates
    errors = 0
    if certificate.chosen is None:
        statement = _uncertified(n, passages, risk.bound, settings)
        more["more_questions"] = max(0, questions_needed(risk.bound, settings.level) - passages)
    else:
        assert threshold is not None
        chosen = certificate.points[certificate.chosen]
        errors = chosen.wrong
        statement = _certified(n, passages, errors, risk.bound, settings)
        more |= {"risks": (stored_risk(chosen.main),), "path": (stored_point(chosen),), "chosen": 0}
        if passages < n:
            more["passages"] = left_out.counts(threshold)
    return Guarantee(
        statement=statement,
        risk=risk.bound,
        delta=settings.delta,
        certified=certificate.chosen is not None,
        loss=_LOSS,
        n=n,
        errors=errors,
        attempt=settings.attempt,
        **more,
    )


def _with_reviews(guarantee: Guarantee, records: Sequence[CalibrationRecord]) -> Guarantee:
    """State what review found, where it found any left-out question answered.

    If all left-out questions were reviewed without error, each threshold would be tested on the
    questions that are not answered elsewhere or do not pass, which counts leaks of
    P(passes, not answered | not both passes and answered): that falls as the threshold rises. A
    question that is answered, passes and was not reviewed adds an error and a question to that
    test, and one that is answered, does not pass and was reviewed takes a question away. Both make
    it stricter. So no threshold is certified that the whole review would not certify, whichever
    cases were reviewed, by whatever they were chosen, and after however many calibrations.
    """
    answered = sum(r.case == r.ELSEWHERE and r.relevance is not None for r in records)
    if not answered:
        return guarantee
    statement = (
        f"{guarantee.statement} Of {guarantee.n + answered} left-out questions, {answered} "
        f"{'was' if answered == 1 else 'were'} found by review to be answered by another passage "
        "and do not count; one that nobody reviewed counts as unanswered. So the share is among "
        "new questions whose source is missing, without those that pass and are answered by "
        "another passage. It is as good as the reviews: each wrong “answered” hides a leak."
    )
    loss = f"{guarantee.loss}, and review did not find it answered by another passage"
    return guarantee.model_copy(update={"statement": statement, "loss": loss})


def _certified(n: int, passages: int, errors: int, risk: float, settings: FitSettings) -> str:
    drawn = f"the {n} calibration questions (one per passage, taken as independent draws)"
    if passages < n:
        drawn = (
            f"the {passages} passages with {n} calibration questions (the passages, not their "
            "questions, taken as independent draws)"
        )
    return (
        f"With {settings.confidence} over the draw of {drawn}, "
        f"at most {percent(Decimal(str(risk)))} of questions whose answer is missing from the "
        f"knowledge base pass as covered ({errors} of {n} did in "
        "calibration). It holds for new questions like these, each passage counting once, "
        "on this knowledge base, retriever and scorer, where a question that cannot be "
        "scored is abstained from; it says nothing about another domain, another retriever "
        "or scorer, or about how the language model uses a context that passes."
    )


def _uncertified(n: int, passages: int, risk: float, settings: FitSettings) -> str:
    smallest = Leak.smallest(passages, settings.level)
    supported = (
        ""
        if smallest is None
        else f" The smallest bound that these passages can certify is {smallest:g}."
    )
    return (
        f"No threshold certifies a pass rate of at most {percent(Decimal(str(risk)))} with "
        f"{settings.confidence}, so this policy always abstains. "
        f"That takes questions on {questions_needed(risk, settings.level)} different passages "
        f"even if none of them passes; here are {n} on {passages}.{supported}"
    )


def _sha256(records: Sequence[CalibrationRecord]) -> str:
    pairs: dict[str, list[str | float | None]] = {}
    for record in records:
        values = pairs.setdefault(
            record.question_id, [record.question_id, record.group, None, None]
        )
        if record.is_answerable:
            values[2] = record.relevance
        elif record.measured_case == "left_out":
            # The same questions, whatever review finds.
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
