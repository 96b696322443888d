"""A policy from leave-one-out relevance: how often may a missing answer pass?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from ...guard.decision import Route
from ...guard.policy import (
    Calibrator,
    Fingerprint,
    Guarantee,
    Histogram,
    PlattCalibrator,
    Policy,
    StepCalibrator,
)
from .. import (
    LeaveOneOutRecord,
    binomial_p_value,
    errors_allowed,
    fit_platt,
    one_per_group,
    questions_needed,
    records_sha256,
)


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """A threshold and the evidence for it.

    Attributes:
        threshold: pass from this score on (inclusive); None when nothing qualifies.
        errors: questions at or above it that should not pass.
        n: questions the certificate rests on.
        p_value: of "the true pass rate is above the bound"; 1.0 without evidence.
    """

    threshold: float | None
    errors: int
    n: int
    p_value: float


def choose_threshold(
    must_not_pass: Sequence[float],
    *,
    risk: float,
    delta: float,
    may_pass: Sequence[float] = (),
) -> ThresholdChoice:
    """The laxest threshold whose pass rate is at most `risk`, with confidence 1 - `delta`.

    With k the most errors that the exact binomial tail allows among n questions,
    the threshold lies above the (k+1)-th highest score. The pass rate falls as
    the threshold rises, so this equals fixed-sequence testing of every threshold
    from the strictest on, and choosing it from the data costs nothing: the true
    pass rate at an order statistic is Beta(k+1, n-k), whose tail above `risk` is
    that same binomial tail.

    Args:
        must_not_pass: one finite score per independent question that must not pass.
        risk: bound on the true pass rate, in (0, 1).
        delta: probability that the bound fails by bad luck in the draw, in (0, 1).
        may_pass: other scores, used only to place the threshold in the middle of
            the free gap, away from both neighbours.

    Source: Angelopoulos et al. 2021, Learn then Test; Wilks 1941 for tolerance limits.

    Example:
        >>> choose_threshold([0.1] * 21 + [0.5], risk=0.1, delta=0.1, may_pass=[0.9]).threshold
        0.7
        >>> choose_threshold([0.1] * 10, risk=0.1, delta=0.1).threshold is None
        True
    """
    if not all(map(math.isfinite, (*must_not_pass, *may_pass))):
        raise ValueError("scores must be finite")
    n = len(must_not_pass)
    allowed = errors_allowed(n, risk, delta)
    if allowed is None:
        return ThresholdChoice(None, 0, n, binomial_p_value(0, n, risk))
    ranked = sorted(must_not_pass, reverse=True)
    below = ranked[allowed]
    higher = [score for score in (*must_not_pass, *may_pass) if score > below]
    # The middle of the gap, so that the last bit of a score never decides; where there is
    # nothing above, the next number up.
    above = min(higher, default=math.nextafter(below, math.inf))
    # Halved first: the sum of two huge scores would be infinite.
    threshold = below / 2 + above / 2
    if not below < threshold <= above:
        threshold = above
    if math.isinf(threshold):
        # The (k+1)-th highest score is the largest float: nothing can lie above it.
        return ThresholdChoice(None, 0, n, 1.0)
    errors = sum(score >= threshold for score in must_not_pass)
    return ThresholdChoice(threshold, errors, n, binomial_p_value(errors, n, risk))


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
    The certificate rests on one question per group: questions on one passage tend
    to pass together, so counting each as evidence of its own certifies falsely
    more often than `delta`. Which one it is hangs on the ids alone. All questions
    go into the curve. A question that could not be measured is left out: a guard
    abstains from those, so that can only lower the pass rate. A question whose
    source the retriever missed counts as left out only, never as answerable.

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
    measured = [r for r in records if r.left_out is not None]
    left_out = [r.left_out for r in records if r.left_out is not None]
    in_kb = [r.in_kb for r in records if r.in_kb is not None]
    choice = choose_threshold(
        [r.left_out for r in one_per_group(measured) if r.left_out is not None],
        risk=risk,
        delta=delta,
        may_pass=[*in_kb, *left_out],
    )
    calibrator = fit_platt(in_kb, left_out)
    threshold = None
    if choice.threshold is not None:
        calibrator = _order_keeping(calibrator, choice.threshold, [*in_kb, *left_out])
        threshold = calibrator.apply(choice.threshold)
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


def _order_keeping(calibrator: Calibrator, threshold: float, scores: Sequence[float]) -> Calibrator:
    """`calibrator`, unless it merges the threshold with the score beneath it.

    A curve that is too steep or too flat for floating point, or one that clips,
    would let scores pass that the certificate counts as stopped.
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


def _guarantee(choice: ThresholdChoice, risk: float, delta: float) -> Guarantee:
    confidence, bound = _percent(1 - Decimal(str(delta))), _percent(Decimal(str(risk)))
    if choice.threshold is None:
        statement = (
            f"No threshold certifies a pass rate of at most {bound} with confidence "
            f"{confidence} from {choice.n} question{'' if choice.n == 1 else 's'} on different "
            "passages, so this policy always abstains. At least "
            f"{questions_needed(risk, delta)} independent questions are needed to calibrate on, "
            "one per passage; those kept back for testing do not count."
        )
    else:
        statement = (
            f"With confidence {confidence} over the draw of the {choice.n} calibration "
            "questions (one per passage, taken as independent draws), "
            f"at most {bound} of questions whose answer is missing from the "
            f"knowledge base pass as covered ({choice.errors} of {choice.n} did in "
            "calibration). It holds for new questions like these, each passage counting once, "
            "on this knowledge base, retriever and scorer, where a question that cannot be "
            "scored is abstained from; it says nothing about another domain, another retriever "
            "or scorer, or about how the language model uses a context that passes."
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


def _percent(share: Decimal) -> str:
    # All digits: a bound of 0.04 % must not read "0.0%", nor 99.99 % confidence "100.0%".
    return f"{(100 * share).normalize():f}%"


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


# A product such as 0.29 · 100 falls short of the whole number that it means.
_ROUNDING = 1e-9


def false_abstention_at_leak(
    positives: Sequence[float], negatives: Sequence[float], leak: float
) -> float | None:
    """Share of positives turned away where at most `leak` of the negatives pass.

    A case passes from the threshold on. The threshold is the most lenient one at which
    `leak · len(negatives)` negatives, rounded down, or fewer pass; a positive that ties with
    a negative passes only where that negative may pass too.

    Args:
        positives: scores of the cases that should pass.
        negatives: scores of the cases that should not.
        leak: share of negatives that may pass, in [0, 1].

    Returns:
        A share in [0, 1]; None where either kind is missing. Positives and negatives that
        cannot be told apart give about `1 - leak`.

    Raises:
        ValueError: a score is NaN, or `leak` is out of range.

    Example:
        >>> false_abstention_at_leak([0.9, 0.6, 0.4, 0.2], [0.5, 0.3, 0.1, 0.0], 0.25)
        0.25
    """
    if not 0.0 <= leak <= 1.0:
        raise ValueError(f"leak must be between 0 and 1, not {leak}")
    good = np.asarray(positives, dtype=np.float64)
    bad = np.sort(np.asarray(negatives, dtype=np.float64))[::-1]
    if np.isnan(good).any() or np.isnan(bad).any():
        raise ValueError("scores must not be NaN")
    if not len(good) or not len(bad):
        return None
    may_pass = math.floor(leak * len(bad) + _ROUNDING)
    if may_pass >= len(bad):
        return 0.0
    # The best negative that must not pass: the threshold is the next score above it.
    return float(np.mean(good <= bad[may_pass]))
