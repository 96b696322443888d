"""What every fit shares: its settings, its result, and the policy at one operating point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import Field, InstanceOf
from pydantic.dataclasses import dataclass as checked_dataclass

from ...guard.artefacts import Guarantee, Retrieval
from ...guard.contracts import ConflictBetween
from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.fingerprint import CascadeRule, Fingerprint
from ...guard.policy import IdentityCalibrator, Policy
from ...guard.read_models import CheckedSettings
from ...guard.routing import Calibrator
from .. import CalibrationRecord, Interval, SelectiveCurve
from ..monitoring import calibration_histograms
from ..records import Records, records_sha256
from ._statement import percent, say
from .certificate import Certificate
from .risks import CHECKED, Leak, PathPoint, Probability, Risk, Uncertified

_MOST_MISSES = 1 / 3
_RESAMPLES = 400


ProblemKind = Literal["uncertified", "blind", "abstains", "misses", "generated"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a policy should not serve.

    Attributes:
        MAX_FALSE_ABSTENTION: share of the answerable questions that a usable policy may
            abstain from, by default.
        kind: `uncertified`: no threshold met the bound; `blind`: no signal tells questions
            that can be answered from those that cannot; `abstains`: too many answerable
            questions are abstained from; `misses`: the retriever does not find the source of
            too many; `generated`: programs made more than a tenth of the questions.
        what: the reason, as a sentence.
        hint: what to do about it.
    """

    MAX_FALSE_ABSTENTION: ClassVar = 0.35

    kind: ProblemKind
    what: str
    hint: str

    @classmethod
    def find(
        cls,
        policy: Policy,
        records: Records,
        false_abstention: float | None,
        *,
        max_false_abstention: float = MAX_FALSE_ABSTENTION,
        seed: int = 0,
    ) -> tuple[Problem, ...]:
        """Find what makes a policy useless to serve, the cause before its effects.

        Args:
            policy: fitted to the records.
            records: as measured, on any scale.
            false_abstention: share of the answerable questions that it abstains from, itself and
                not what other questions would make of it; None where that is not known.
            max_false_abstention: the largest such share that will do.
            seed: of the resampling behind the interval of the AUROC.
        """
        found = [_misses(records), _blind(policy, records, seed)]
        if policy.rests_on_generated:
            found.append(cls._of("generated", policy.note))
        guarantee = policy.guarantee
        if guarantee is not None and not guarantee.certified:
            found.append(cls._of("uncertified", guarantee.statement))
        elif false_abstention is not None and false_abstention > max_false_abstention:
            found.append(cls._of("abstains", share=false_abstention, most=max_false_abstention))
        return tuple(problem for problem in found if problem is not None)

    @classmethod
    def _of(cls, kind: ProblemKind, what: str | None = None, **given: object) -> Problem:
        texts = say(f"problem.{kind}", **given) if what is None else what
        return cls(kind, texts, say(f"problem_hint.{kind}"))


def _misses(records: Records) -> Problem | None:
    asked = [
        r for r in records if r.case == "in_kb" and (r.relevance is not None or r.nothing_retrieved)
    ]
    missed = sum(not record.is_answerable for record in asked)
    few = missed <= _MOST_MISSES * len(asked)
    return None if few else Problem._of("misses", missed=missed, asked=len(asked))


def _blind(policy: Policy, records: Records, seed: int) -> Problem | None:
    """Where the AUROC of every signal that opens a route may be that of chance."""
    signals = ["relevance"] if policy.may_follow or not policy.may_answer else []
    signals += ["confidence"] if policy.may_answer and policy.estimator is not None else []
    aurocs = [(name, separation(records, name, seed=seed)) for name in signals]
    told = [
        f"{name} has an AUROC of {found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
        for name, found in aurocs
        if found.low is not None
    ]
    sees = any((found.low or 0.0) > 0.5 for _, found in aurocs)
    return Problem._of("blind", told="; ".join(told)) if told and not sees else None


