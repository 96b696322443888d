"""What reviews of left-out cases did to a calibration, and how many more could change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from ...calibration import CalibrationRecord
from ...calibration.risk import Leak, PolicyBinding, fit_policy
from ...guard.decision import Route
from ...guard.policy import Policy
from ..run import ReviewVerdict

if TYPE_CHECKING:
    from ._fit import Calibrated


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
    def of(cls, found: Calibrated) -> ReviewOutlook | None:
        """Look at a calibration; None where its records come from no run that can be reviewed."""
        reviews = found.measured.reviews
        if reviews is None:
            return None
        verdicts = list(reviews.values())
        return cls(
            left_out=sum(
                r.measured_case == "left_out" and r.relevance is not None
                for r in found.measured.records
            ),
            reviewed=len(verdicts),
            answered=verdicts.count(ReviewVerdict.ANSWERED),
            unsure=verdicts.count(ReviewVerdict.UNSURE),
            further=_further(found, reviews)
            if isinstance(found.risk, Leak) and found.cascade is None
            else None,
        )

    def lines(self, run: str) -> list[str]:
        """What `knowgate calibrate` prints; `run` is the folder that can be reviewed."""
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


def review_lines(found: Calibrated) -> list[str]:
    """What `knowgate calibrate` says of reviews; nothing where there is nothing to review."""
    outlook = ReviewOutlook.of(found)
    return [] if outlook is None else outlook.lines(found.measured.source)


def _further(found: Calibrated, reviews: Mapping[str, ReviewVerdict]) -> int:
    guarantee = found.policy.guarantee
    if guarantee is None or not guarantee.certified:
        return 0
    open_cases = [
        r
        for r in found.certify
        if r.case == "left_out" and r.relevance is not None and r.question_id not in reviews
    ]
    passing = _passing(found.policy, open_cases)
    answered = frozenset(record.question_id for record in passing)
    records = [
        replace(record, case=record.ELSEWHERE, context_right=True)
        if record.case == "left_out" and record.question_id in answered
        else record
        for record in found.certify
    ]
    laxer = fit_policy(
        records,
        found.risk,
        delta=guarantee.delta,
        attempt=guarantee.attempt,
        binding=PolicyBinding(
            scorer=found.policy.scorer,
            aggregator=found.policy.aggregator,
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
