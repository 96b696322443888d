"""Fit a policy to leave-one-out relevance: how often may a missing answer pass?

left-out relevance, passage by passage ─► thresholds, strict to lax ─► test ─► threshold
all relevance ─► logistic curve that keeps the order at the chosen threshold ─► Policy

Nothing is set aside: the threshold is tested on the raw scale, where a higher one never lets
more pass, and the curve only renames it.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...guard.artefacts import Groups, Guarantee, Histogram, LeakTest
from ...guard.decision import Route
from ...guard.policy import Policy
from ...guard.routing import Calibrator, PlattCalibrator, StepCalibrator
from .. import CalibrationRecord
from ..calibrators import fit_platt
from ..records import MISSING_CASES, Records, lines_sha256
from ..statistics import Floats, middles, numbered, questions_needed
from ._statement import percent, say, stored_point
from .certificate import (
    Certificate,
    PointResult,
    binomial_p_values,
    evidence_of,
    group_counts,
    hoeffding_bentkus_p_values,
    known_p_values,
    sequence_certificate,
)
from .fit import Fit, FitSettings
from .risks import Leak, PathPoint, RiskTarget


def fit_leak(records: Records, risk: Leak, settings: FitSettings) -> Fit:
    """Fit a policy that lets at most `risk.bound` of questions without an answer pass.

    The passage is the unit: questions on one passage tend to pass together, so counting each
    as evidence of its own certifies falsely more often than `delta`. All of them count, as
    their share of the passage does. All questions go into the calibrator, a
    logistic curve of the raw score. A question whose relevance could not be measured is left
    out: a guard abstains from those, so that can only lower the pass rate. A question whose
    source the retriever missed counts as left out only, never as answerable. A left-out case that
    review found to be answered by another passage counts as one that may pass.

    What must not pass are the records with their source left out, or those of unanswerable
    questions. Where there are both, each population is tested at the full level and the stricter
    threshold is taken: it breaks a bound only if the test of that population failed, so the
    promise holds for both together.
    """
    found = {
        case: fit_population(part, risk, settings) for case, part in by_population(records).items()
    }
    fit, raw = max(found.values(), key=lambda one: math.inf if one[1] is None else one[1])
    if len(found) == 1:
        return fit
    assert fit.policy.guarantee is not None
    guarantee = fit.policy.guarantee.model_copy(update={"missing": "both"})
    if raw is not None:
        guarantee = _of_both(records, fit, raw, risk, settings)
    policy = fit.policy.model_copy(
        update={"guarantee": guarantee, "calibration_set_sha256": _sha256(records)}
    )
    return replace(fit, policy=policy, records=tuple(records))


def populations_of(records: Records) -> list[str]:
    """Return the cases that must not pass which the records hold; `left_out` where none is."""
    measured = {record.case for record in records if record.relevance is not None}
    return [case for case in MISSING_CASES if case in measured] or [MISSING_CASES[0]]


def by_population(records: Records) -> dict[str, list[CalibrationRecord]]:
    """Per kind of cases that must not pass the records of these, and of what may pass."""
    return {
        case: [r for r in records if not r.is_missing or r.case == case]
        for case in populations_of(records)
    }


def fit_population(
    records: Records,
    risk: Leak,
    settings: FitSettings,
    *,
    level: float | None = None,
    thresholds: Floats | None = None,
) -> tuple[Fit, float | None]:
    """Fit to one kind of cases that must not pass; also the raw threshold.

    Args:
        records: whose cases that must not pass are of one kind.
        risk: the bound.
        settings: of the fit.
        level: of the test; that of the settings by default.
        thresholds: to test, from strict to lax; one above each score that must not pass by default.
    """
    in_kb, missing = raw_relevance(records)
    if thresholds is None:
        thresholds = thresholds_between(missing.scores, in_kb)
    calibrator, level = fit_platt(in_kb, missing.scores.tolist()), level or settings.level
    certificate, raw = certify_leak(missing, thresholds, calibrator, risk.target, level)
    if raw is not None:
        # Thresholds may be renamed, but not moved.
        kept = order_keeping(calibrator, raw, [*in_kb, *missing.scores.tolist()])
        if kept is not calibrator:
            calibrator = kept
            certificate, raw = certify_leak(missing, thresholds, kept, risk.target, level)
    guarantee = _guarantee(records, populations_of(records)[0], certificate, raw, risk, settings)
    policy = threshold_policy(records, calibrator, raw, settings)
    policy = policy.model_copy(update={"guarantee": guarantee})
    return Fit(policy, certificate, tuple(records), risk), raw


def _of_both(
    records: Records, fit: Fit, raw: float, risk: Leak, settings: FitSettings
) -> Guarantee:
    """The guarantee of the stricter threshold, for both kinds of cases that must not pass."""
    found = {}
    for case, part in by_population(records).items():
        missing = raw_relevance(part)[1]
        certificate, _ = certify_leak(
            missing, np.asarray([raw]), fit.policy.relevance_calibrator, risk.target, settings.level
        )
        found[case] = _guarantee(part, case, certificate, raw, risk, settings)
    main, other = (found[case] for case in MISSING_CASES)
    point = main.path[0]
    more = {
        "statement": say(
            "leak.both",
            main=main.statement,
            other=f"{other.statement[:1].lower()}{other.statement[1:]}",
        ),
        "loss": f"{main.loss}; likewise {other.loss}",
        "risks": (*main.risks, *other.risks),
        "path": (point.model_copy(update={"p_value": max(point.p_value, other.path[0].p_value)}),),
        "unanswerable_topics": other.unanswerable_topics,
        "missing": "both",
    }
    return main.model_copy(update=more)


def threshold_policy(
    records: Records,
    calibrator: Calibrator,
    raw: float | None,
    settings: FitSettings,
) -> Policy:
    """Make the policy with this raw threshold, without a guarantee."""
    case, part = next(iter(by_population(records).items()))
    in_kb, missing = raw_relevance(part)
    names = {"relevance.in_kb": in_kb, f"relevance.{case}": missing.scores.tolist()}
    histograms, edges = {}, np.linspace(0.0, 1.0, 21)
    for name, scores in names.items():
        counts = np.histogram([calibrator.apply(score) for score in scores], edges)[0]
        histograms[name] = Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist()))
    binding = settings.binding
    return Policy(
        created_by=binding.created_by,
        scorer=binding.scorer,
        aggregator=binding.aggregator,
        retrieval=binding.retrieval,
        relevance_calibrator=calibrator,
        relevance_threshold=None if raw is None else calibrator.apply(raw),
        allowed_routes=(Route.FOLLOW_CONTEXT, Route.ABSTAIN),
        calibration_set_sha256=_sha256(records),
        histograms=histograms,
    )


def raw_relevance(records: Records) -> tuple[list[float], LeftOut]:
    """Raw relevance of what may pass, and of what must not."""
    in_kb = [r.relevance for r in records if r.may_pass and r.relevance is not None]
    return in_kb, LeftOut.of([r for r in records if r.is_missing and r.relevance is not None])


def order_keeping(calibrator: Calibrator, threshold: float, scores: Sequence[float]) -> Calibrator:
    """`calibrator`, unless it merges the threshold with the score beneath it, if there is one.

    A curve that is too steep or too flat for floating point, or one that clips,
    would let scores pass that the certificate counts as abstained from.
    """
    beneath = max((score for score in scores if score < threshold), default=None)
    if beneath is None:
        return calibrator
    for candidate in (calibrator, _gentle_curve(min(scores), max(*scores, threshold))):
        if candidate is not None and candidate.apply(beneath) < candidate.apply(threshold):
            return candidate
    # Tells the two sides of the threshold apart, and no more.
    return StepCalibrator(edges=(threshold,), values=(0.25, 0.75))


def _gentle_curve(lowest: float, highest: float) -> Calibrator | None:
    """A logistic curve that rises over the range of the scores, if not calibrated."""
    width = highest - lowest
    a = 4.0 / width
    b = -a * (lowest + width / 2)
    return PlattCalibrator(a=a, b=b) if 0.0 < a < math.inf and math.isfinite(b) else None


def _guarantee(
    records: Records,
    case: str,
    certificate: Certificate,
    threshold: float | None,
    risk: Leak,
    settings: FitSettings,
) -> Guarantee:
    """State what was certified of the cases of one kind, and the counts that it follows from."""
    left_out = raw_relevance(records)[1]
    n, passages = certificate.questions, len(left_out.sizes)
    # What says nothing stays out of the file.
    more: dict[str, Any] = {"method": say("leak.method")} if passages < n else {}
    more["missing"] = case
    if settings.binding.candidates > 1:
        more["candidates"] = settings.binding.candidates
    errors, chosen = 0, certificate.best
    if chosen is None:
        statement = _uncertified(case, n, passages, risk.bound, settings)
        more["more_questions"] = max(0, questions_needed(risk.bound, settings.level) - passages)
    else:
        assert threshold is not None
        errors = chosen.wrong
        seen = {"n": n, "units": passages}
        statement = say(
            f"{case}.certified",
            sure=settings.confidence,
            drawn=say(f"{case}.drawn_{'grouped' if passages < n else 'alone'}", **seen),
            bound=percent(risk.bound),
            errors=errors,
            n=n,
        )
        evidence = chosen.main.model_copy(update={"kind": say(f"{case}.kind")})
        more |= {"risks": (evidence,), "path": (stored_point(chosen),), "chosen": 0}
        if passages < n:
            counts = "passages" if case == "left_out" else "unanswerable_topics"
            more[counts] = left_out.counts(threshold)
    guarantee = Guarantee(
        statement=statement,
        risk=risk.bound,
        delta=settings.delta,
        certified=chosen is not None,
        loss=say(f"{case}.loss"),
        n=n,
        errors=errors,
        attempt=settings.attempt,
        **more,
    )
    return _with_reviews(guarantee, records) if case == "left_out" else guarantee


def _with_reviews(guarantee: Guarantee, records: Records) -> Guarantee:
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
    more = {
        "statement": say(
            "leak.reviewed",
            statement=guarantee.statement,
            n=guarantee.n + answered,
            answered=answered,
            were="was" if answered == 1 else "were",
        ),
        "loss": say("leak.reviewed_loss", loss=guarantee.loss),
    }
    return guarantee.model_copy(update=more)


def _uncertified(case: str, n: int, passages: int, risk: float, settings: FitSettings) -> str:
    count = questions_needed(risk, settings.level)
    unit, here = say(f"{case}.unit"), f"{n} on {passages}"
    needed = f"questions on {count} different {unit}s"
    if case != "left_out" and passages == n:
        unit, needed, here = "question", f"{count} unanswerable questions", f"{n}"
    supported = ""
    # Of several attempts, only who counts them knows at what level the next one is tested.
    if settings.attempt is None:
        smallest = Leak.smallest(passages, settings.level)
        if smallest is not None:
            supported = f" {say('leak.supported', units=f'{unit}s', smallest=smallest)}"
    return say(
        "leak.uncertified",
        bound=percent(risk),
        sure=settings.confidence,
        needed=needed,
        here=here,
        supported=supported,
    )


def _sha256(records: Records) -> str:
    pairs: dict[str, list[str | float | None]] = {}
    for record in records:
        values = pairs.setdefault(
            record.question_id, [record.question_id, record.group, None, None]
        )
        if record.is_answerable:
            values[2] = record.relevance
        elif record.measured_case in MISSING_CASES:
            # The same questions, whatever review finds.
            values[3] = record.relevance
    return lines_sha256(map(json.dumps, pairs.values()))


# Points of a long path that a certificate shows.
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Raw relevance of questions that must not pass.

    Attributes:
        scores: finite, shape (n,).
        passages: number of the passage of each, from 0, shape (n,).
        sizes: questions of each passage, shape (passages,).
    """

    scores: Floats
    passages: NDArray[np.intp]
    sizes: Floats

    @classmethod
    def of(cls, records: Records) -> LeftOut:
        """From records that have a relevance."""
        passages = numbered(record.unit for record in records)
        return cls(
            np.asarray([record.relevance for record in records], dtype=np.float64),
            passages,
            np.bincount(passages).astype(np.float64),
        )

    @property
    def weights(self) -> Floats:
        """Of each question, such that every passage counts once; their sum is 1."""
        return np.asarray(1.0 / self.sizes[self.passages] / len(self.sizes))

    def shares(self, thresholds: Floats) -> Floats:
        """Share of each passage's questions that pass, shape (thresholds, passages)."""
        found = [
            np.bincount(self.passages[self.scores >= threshold], minlength=len(self.sizes))
            for threshold in thresholds.tolist()
        ]
        return np.asarray(found, dtype=np.float64).reshape(-1, len(self.sizes)) / self.sizes

    def passing(self, thresholds: Floats) -> Floats:
        """Share that passes at each threshold, each passage counting once."""
        order = np.argsort(-self.scores, kind="stable")
        shares = np.append(0.0, np.cumsum(self.weights[order]))
        # Scores fall along the order: the first so many are at a threshold or above.
        beneath = np.searchsorted(self.scores[order[::-1]], thresholds)
        return np.asarray(shares[len(order) - beneath])

    def counts(self, threshold: float) -> Groups:
        """Questions of a passage, those of them that pass, and how many such passages there are."""
        through = self.passages[self.scores >= threshold]
        return group_counts(
            self.sizes.astype(np.int64), np.bincount(through, minlength=len(self.sizes))
        )


