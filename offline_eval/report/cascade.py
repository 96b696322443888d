"""Which scorer of a cascade decided how many cases, and what followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...guard.decision import Route
from ...guard.fingerprint import CascadeRule
from ...guard.policy import Policy
from .document import Facts
from .prose import Templates
from .tables import Table

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


def cascade_counts(decisions: Iterable[tuple[str | None, Route | None]]) -> dict[str, Any] | None:
    """Count how often each stage of a cascade of scorers decided, from pairs of stage and route.

    Returns:
        JSON-ready: all decisions with a measured relevance, those in which the costly scorer was
        asked, those that it was saved, those in which it gave no verdict, and under `stages` the
        decisions by stage, then by route. None where no decision has a stage.
    """
    found = Counter(decisions)
    stages = {name: {route.value: found[name, route] for route in Route} for name in _STAGES}
    totals = {name: sum(by_route.values()) for name, by_route in stages.items()}
    if not any(totals.values()):
        return None
    asked = totals["costly"] + totals["fallback"]
    return {
        "decisions": totals["cheap"] + asked,
        "asked": asked,
        "saved": totals["cheap"],
        "failed": totals["fallback"],
        "stages": stages,
    }


def cascade_blocks(
    counts: Mapping[str, Any], policy: Policy | None
) -> tuple[str | Table | Facts, ...]:
    """Return what a report shows of `cascade_counts`.

    Args:
        counts: of the decisions.
        policy: that decided; None where it is not known.
    """
    rule = _rule(policy)
    fallback = _WORDS.text("fallback", rule) if rule is not None else ""
    said = _WORDS.paragraphs("stages", counts, _asked_in_calibration(policy), fallback)
    rows = list(counts["stages"].values())
    columns = [("Decisions", [sum(one.values()) for one in rows])]
    columns += [
        (words, [one[route] for one in rows])
        for route, words in _ROUTES.items()
        if route is not Route.ANSWER or any(one[route] for one in rows)
    ]
    table = Table.from_columns("Decided by", list(_STAGES.values()), columns)
    if policy is None or rule is None:
        return (*said, table)
    facts = _WORDS.pairs("rule", rule, policy.scorer.stages, policy.may_follow)
    return (*said, table, Facts(facts))


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
