"""What reviews of left-out cases did to a calibration, and how many more could change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from ...calibration import CalibrationRecord
from ...calibration.risk import Leak, PolicyBinding, Risk, fit_policy
from ...guard.decision import Route
from ...guard.policy import Policy
from ..run import Review
from ._records import CalibrationSet


@dataclass(frozen=True, slots=True)
class ReviewOutlook:
    """How far the left-out cases of a calibration were reviewed.

    Attributes:
        left_out: cases that can be reviewed.
        reviewed: those with a verdict.
        answered: of these, answered by another passage: they do not count as left out.
        unsure: of these, those that nobody was sure of: they count as leaks.
        further: unreviewed cases whose review could change the threshold. If all unreviewed cases
            that pass now turned out answered, a laxer threshold would be certified: these are the
            unreviewed cases at or above the laxer of the two. 0 where nothing is certified:
            reviews take questions away, and there are too few already. None of a cascade, and of
            another promise than a leak's, for which it is not known.
    """

    left_out: int
    reviewed: int
    answered: int
    unsure: int
    further: int | None

    @classmethod
    def of(
        cls,
        measured: CalibrationSet,
        policy: Policy,
        risk: Risk,
        certify: Sequence[CalibrationRecord],
    ) -> ReviewOutlook | None:
        """Look at a calibration; None where its records come from no run that can be reviewed.

        Args:
            measured: all records.
            policy: that was fitted.
            risk: it was fitted to.
            certify: records that the certificate rests on.
        """
        reviews = measured.reviews
        if reviews is None:
            return None
        verdicts = list(reviews.values())
        known = isinstance(risk, Leak) and measured.cascade is None
        return cls(
            left_out=sum(
                r.measured_case == "left_out" and r.relevance is not None for r in measured.records
            ),
            reviewed=len(verdicts),
            answered=verdicts.count(Review.Verdict.ANSWERED),
            unsure=verdicts.count(Review.Verdict.UNSURE),
            further=_further(policy, risk, certify, reviews) if known else None,
        )

    def lines(self, run: str) -> list[str]:
        """What `knowgate calibrate` prints; `run` is the folder that can be reviewed."""
        if not self.left_out:
            return []  # the promise is not about left-out questions
        lines = [f"reviews: none of {self.left_out} left-out questions was reviewed"]
        if self.reviewed:
            unsure = f", {self.unsure} unsure" if self.unsure else ""
            lines = [
                f"reviews: {self.reviewed} of {self.left_out} left-out questions reviewed, "
                f"{self.answered} answered after all by another passage{unsure}"
            ]
        if self.further:
            verb = "review" if self.further == 1 else "reviews"
            lines.append(
                f"{self.further} further {verb} could change the threshold: "
                f"knowgate review {quote(run)}"
            )
        elif self.further is not None:
            lines.append("no further review could change the threshold")
        return lines


def _further(
    policy: Policy,
    risk: Risk,
    certify: Sequence[CalibrationRecord],
    reviews: Mapping[str, Review.Verdict],
) -> int:
    guarantee = policy.guarantee
    if guarantee is None or not guarantee.certified:
        return 0
    open_cases = [
        r
        for r in certify
        if r.case == "left_out" and r.relevance is not None and r.question_id not in reviews
    ]
    passing = _passing(policy, open_cases)
    answered = frozenset(record.question_id for record in passing)
    records = [
        replace(record, case=record.ELSEWHERE, context_right=True)
        if record.case == "left_out" and record.question_id in answered
        else record
        for record in certify
    ]
    laxer = fit_policy(
        records,
        risk,
        delta=guarantee.delta,
        attempt=guarantee.attempt,
        binding=PolicyBinding(
            scorer=policy.scorer,
            aggregator=policy.aggregator,
            candidates=guarantee.candidates,
        ),
    ).policy
    return max(len(passing), len(_passing(laxer, open_cases)))


def _passing(policy: Policy, records: Sequence[CalibrationRecord]) -> list[CalibrationRecord]:
    return [
        record
        for record in records
        if record.relevance is not None
        and policy.route(policy.relevance_calibrator.apply(record.relevance), None)
        is Route.FOLLOW_CONTEXT
    ]
