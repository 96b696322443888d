"""What counts as going wrong, and how much."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .._binomial import SMALLEST_PROBABILITY

RiskKind = Literal["selective", "follow", "answer", "false_abstention", "cost"]


@dataclass(frozen=True, slots=True)
class LossTable:
    """What each mishap costs, in [0, 1]; everything else costs nothing.

    Attributes:
        wrong_follow: following a context to a wrong answer.
        wrong_answer: a wrong answer from memory.
        false_abstention: abstaining where the context or memory would have been right.
    """

    wrong_follow: float = 1.0
    wrong_answer: float = 1.0
    false_abstention: float = 0.0

    def __post_init__(self) -> None:
        for name in ("wrong_follow", "wrong_answer", "false_abstention"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must be within [0, 1], not {value}")

    @property
    def all_or_nothing(self) -> bool:
        """Whether every mishap costs 0 or 1, so that the exact binomial tail applies."""
        return {self.wrong_follow, self.wrong_answer, self.false_abstention} <= {0.0, 1.0}


@dataclass(frozen=True, slots=True)
class RiskTarget:
    """A bound on one risk.

    Attributes:
        kind: `selective`: share answered wrongly among all that are let through;
            `follow`, `answer`: the same among those let through by that route;
            `false_abstention`: share abstained from among those that the context or
            memory would have answered rightly; `cost`: mean cost per question, by the
            loss table.
        bound: in (0, 1).
        losses: for `cost`.
    """

    kind: RiskKind
    bound: float
    losses: LossTable = field(default_factory=LossTable)

    def __post_init__(self) -> None:
        if self.kind not in ("selective", "follow", "answer", "false_abstention", "cost"):
            raise ValueError(f"unknown kind of risk {self.kind!r}")
        if not SMALLEST_PROBABILITY <= self.bound <= 1 - SMALLEST_PROBABILITY:
            raise ValueError(f"risk must be between 0 and 1, not {self.bound}")
