"""Which promises of a policy feedback on replies can be held against."""

from __future__ import annotations

from ...guard import Policy, Route
from ._risk_monitor import RiskMonitor

ALL = "all"
LET_THROUGH = (Route.FOLLOW_CONTEXT, Route.ANSWER)
_WATCHED = {
    "selective": ALL, "follow": Route.FOLLOW_CONTEXT.value, "answer": Route.ANSWER.value,
}  # fmt: skip
_NAMES = (ALL, *(route.value for route in LET_THROUGH))


def promised_bounds(policy: Policy) -> dict[str, float]:
    """`all` or a route → the share of wrong replies that the guarantee allows it at most.

    Empty where the guarantee speaks of something else: how often unanswerable questions
    pass (leave-one-out), costs, or abstentions; and where nothing was certified.
    """
    guarantee = policy.guarantee
    if guarantee is None or not guarantee.certified or "relevance.left_out" in policy.histograms:
        return {}
    if not guarantee.risks:
        return {ALL: guarantee.risk}
    bounds: dict[str, float] = {}
    for risk in guarantee.risks:
        if (name := _WATCHED.get(risk.kind)) is not None:
            bounds[name] = min(risk.bound, bounds.get(name, 1.0))
    return bounds


def risk_monitors(
    policy: Policy, risk: float | None, delta: float | None, least_rate: float
) -> tuple[dict[str, RiskMonitor], frozenset[str]]:
    """Monitors by name (`all`, routes), and the names of those that hold a promise.

    Several promises share `delta`, so that a false alarm of any of them has that
    probability. The others, each at `delta`, are told but promised by nobody: routes are
    held against the bound of all replies, all replies against the laxest bound of the routes.
    """
    bounds = promised_bounds(policy) if risk is None else {ALL: risk}
    if delta is None:
        delta = 0.1 if policy.guarantee is None else policy.guarantee.delta
    # Also where nothing is watched: to find a bad number now.
    RiskMonitor(0.5, delta, least_rate=least_rate)
    found = {}
    for name in _NAMES:
        share = delta / len(bounds) if name in bounds else delta
        bound = bounds.get(name, bounds.get(ALL))
        if name == ALL and bound is None and len(bounds) == len(LET_THROUGH):
            bound = max(bounds.values())
        if bound is not None:
            found[name] = RiskMonitor(bound, share, least_rate=least_rate)
    return found, frozenset(bounds)