def certify_leak(
    left_out: LeftOut, thresholds: Floats, calibrator: Calibrator, target: RiskTarget, delta: float
) -> tuple[Certificate, float | None]:
    """Test thresholds on raw relevance in order at level `delta`, until one is not certified.

    The pass rate falls as the threshold rises, and so does each passage's share of questions
    that pass. If some threshold whose pass rate is above the bound passes the test, so does
    the strictest such one, and that happens with probability δ at most. So thresholds may lie
    between the scores themselves.

    With one question per passage the test is the exact binomial tail; else it is that of the
    passages' shares (`leak_p_values`).

    Points after the first that fails are left out of the certificate: they would fail too.

    Args:
        left_out: what must not pass.
        thresholds: from strict to lax; a score passes from the threshold on.
        calibrator: turns thresholds into operating points; takes no part in the test.
        target: the bound on the pass rate.
        delta: probability that the chosen point breaks it by bad luck.

    Returns:
        The certificate, and the raw threshold that it chose.

    Source: Angelopoulos et al. 2021, Learn then Test; Bates et al. 2021 for the risk that
    falls along the path.
    """
    n = len(left_out.scores)
    errors = n - np.searchsorted(np.sort(left_out.scores), thresholds).astype(np.int64)
    # Places of the thresholds up to the first that fails, and their p-values.
    shown, p_values = np.arange(len(thresholds)), np.zeros(0)
    if len(left_out.sizes) == n:
        p_values = binomial_p_values(errors.astype(np.float64), np.asarray(n), target.bound)
        tested = int(np.searchsorted(p_values > delta, True)) + 1
        shown, p_values = shown[:tested], p_values[:tested]
    elif len(thresholds):
        of_shares = leak_p_values(left_out.sizes, target.bound, delta)

        def fails_at(place: int) -> bool:
            return bool(of_shares(left_out.shares(thresholds[[place]]))[0] > delta)

        fails = bisect_left(range(len(thresholds)), True, key=fails_at)
        last = min(fails, len(thresholds) - 1)
        # The path of many questions is shown in steps; the points on both sides of the end are.
        steps = np.linspace(0, last, min(last + 1, _MOST_SHOWN)).astype(np.intp)
        shown = np.union1d(steps, [max(0, fails - 1), last])[: len(thresholds)]
        p_values = of_shares(left_out.shares(thresholds[shown]))
    points = tuple(
        PointResult(
            PathPoint(calibrator.apply(float(thresholds[place])), None),
            {Route.ABSTAIN: n - wrong, Route.FOLLOW_CONTEXT: wrong, Route.ANSWER: 0},
            wrong,
            (evidence_of(target, n, float(wrong), p_value),),
        )
        for place, wrong, p_value in zip(
            shown.tolist(), errors[shown].tolist(), p_values.tolist(), strict=True
        )
    )
    found = sequence_certificate(points, n, delta)
    return found, None if found.chosen is None else float(thresholds[shown[found.chosen]])


def leak_p_values(sizes: Floats, bound: float, delta: float) -> Callable[[Floats], Floats]:
    """Prepare the p-values of "more than `bound` pass", from each passage's share that passes.

    Args:
        sizes: questions of each passage.
        bound: α on the mean share.
        delta: level of the test; p-values well above it may be given as 1.

    Returns:
        A function of shares of shape (points, passages), giving shape (points,).
    """
    if (sizes == 1).all():
        count = np.full(1, len(sizes))
        return lambda shares: binomial_p_values(shares.sum(axis=1), count, bound)
    test = LeakTest.of(sizes.tolist(), bound)
    if test.takes_long:
        return lambda shares: hoeffding_bentkus_p_values(shares.sum(axis=1), len(sizes), bound)
    known = known_p_values(test, delta)
    return lambda shares: known[np.minimum(test.totals(shares), len(known) - 1)]


def thresholds_between(must_not_pass: Floats, may_pass: Sequence[float]) -> Floats:
    """Compute a threshold above each score that must not pass, the highest first.

    Args:
        must_not_pass: finite scores.
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
    found = middles(below, above)
    return np.asarray(found[np.isfinite(found)])