def separation(records: Records, signal: str = "relevance", *, seed: int = 0) -> Interval:
    """AUROC of a signal for cases that can be answered, with its interval over units."""
    right = "context_right" if signal == "relevance" else "closed_book_right"
    by_unit: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for record in records:
        value = getattr(record, signal)
        if value is None or (record.case == "in_kb" and not record.context_right):
            # With the source in place and not retrieved it is neither.
            continue
        sides = by_unit.setdefault(record.unit, ([], []))
        sides[0 if getattr(record, right) else 1].append(value)
    return SelectiveCurve.bootstrap_auroc(list(by_unit.values()), resamples=_RESAMPLES, seed=seed)


OnJudgeFailure = Literal["abstain", "cheap"]
_Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@checked_dataclass(frozen=True, config=CHECKED)
class Cascade(CheckedSettings):
    """A costly scorer behind the cheap one, what it costs, and what its failures lead to.

    Costs are relative to one question of the cheap scorer.

    Attributes:
        costly: fingerprint of the costly scorer, whose `verdict` the records hold.
        judge_cost: of one question of the costly scorer, at least 0.
        abstention_cost: of abstaining from a question that could have been answered.
        on_failure: where the costly scorer fails, `abstain`, or decide by a threshold on the
            `cheap` scorer alone, which is certified too, at a fifth of the level.
        strict: of the strict reading of the cheap one, whose values the records hold, where the
            costly scorer is also asked about what passes by doubtful sentences; None: it is not.
    """

    costly: Fingerprint
    judge_cost: _Cost = 200.0
    abstention_cost: _Cost = 20_000.0
    on_failure: OnJudgeFailure = "abstain"
    strict: Fingerprint | None = None


# A width of the band; the share of questions that the costly scorer would be asked about; of the
# answerable ones that would be abstained from; and the cost per question.
BandWidth = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class CascadeBand:
    """The band that a fit chose, and what it chose from.

    Attributes:
        rule: of both scorers, on the cheap one's scale; None where that one decides alone, or
            nothing was certified.
        reach: width; 0 where the cheap scorer alone costs least.
        learned_on: how many questions the width was chosen on.
        widths: all widths, by rising width, estimated on the questions to learn on.
        asked: share of the questions of the test that the costly scorer is asked about.
        doubts: whether the band is one of a strict reading's values, where these are lower.
    """

    rule: CascadeRule | None
    reach: float
    learned_on: int
    widths: tuple[BandWidth, ...]
    asked: float = 0.0
    doubts: bool = False

    def applied(self, records: Records) -> tuple[CalibrationRecord, ...]:
        """The records with the relevance that the cascade gives them."""
        rule = self.rule
        if rule is None:
            return tuple(records)
        return with_relevance(
            records, lambda one, cheap: rule.value(cheap, one.verdict, strict_value(one))
        )


def with_relevance(
    records: Records, given: Callable[[CalibrationRecord, float], float]
) -> tuple[CalibrationRecord, ...]:
    """The records with another relevance, made of each that was measured."""
    return tuple(
        one if one.relevance is None else replace(one, relevance=given(one, one.relevance))
        for one in records
    )


def strict_value(record: CalibrationRecord) -> float:
    """The value of the strict reading, as `CascadeRule` takes it."""
    return math.inf if record.strict is None else record.strict


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

    UNNAMED: ClassVar = Fingerprint(kind="unnamed")

    scorer: Fingerprint = UNNAMED
    estimator: Fingerprint | None = None
    aggregator: str = "max"
    relevance_calibrator: Calibrator = field(default_factory=IdentityCalibrator)
    confidence_calibrator: Calibrator = field(default_factory=IdentityCalibrator)
    created_by: str = ""
    retrieval: Retrieval | None = None
    cascade: Cascade | None = None
    candidates: int = 1


