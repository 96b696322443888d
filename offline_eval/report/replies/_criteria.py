"""What judges said beyond abstention and factuality: kinds of failure, users' criteria."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...replies import ABSTENTION, FACTUALITY
from ._evidence import Evidence


@dataclass(frozen=True, slots=True)
class CriterionCounts:
    """How often a judge gave each outcome of a criterion.

    Attributes:
        criterion: `failure` or a user's own.
        judge: who judged.
        estimate: whether these are offline estimates.
        outcomes: all that occur, the most frequent first.
        systems: per system how often each occurs; out-of-KB replies for `failure`, all
            replies for other criteria.
    """

    criterion: str
    judge: str
    estimate: bool
    outcomes: tuple[str, ...]
    systems: Mapping[str, Mapping[str, int]]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "criterion": self.criterion,
            "judge": self.judge,
            "estimate": self.estimate,
            "systems": {
                name: {outcome: found.get(outcome, 0) for outcome in self.outcomes}
                for name, found in self.systems.items()
            },
        }


def criterion_counts(evidence: Evidence) -> list[CriterionCounts]:
    """Per criterion and judge; abstention and factuality have tables of their own."""
    return [
        _counts(evidence, criterion, judge)
        for criterion, judges in evidence.judges.items()
        if criterion not in (ABSTENTION, FACTUALITY)
        for judge in judges
    ]


def _counts(evidence: Evidence, criterion: str, judge: str) -> CriterionCounts:
    systems: dict[str, Counter[str]] = {}
    total: Counter[str] = Counter()
    estimated = False
    for reply in evidence.replies:
        verdict = evidence.verdicts.get(reply.row.reply_id, {}).get(criterion, {}).get(judge)
        if verdict is None or verdict.outcome is None:
            continue
        if criterion == "failure" and not (reply.out_of_kb and not reply.abstained):
            continue
        systems.setdefault(reply.system.system_id, Counter())[verdict.outcome] += 1
        total[verdict.outcome] += 1
        estimated = estimated or verdict.estimate
    return CriterionCounts(
        criterion=criterion,
        judge=judge,
        estimate=estimated,
        outcomes=tuple(sorted(total, key=lambda outcome: (-total[outcome], outcome))),
        systems=systems,
    )
