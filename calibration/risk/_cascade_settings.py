"""A cascade of two scorers: what it costs, and the band that a fit chose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ...guard.policy import CascadeRule, Fingerprint
from .. import CalibrationRecord

OnJudgeFailure = Literal["abstain", "cheap"]


@dataclass(frozen=True, slots=True)
class Cascade:
    """A costly scorer behind the cheap one, what it costs, and what its failures lead to.

    Costs are relative to one question of the cheap scorer.

    Attributes:
        costly: fingerprint of the costly scorer, whose `verdict` the records hold.
        judge_cost: of one question of the costly scorer, at least 0.
        abstention_cost: of abstaining from a question that could have been answered.
        on_failure: where the costly scorer fails, `abstain`, or decide by a threshold on the
            `cheap` scorer alone, which is certified too, at a fifth of the level.
    """

    costly: Fingerprint
    judge_cost: float = 200.0
    abstention_cost: float = 20_000.0
    on_failure: OnJudgeFailure = "abstain"

    def __post_init__(self) -> None:
        for name in ("judge_cost", "abstention_cost"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, not {value}")
        if self.on_failure not in get_args(OnJudgeFailure):
            raise ValueError(f"on_failure must be 'abstain' or 'cheap', not {self.on_failure!r}")


@dataclass(frozen=True, slots=True)
class BandOption:
    """A width of the band, and what it would cost, estimated on the questions to learn on.

    Attributes:
        reach: width of the band.
        asked: share of questions that the costly scorer would be asked about.
        false_abstention: share of answerable questions that would be abstained from.
        cost: per question, where as many can be answered as cannot.
    """

    reach: float
    asked: float
    false_abstention: float
    cost: float


@dataclass(frozen=True, slots=True)
class CascadeBand:
    """The band that a fit chose, and what it chose from.

    Attributes:
        threshold: lower edge, on the cheap scorer's scale; None where nothing was certified.
        reach: width; 0 where the cheap scorer alone costs least.
        fallback: cheap value from which on a question passes whose verdict failed; None: none.
        asked: share of the questions of the test that the costly scorer is asked about.
        options: all widths, by rising width.
        learned_on: how many questions the width was chosen on.
    """

    threshold: float | None
    reach: float
    fallback: float | None
    asked: float
    options: tuple[BandOption, ...]
    learned_on: int

    @property
    def rule(self) -> CascadeRule | None:
        """The rule of both scorers; None where the cheap one decides alone, or nothing passes."""
        if self.threshold is None:
            return None
        return CascadeRule(threshold=self.threshold, reach=self.reach, fallback=self.fallback)

    def applied(self, records: Sequence[CalibrationRecord]) -> tuple[CalibrationRecord, ...]:
        """The records with the relevance that the cascade gives them."""
        rule = self.rule
        return tuple(
            record
            if record.relevance is None or rule is None
            else replace(record, relevance=rule.value(record.relevance, record.verdict))
            for record in records
        )