@checked_dataclass(frozen=True, config=CHECKED)
class FitSettings(CheckedSettings):
    """What does not depend on the kind of risk; see the arguments of `fit_policy`."""

    delta: Probability
    attempt: Annotated[int, Field(strict=True, ge=1)] | None
    allowed_routes: tuple[Route, ...]
    conflict_between: ConflictBetween
    binding: InstanceOf[PolicyBinding]

    def __post_init__(self) -> None:
        if self.binding.candidates < 1:
            raise InputError(f"candidates must be 1 or more, not {self.binding.candidates}")

    @property
    def level(self) -> float:
        """The level of the test: δ, or this attempt's part of it, divided among the candidates."""
        return Guarantee.level_of(self.delta, self.attempt) / self.binding.candidates

    @property
    def confidence(self) -> str:
        """How sure the promise is, in words, naming the attempt and the candidates."""
        sure, several = f"confidence {percent(1 - Decimal(str(self.delta)))}", "attempts"
        shared, candidates = [], self.binding.candidates
        if self.attempt is not None:
            shared.append(f"attempt {self.attempt} on this data")
        if candidates > 1:
            shared.append(f"the best of {candidates} scorers")
            several = "of them"
        if not shared:
            return sure
        return (
            f"{sure} ({', '.join(shared)}, tested at level {self.level:.4g} so that all "
            f"{several} together fail with probability {self.delta:g} at most)"
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
        records: that it was fitted to.
        risk: likewise.
        cascade: the band that was chosen; None where no cascade was asked for.
    """

    policy: Policy
    certificate: Certificate
    records: tuple[CalibrationRecord, ...]
    risk: Risk
    cascade: CascadeBand | None = None

    @property
    def path(self) -> tuple[PathPoint, ...]:
        """Operating points in the order of the test."""
        return tuple(tested.point for tested in self.certificate.points)

    def problems(self) -> tuple[Problem, ...]:
        """Why the policy should not serve; empty where nothing speaks against it."""
        if isinstance(self.risk, Uncertified):
            # False abstention is what the costs make of it.
            return Problem.find(self.policy, self.records, None)
        raw, policy = isinstance(self.risk, Leak), self.policy
        calibrator = policy.relevance_calibrator if raw else IdentityCalibrator()
        routes = [
            policy.route(
                None if one.relevance is None else calibrator.apply(one.relevance),
                one.confidence,
                one.conflict,
            )
            for one in self.records
            if (one.is_answerable if raw else one.context_right) or one.closed_book_right
        ]
        abstained = routes.count(Route.ABSTAIN) / len(routes) if routes else None
        return Problem.find(policy, self.records, abstained)


def policy_at(
    certificate: Certificate,
    guarantee: Guarantee,
    records: Records,
    settings: FitSettings,
) -> Policy:
    """Build the policy that serves by one operating point, with histograms of its questions."""
    best = certificate.best
    point = PathPoint(None, None) if best is None else best.point
    binding, checks = settings.binding, point.on_conflict == "abstain"
    policy = Policy(
        created_by=binding.created_by,
        scorer=binding.scorer,
        aggregator=binding.aggregator,
        retrieval=binding.retrieval,
        estimator=binding.estimator,
        relevance_calibrator=binding.relevance_calibrator,
        confidence_calibrator=binding.confidence_calibrator,
        relevance_threshold=point.relevance,
        confidence_threshold=point.confidence,
        allowed_routes=tuple(dict.fromkeys((*settings.allowed_routes, Route.ABSTAIN))),
        check_conflict=checks,
        conflict_between=settings.conflict_between if checks else "memory",
        on_conflict="abstain" if checks else "follow_context",
        guarantee=guarantee,
        calibration_set_sha256=records_sha256(records),
    )
    # Live questions come one by one: variants of one would count as evidence about several.
    questions = CalibrationRecord.one_per_question(records)
    return policy.model_copy(update={"histograms": calibration_histograms(policy, questions)})
