"""What every fit shares: its settings, its result, and the policy at one operating point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, get_args

from ...guard.contracts import ConflictBetween
from ...guard.decision import Route
from ...guard.policy import (
    Calibrator,
    Fingerprint,
    Guarantee,
    IdentityCalibrator,
    Policy,
    Retrieval,
)
from .. import CalibrationRecord
from .._records import records_sha256
from .._statistics import SMALLEST_PROBABILITY
from ..monitoring import calibration_histograms
from ._cascade_settings import Cascade, CascadeBand
from ._certificate import Certificate
from ._path import PathPoint
from ._problems import Problem
from ._risks import Leak, Risk, Uncertified
from ._statement import percent

_UNNAMED = Fingerprint(kind="unnamed")
ALL_ROUTES = (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN)


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """What a policy is bound to besides its thresholds.

    Attributes:
        UNNAMED: stands for a scorer without a name.
        scorer: fingerprint of the relevance scorer. The default is `UNNAMED`: no guard
            loads such a policy, but `Policy.route` works.
        estimator: fingerprint of the confidence estimator, if one took part.
        aggregator: how passage scores became one value per question.
        relevance_calibrator: made the records' relevance of raw values, on other data.
        confidence_calibrator: likewise.
        created_by: program and version.
        retrieval: what the records' passages were retrieved by, None where not known.
        cascade: for a leak: the costly scorer behind `scorer`, whose verdicts the records hold;
            None: there is none.
        candidates: for a leak: how many scorers are calibrated on the same questions, of which
            one is then chosen. Each is tested at this part of the level, so that the promise
            holds whichever it is.
    """

    UNNAMED: ClassVar = _UNNAMED

    scorer: Fingerprint = _UNNAMED
    estimator: Fingerprint | None = None
    aggregator: str = "max"
    relevance_calibrator: Calibrator = field(default_factory=IdentityCalibrator)
    confidence_calibrator: Calibrator = field(default_factory=IdentityCalibrator)
    created_by: str = ""
    retrieval: Retrieval | None = None
    cascade: Cascade | None = None
    candidates: int = 1


@dataclass(frozen=True, slots=True)
class FitSettings:
    """What does not depend on the kind of risk; see the arguments of `fit_policy`."""

    delta: float
    attempt: int | None
    allowed_routes: Sequence[Route]
    conflict_between: ConflictBetween
    binding: PolicyBinding

    def __post_init__(self) -> None:
        if not SMALLEST_PROBABILITY <= self.delta <= 1 - SMALLEST_PROBABILITY:
            raise ValueError(f"delta must be between 0 and 1, not {self.delta}")
        number = self.attempt
        if number is not None and (type(number) is not int or number < 1):
            raise ValueError(f"attempt must be a whole number, 1 or more, not {number!r}")
        if self.conflict_between not in get_args(ConflictBetween):
            raise ValueError(
                "conflict_between must be 'memory', 'passages' or 'both', not "
                f"{self.conflict_between!r}"
            )
        if self.binding.candidates < 1:
            raise ValueError(f"candidates must be 1 or more, not {self.binding.candidates}")
        if isinstance(self.allowed_routes, str):
            raise ValueError("allowed_routes must be a sequence of routes")
        object.__setattr__(self, "allowed_routes", tuple(map(Route, self.allowed_routes)))

    @property
    def level(self) -> float:
        """The level of the test: δ, or this attempt's part of it, divided among the candidates."""
        return Guarantee.level_of(self.delta, self.attempt) / self.binding.candidates

    @property
    def confidence(self) -> str:
        """How sure the promise is, in words, naming the attempt and the candidates."""
        sure = f"confidence {percent(1 - Decimal(str(self.delta)))}"
        shared, candidates = [], self.binding.candidates
        if self.attempt is not None:
            shared.append(f"attempt {self.attempt} on this data")
        if candidates > 1:
            shared.append(f"the best of {candidates} scorers")
        if not shared:
            return sure
        return (
            f"{sure} ({', '.join(shared)}, tested at level {self.level:.4g} so that all "
            f"{'attempts' if candidates == 1 else 'of them'} together fail with probability "
            f"{self.delta:g} at most)"
        )

    @property
    def may_follow(self) -> bool:
        """Whether the context may be followed."""
        return Route.FOLLOW_CONTEXT in self.allowed_routes

    @property
    def may_answer(self) -> bool:
        """Whether memory may answer."""
        return Route.ANSWER in self.allowed_routes


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted policy and what it rests on.

    Attributes:
        policy: certified, or one that always abstains and says so.
        certificate: the test of each point of the path.
        path: operating points in the order of the test.
        records: that it was fitted to.
        risk: likewise.
        cascade: the band that was chosen; None where no cascade was asked for.
    """

    policy: Policy
    certificate: Certificate
    path: tuple[PathPoint, ...]
    records: tuple[CalibrationRecord, ...]
    risk: Risk
    cascade: CascadeBand | None = None

    def problems(
        self, *, max_false_abstention: float = Problem.MAX_FALSE_ABSTENTION
    ) -> tuple[Problem, ...]:
        """Why the policy should not serve; empty where nothing speaks against it.

        Args:
            max_false_abstention: share of the answerable questions that it may abstain from.
        """
        raw, policy = isinstance(self.risk, Leak | Uncertified), self.policy
        routes = []
        for record in self.records:
            right = record.is_answerable if raw else record.context_right
            if right or record.closed_book_right:
                relevance = record.relevance
                if raw and relevance is not None:
                    relevance = policy.relevance_calibrator.apply(relevance)
                routes.append(policy.route(relevance, record.confidence, record.conflict))
        abstained = routes.count(Route.ABSTAIN) / len(routes) if routes else None
        if isinstance(self.risk, Uncertified):
            abstained = None  # is what the costs make of it
        return Problem.find(
            policy, self.records, abstained, max_false_abstention=max_false_abstention
        )


def policy_at(
    chosen: PathPoint | None,
    guarantee: Guarantee,
    records: Sequence[CalibrationRecord],
    settings: FitSettings,
) -> Policy:
    """Build the policy that serves by one operating point, with histograms of its questions."""
    point = PathPoint(None, None) if chosen is None else chosen
    binding, checks = settings.binding, point.on_conflict == "abstain"
    policy = Policy(
        created_by=binding.created_by,
        scorer=binding.scorer,
        estimator=binding.estimator,
        aggregator=binding.aggregator,
        relevance_calibrator=binding.relevance_calibrator,
        confidence_calibrator=binding.confidence_calibrator,
        relevance_threshold=point.relevance,
        confidence_threshold=point.confidence,
        allowed_routes=tuple(dict.fromkeys((*settings.allowed_routes, Route.ABSTAIN))),
        check_conflict=checks,
        conflict_between=settings.conflict_between if checks else "memory",
        on_conflict="abstain" if checks else "follow_context",
        guarantee=guarantee,
        retrieval=binding.retrieval,
        calibration_set_sha256=records_sha256(records),
    )
    # Live questions come one by one: variants of one would count as evidence about several.
    questions = CalibrationRecord.one_per_question(records)
    return policy.model_copy(update={"histograms": calibration_histograms(policy, questions)})
