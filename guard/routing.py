"""Routing: a pure function of policy and signals.

    relevance ─┬─ ≥ τ_r ─► (conflict, if asked for) ─► follow_context, or what the policy says
               └─ < τ_r ─► confidence ─┬─ ≥ τ_p and allowed ─► answer, context removed
                                       └─ otherwise ─► abstain

`next_signal` says which signal the decision still hangs on, so that no costlier
one is measured than needed; `decide_route` decides once that is None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .decision import Reason, Route, Scenario, SignalName
from .policy import Policy, finite_or_none


@dataclass(frozen=True, slots=True)
class Signals:
    """Calibrated signals as far as they were measured.

    Attributes:
        relevance: in [0, 1], None when not measured or failed.
        confidence: in [0, 1], None when not measured or failed.
        conflict: True when answers differ that the policy compares.
        failed: signals that were asked for and could not be measured.
        nothing_retrieved: there was no passage to judge; relevance is then 0.
    """

    relevance: float | None = None
    confidence: float | None = None
    conflict: bool | None = None
    failed: frozenset[SignalName] = frozenset()
    nothing_retrieved: bool = False

    @classmethod
    def replay(
        cls,
        policy: Policy,
        relevance: float | None,
        confidence: float | None,
        conflict: bool | None = None,
        *,
        nothing_retrieved: bool = False,
    ) -> Signals:
        """The signals a guard would have measured, given what each would have said.

        A signal that the policy asks for and that is None or not finite counts
        as failed; one that it does not ask for is left out.
        """
        available = {
            SignalName.RELEVANCE: finite_or_none(relevance),
            SignalName.CONFIDENCE: finite_or_none(confidence),
            SignalName.CONFLICT: conflict,
        }
        signals = cls(0.0 if nothing_retrieved else None, nothing_retrieved=nothing_retrieved)
        while (name := next_signal(policy, signals)) is not None:
            signals = signals.with_value(name, available[name])
        return signals

    def with_value(self, name: SignalName, value: float | bool | None) -> Signals:
        """A copy in which `name` has `value`, or has failed where `value` is None."""
        if value is None:
            return replace(self, failed=self.failed | {name})
        if name is SignalName.RELEVANCE:
            return replace(self, relevance=float(value))
        if name is SignalName.CONFIDENCE:
            return replace(self, confidence=float(value))
        return replace(self, conflict=bool(value))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a question goes, and why."""

    route: Route
    reason: Reason
    scenario: Scenario | None


def next_signal(policy: Policy, signals: Signals) -> SignalName | None:
    """The signal to measure next, or None when the decision is fixed."""
    if signals.failed or not (policy.may_follow or policy.may_answer):
        return None
    if policy.may_follow and signals.relevance is None:
        return SignalName.RELEVANCE
    if not _sufficient(policy, signals):
        wanted = policy.may_answer and signals.confidence is None
        return SignalName.CONFIDENCE if wanted else None
    if not policy.check_conflict:
        return None
    if policy.conflict_with_memory and signals.confidence is None:
        return SignalName.CONFIDENCE
    # Passages can contradict each other whatever the model itself knows.
    wanted = policy.conflict_between != "memory" or _confident(policy, signals)
    return SignalName.CONFLICT if wanted and signals.conflict is None else None


def decide_route(policy: Policy, signals: Signals) -> Verdict:
    """The verdict for `signals` for which `next_signal` is None."""
    if not (policy.may_follow or policy.may_answer):
        return Verdict(Route.ABSTAIN, Reason.NO_THRESHOLD, None)
    for name, reason in _FAILURES.items():
        if name in signals.failed:
            return Verdict(Route.ABSTAIN, reason, None)
    if _sufficient(policy, signals):
        return _with_context(policy, signals)
    if policy.may_answer and _confident(policy, signals):
        return Verdict(Route.ANSWER, Reason.CONFIDENT_MEMORY, Scenario.PARAMETRIC_ONLY)
    scenario = None if signals.confidence is None else Scenario.UNKNOWN
    if signals.nothing_retrieved:
        return Verdict(Route.ABSTAIN, Reason.NOTHING_RETRIEVED, scenario)
    if policy.may_answer:
        return Verdict(Route.ABSTAIN, Reason.NEITHER_KNOWS, scenario)
    return Verdict(Route.ABSTAIN, Reason.INSUFFICIENT_CONTEXT, scenario)


_FAILURES = {
    SignalName.RELEVANCE: Reason.RELEVANCE_FAILED,
    SignalName.CONFIDENCE: Reason.CONFIDENCE_FAILED,
    SignalName.CONFLICT: Reason.CONFLICT_FAILED,
}


def _with_context(policy: Policy, signals: Signals) -> Verdict:
    scenario = _scenario_with_context(policy, signals)
    if not signals.conflict:
        return Verdict(Route.FOLLOW_CONTEXT, Reason.SUFFICIENT_CONTEXT, scenario)
    if policy.on_conflict == "abstain":
        return Verdict(Route.ABSTAIN, Reason.CONFLICT, scenario)
    if policy.on_conflict == "show_both":
        return Verdict(Route.FOLLOW_CONTEXT, Reason.CONFLICT_SHOWS_BOTH, scenario)
    return Verdict(Route.FOLLOW_CONTEXT, Reason.CONFLICT_FOLLOWS_CONTEXT, scenario)


def _scenario_with_context(policy: Policy, signals: Signals) -> Scenario | None:
    if signals.confidence is None or policy.confidence_threshold is None:
        # Whether the model knows it too was not asked: three scenarios are possible.
        return None
    if not _confident(policy, signals):
        return Scenario.EXTERNAL_ONLY
    if signals.conflict is None:
        return None
    # Of two passages that differ, one at least differs from what the model says.
    return Scenario.CONFLICT if signals.conflict else Scenario.AGREEMENT


def _sufficient(policy: Policy, signals: Signals) -> bool:
    threshold = policy.relevance_threshold
    return (
        policy.may_follow
        and threshold is not None
        and signals.relevance is not None
        and not signals.nothing_retrieved
        and signals.relevance >= threshold
    )


def _confident(policy: Policy, signals: Signals) -> bool:
    threshold = policy.confidence_threshold
    return (
        threshold is not None and signals.confidence is not None and signals.confidence >= threshold
    )
