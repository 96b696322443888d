"""Which scorer of a cascade decided how many cases, and what followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...guard.decision import Route
from ...guard.policy import CascadeRule, Policy
from ._document import Facts
from ._tables import Cell, Table
from ._text import counted, percent

CASCADE_WITHOUT_WHAT_IF = (
    "A cascade of two scorers decides here. The costly one was asked only about the questions in "
    "the calibrated band, so it is not known what another band or threshold would have done."
)
_STAGES = {
    "cheap": "Cheap scorer alone, outside the band",
    "costly": "Verdict of the costly scorer",
    "fallback": "Fallback, the costly scorer failed",
}
_ROUTES = {
    Route.FOLLOW_CONTEXT: "Followed the context",
    Route.ANSWER: "Answered from memory",
    Route.ABSTAIN: "Abstained",
}


@dataclass(frozen=True, slots=True)
class CascadeStages:
    """How often each stage of a cascade of scorers decided.

    Attributes:
        counts: decisions by stage, then by route; only those with a measured relevance.
    """

    counts: Mapping[str, Mapping[Route, int]]

    @classmethod
    def of(cls, decisions: Iterable[tuple[str | None, Route | None]]) -> CascadeStages | None:
        """Count pairs of stage and route; None where no decision has a stage."""
        found: dict[str, Counter[Route]] = {stage: Counter() for stage in _STAGES}
        for stage, route in decisions:
            if stage in found and route is not None:
                found[stage][route] += 1
        return cls(found) if any(map(len, found.values())) else None

    @property
    def decisions(self) -> int:
        """All of them."""
        return sum(sum(by_route.values()) for by_route in self.counts.values())

    @property
    def failed(self) -> int:
        """Those in which the costly scorer gave no verdict."""
        return sum(self.counts["fallback"].values())

    @property
    def asked(self) -> int:
        """Those in which the costly scorer was asked."""
        return self.failed + sum(self.counts["costly"].values())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "decisions": self.decisions,
            "asked": self.asked,
            "saved": self.decisions - self.asked,
            "failed": self.failed,
            "stages": {
                stage: {route.value: by_route.get(route, 0) for route in Route}
                for stage, by_route in self.counts.items()
            },
        }

    def blocks(self, policy: Policy | None) -> tuple[str | Table | Facts | None, ...]:
        """Return what a report shows.

        Args:
            policy: that decided; None where it is not known.
        """
        rule = None if policy is None else _rule(policy)
        shown = None
        if policy is not None and rule is not None:
            shown = Facts(tuple(_facts(policy, rule)))
        return (self._asked_words(policy), self._failed_words(rule), self._table(), shown)

    def _asked_words(self, policy: Policy | None) -> str:
        saved = self.decisions - self.asked
        words = (
            f"The costly scorer was asked in {self.asked} of {counted(self.decisions, 'decision')} "
            f"({percent(self.asked / self.decisions)}); {counted(saved, 'call')} of it saved."
        )
        shares = {} if policy is None else _calibrated(policy)
        if shares:
            words += (
                f" In calibration it was asked about {percent(shares['in_kb'])} of the questions "
                f"whose answer was there, and {percent(shares['left_out'])} of the others."
            )
        return words

    def _failed_words(self, rule: CascadeRule | None) -> str:
        if not self.failed:
            return "The costly scorer never failed."
        words = (
            f"It failed in {self.failed} of these {counted(self.asked, 'decision')} "
            f"({percent(self.failed / self.asked)})"
        )
        return f"{words}; {_fallback(rule)}." if rule is not None else f"{words}."

    def _table(self) -> Table:
        routes = [
            route
            for route in _ROUTES
            if route is not Route.ANSWER or any(one.get(route) for one in self.counts.values())
        ]
        columns = [("Decisions", [Cell(str(sum(one.values()))) for one in self.counts.values()])]
        columns += [
            (_ROUTES[route], [Cell(str(one.get(route, 0))) for one in self.counts.values()])
            for route in routes
        ]
        return Table.from_columns("Decided by", [_STAGES[name] for name in self.counts], columns)


def _rule(policy: Policy) -> CascadeRule | None:
    if not policy.scorer.stages:
        return None
    settings: dict[str, Any] = dict(policy.scorer.settings)
    return CascadeRule(
        **{name: settings[name] for name in CascadeRule.model_fields if name in settings}
    )


def _facts(policy: Policy, rule: CascadeRule) -> Iterable[tuple[str, str]]:
    cheap, costly = policy.scorer.stages
    low, high = f"{rule.threshold:.4g}", f"{rule.threshold + rule.reach:.4g}"
    yield "scorers", f"cheap: {cheap.kind}; costly: {costly.kind}"
    yield "band", f"the costly scorer is asked about cheap values from {low} to below {high}"
    yield (
        "threshold",
        f"{low} after the verdict; a cheap value from {high} on suffices alone"
        if policy.may_follow
        else "none, no context is followed",
    )
    yield "failure of the costly scorer", _fallback(rule)


def _fallback(rule: CascadeRule) -> str:
    if rule.fallback is None:
        return "the context then does not suffice"
    return f"the context then suffices from the cheap value {rule.fallback:.4g} on"


def _calibrated(policy: Policy) -> dict[str, float]:
    found = {}
    for case in ("in_kb", "left_out"):
        histogram = policy.histograms.get(f"asked.{case}")
        if histogram is None or not sum(histogram.counts):
            return {}
        found[case] = histogram.counts[1] / sum(histogram.counts)
    return found
