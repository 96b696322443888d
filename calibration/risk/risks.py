"""The kinds of risk that a policy can be fitted to, its operating points, and paths of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field
from numbers import Real
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from ...guard.artefacts import Missing
from ...guard.read_models import CheckedSettings
from ..statistics import SMALLEST_PROBABILITY

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Cost = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# Closer to 0 no number of questions helps, and closer to 1 nothing is left to certify.
Probability = Annotated[
    float, Field(ge=SMALLEST_PROBABILITY, le=1 - SMALLEST_PROBABILITY, allow_inf_nan=False)
]
CHECKED = ConfigDict(extra="forbid")

RiskKind = Literal[
    "selective", "follow", "answer", "false_abstention", "cost", "abstention", "leak"
]


@dataclass(frozen=True, config=CHECKED)
class LossTable(CheckedSettings):
    """What each error costs, in [0, 1]; everything else costs nothing.

    Attributes:
        wrong_follow: following a context to a wrong answer.
        wrong_answer: a wrong answer from memory.
        false_abstention: abstaining where the context or memory would have been right.
    """

    wrong_follow: _Share = 1.0
    wrong_answer: _Share = 1.0
    false_abstention: _Share = 0.0

    @property
    def all_or_nothing(self) -> bool:
        """Whether every error costs 0 or 1, so that the exact binomial tail applies."""
        return {self.wrong_follow, self.wrong_answer, self.false_abstention} <= {0.0, 1.0}


@dataclass(frozen=True, config=CHECKED)
class RiskTarget(CheckedSettings):
    """A bound on one risk.

    Attributes:
        kind: `selective`: share answered wrongly among all that are let through;
            `follow`, `answer`: the same among those let through by that route;
            `false_abstention`: share abstained from among those that the context or
            memory would have answered rightly; `cost`: mean cost per question, by the
            loss table; `abstention`: share of all questions that are abstained from (see
            `Coverage`); `leak`: share let through of questions without an answer (see `Leak`).
        bound: in (0, 1).
        losses: for `cost`.
    """

    kind: RiskKind
    bound: Probability
    losses: LossTable = field(default_factory=LossTable)

    @classmethod
    def of_errors(
        cls, bound: float, losses: LossTable | None = None, *, per_route: bool = False
    ) -> tuple[RiskTarget, ...]:
        """Bounds on wrong answers, or on their mean cost.

        Args:
            bound: α in (0, 1).
            losses: what errors cost; None: the share of wrong answers among those let through.
            per_route: followed contexts and answers from memory are bounded each as well.

        Example:
            >>> [target.kind for target in RiskTarget.of_errors(0.1, per_route=True)]
            ['selective', 'follow', 'answer']
        """
        first = cls("selective", bound) if losses is None else cls("cost", bound, losses)
        if not per_route:
            return (first,)
        return (first, cls("follow", bound), cls("answer", bound))


@dataclass(frozen=True, config=CHECKED)
class Leak(CheckedSettings):
    """At most this share of the questions whose answer is missing passes as covered.

    Fitted on the raw relevance of records whose `case` is `in_kb`, or one of `MISSING_CASES`. The
    unit is the passage or topic: each group counts once, by its share that passes. Such a policy
    never answers from memory.

    Attributes:
        bound: in (0, 1).
        missing: which of the questions must not pass: those whose source was left out, the
            user's own unanswerable ones, or both, each by itself; None for whatever the records
            hold.
    """

    bound: Probability
    missing: Missing | None = None

    @property
    def target(self) -> RiskTarget:
        """The bound that is tested."""
        return RiskTarget("leak", self.bound)

    @staticmethod
    def smallest(passages: int, delta: float) -> float | None:
        """The smallest bound that so many passages can certify, if no question passes.

        Returns:
            Rounded up to two digits, below 1; None where there is none.

        Example:
            >>> Leak.smallest(15, 0.1), Leak.smallest(75, 0.1), Leak.smallest(0, 0.1)
            (0.15, 0.031, None)
        """
        return rounded_up(-math.expm1(math.log(delta) / passages)) if passages else None


def rounded_up(bound: float) -> float | None:
    """A bound above 0 with two digits, no smaller; None where that is not below 1.

    Example:
        >>> rounded_up(0.1234), rounded_up(0.999)
        (0.13, None)
    """
    digits = 1 - math.floor(math.log10(bound))
    found = math.ceil(bound * 10**digits - 1e-9) / 10**digits
    return found if found < 1.0 else None


@dataclass(frozen=True, config=CHECKED)
class Coverage(CheckedSettings):
    """At least this share of the questions is let through, with a bound on its risk.

    Attributes:
        share: in (0, 1).
    """

    share: Probability

    @property
    def target(self) -> RiskTarget:
        """The bound that is tested: on the share of questions abstained from."""
        return RiskTarget("abstention", 1.0 - self.share)


@dataclass(frozen=True, config=CHECKED)
class Costs(CheckedSettings):
    """What errors cost against each other: the threshold that costs least, without a guarantee.

    Fitted on the same records as a `Leak`.

    Attributes:
        leak: cost of a question whose answer is missing and that passes, above 0.
        abstention: cost of abstaining from a question whose source was retrieved, above 0.
        missing_share: share of the questions in service whose answer is missing, in (0, 1).
        missing: as for `Leak`; of both kinds each counts the same.
    """

    leak: _Cost
    abstention: _Cost = 1.0
    missing_share: Probability = 0.5
    missing: Missing | None = None

    def of(self, leak: float, false_abstention: float) -> float:
        """Mean cost per question at these rates.

        Example:
            >>> Costs(leak=20, missing_share=0.1).of(0.1, 0.2)
            0.38
        """
        of_leak, of_abstention = self.weights
        return of_leak * leak + of_abstention * false_abstention

    @property
    def weights(self) -> tuple[float, float]:
        """What a leak and a false abstention of every question would cost."""
        return self.missing_share * self.leak, (1.0 - self.missing_share) * self.abstention

    @property
    def words(self) -> str:
        """What a threshold was chosen for."""
        share = self.missing_share
        mixed = "" if share == 0.5 else f", {share:.3g} of the questions without an answer"
        return f"for costs (a leak costs {self.leak:g}, an abstention {self.abstention:g}{mixed})"


@dataclass(frozen=True, config=CHECKED)
class MaxAbstention(CheckedSettings):
    """The strictest threshold that abstains from no more than a share, without a guarantee.

    Fitted on the same records as a `Leak`.

    Attributes:
        share: of new questions whose source is retrieved, in (0, 1).
        missing: as for `Leak`.
    """

    share: Probability
    missing: Missing | None = None

    @property
    def words(self) -> str:
        """What a threshold was chosen for."""
        return f"to abstain from at most {100 * self.share:.3g}% of answerable questions"


# How a threshold is chosen that nothing is guaranteed about.
Uncertified = Costs | MaxAbstention
# What a policy is fitted to; a number bounds the share of wrong answers let through.
Risk = float | RiskTarget | Sequence[RiskTarget] | Leak | Coverage | Uncertified


def as_targets(risk: float | RiskTarget | Sequence[RiskTarget]) -> tuple[RiskTarget, ...]:
    """The bounds as a sequence.

    Raises:
        ValueError: not a number or targets, or a target that cannot be combined.
    """
    if isinstance(risk, Real) and not isinstance(risk, bool):
        return RiskTarget.of_errors(float(risk))
    targets = (risk,) if isinstance(risk, RiskTarget) else tuple(risk)  # type: ignore[arg-type]
    if not targets or not all(isinstance(target, RiskTarget) for target in targets):
        raise ValueError("risk must be a number in (0, 1), or one RiskTarget or more")
    if any(target.kind in ("abstention", "leak") for target in targets):
        raise ValueError("give risk=Coverage(…) or risk=Leak(…), alone")
    return targets


# Of how many questions something is learned, and the rest is worth more in the test: the share of
# many questions; the fewest, where that is no more than the last; the largest share of few.
LearningRule = tuple[float, int, float]
# To order operating points; the signals are calibrated already.
LEARN_PATH: LearningRule = (0.15, 25, 0.25)
# To choose calibrators and to order operating points.
LEARN_CALIBRATORS: LearningRule = (0.25, 60, 0.4)


def learning_share(rule: LearningRule, questions: int) -> float:
    """Share of `questions` to learn on.

    Example:
        >>> [learning_share(LEARN_CALIBRATORS, questions) for questions in (100, 200, 1000)]
        [0.4, 0.3, 0.25]
    """
    share, fewest, most = rule
    return min(max(share, fewest / max(1, questions)), most)


def questions_to_test(rule: LearningRule, testing: int) -> float:
    """About how many questions there must be in all, so that `testing` are left to test on.

    Example:
        >>> [questions_to_test(LEARN_CALIBRATORS, testing) for testing in (60, 750)]
        [100.0, 1000.0]
    """
    share, fewest, most = rule
    # The inverse of questions · (1 − learning_share(rule, questions)).
    return min(max(testing / (1.0 - share), testing + fewest), testing / (1.0 - most))


ConflictRule = Literal["ignore", "abstain"]


@dataclass(frozen=True, config=CHECKED)
class PathPoint(CheckedSettings):
    """Thresholds of the three routes.

    Attributes:
        relevance: follow the context from this relevance on; None: never.
        confidence: where the context does not pass, answer from memory from this
            confidence on; None: never.
        on_conflict: what a measured conflict does to a context that passes: nothing
            (`ignore`; conflict then need not be measured), or the guard abstains.
    """

    relevance: _Share | None
    confidence: _Share | None
    on_conflict: ConflictRule = "ignore"

    @classmethod
    def grid(cls, relevance: Sequence[float], confidence: Sequence[float]) -> tuple[PathPoint, ...]:
        """All pairs of the thresholds, those with the larger sum first.

        Meant for comparing procedures; a path learned on separate data is sharper.

        Example:
            >>> [(p.relevance, p.confidence) for p in PathPoint.grid([0.2, 0.8], [0.5])]
            [(0.8, 0.5), (0.2, 0.5)]
        """
        pairs = [(r, p) for r in relevance for p in confidence]
        pairs.sort(key=lambda pair: (-math.fsum(pair), -pair[0]))
        return as_path(pairs)


Point = PathPoint | tuple[float | None, float | None]


def as_path(points: Iterable[Point]) -> tuple[PathPoint, ...]:
    """A path from points or bare (relevance, confidence) pairs.

    Raises:
        ValueError: no point, or one out of range.
    """
    found = tuple(point if isinstance(point, PathPoint) else _point(point) for point in points)
    if not found:
        raise ValueError("a path must have at least one point")
    return found


def _point(pair: object) -> PathPoint:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(f"a point is a PathPoint or a (relevance, confidence) pair, not {pair!r}")
    return PathPoint(pair[0], pair[1])
