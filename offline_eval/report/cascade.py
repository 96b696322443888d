"""Which scorer of a cascade decided how many cases, and what followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...guard.decision import Route
from ...guard.fingerprint import CascadeRule
from ...guard.policy import Policy
from .document import Facts
from .prose import Templates
from .tables import Cell, Table

_WORDS = Templates(Path(__file__).parent / "templates" / "what_if.txt")
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

    def blocks(self, policy: Policy | None) -> tuple[str | Table | Facts, ...]:
        """Return what a report shows.

        Args:
            policy: that decided; None where it is not known.
        """
        rule = _rule(policy)
        fallback = _WORDS.text("fallback", rule) if rule is not None else ""
        said = _WORDS.paragraphs("stages", self, _asked_in_calibration(policy), fallback)
        if policy is None or rule is None:
            return (*said, self._table())
        terms = _WORDS.terms("rule", rule, *policy.scorer.stages, policy.may_follow)
        facts = Facts(tuple(term for term in terms if not isinstance(term, str)))
        return (*said, self._table(), facts)

    def _table(self) -> Table:
        rows = list(self.counts.values())
        columns = [("Decisions", [Cell(str(sum(one.values()))) for one in rows])]
        columns += [
            (words, [Cell(str(one.get(route, 0))) for one in rows])
            for route, words in _ROUTES.items()
            if route is not Route.ANSWER or any(one.get(route) for one in rows)
        ]
        return Table.from_columns("Decided by", [_STAGES[name] for name in self.counts], columns)


def cascade_without_what_if() -> str:
    """Say why no other threshold of a cascade can be tried."""
    return _WORDS.text("cascade")


def _rule(policy: Policy | None) -> CascadeRule | None:
    if policy is None or not policy.scorer.stages:
        return None
    settings: dict[str, Any] = dict(policy.scorer.settings)
    return CascadeRule(
        **{name: settings[name] for name in CascadeRule.model_fields if name in settings}
    )


def _asked_in_calibration(policy: Policy | None) -> dict[str, float]:
    """Return the share of cases of each kind that the costly scorer was asked about, if known."""
    found = {}
    for case in ("in_kb", "left_out"):
        histogram = None if policy is None else policy.histograms.get(f"asked.{case}")
        if histogram is None or not sum(histogram.counts):
            return {}
        found[case] = histogram.counts[1] / sum(histogram.counts)
    return found
