"""Routing is a pure function of policy and signals, checked over all combinations."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import Confidence, Fingerprint, Policy, Reason, Route, Scenario
from knowgate.guard.contracts import ConflictFinding
from knowgate.guard.decision import SignalName
from knowgate.guard.routing import Signals, decide_route, next_signal
from knowgate.guard.testing import FakeScorer
from tests.support.guards import guard_with, policy_with

F, A, N = Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN
ROUTE_SETS = ((), (F,), (A,), (F, A), (F, A, N))
BETWEEN = ("memory", "passages", "both")
ON_CONFLICT = ("follow_context", "show_both", "abstain")
VALUES = (None, 0.0, 0.49999999999999994, 0.5, 0.7, 1.0, float("nan"))


def expected(policy: Policy, relevance: Any, confidence: Any, conflict: Any) -> tuple[Any, Any]:
    """Route and reason, told again in other words than the code's."""
    follow = F in policy.allowed_routes and policy.relevance_threshold is not None
    answer = A in policy.allowed_routes and policy.confidence_threshold is not None
    missing_r = relevance is None or relevance != relevance
    missing_c = confidence is None or confidence != confidence
    if not follow and not answer:
        return N, Reason.NO_THRESHOLD
    if follow and missing_r:
        return N, Reason.RELEVANCE_FAILED
    if follow and relevance >= policy.relevance_threshold:
        if not policy.check_conflict:
            return F, Reason.SUFFICIENT_CONTEXT
        if missing_c and policy.conflict_between != "passages":
            return N, Reason.CONFIDENCE_FAILED
        if policy.conflict_between == "memory" and confidence < policy.confidence_threshold:
            return F, Reason.SUFFICIENT_CONTEXT
        if conflict is None:
            return N, Reason.CONFLICT_FAILED
        if not conflict:
            return F, Reason.SUFFICIENT_CONTEXT
        return {
            "abstain": (N, Reason.CONFLICT),
            "follow_context": (F, Reason.CONFLICT_FOLLOWS_CONTEXT),
            "show_both": (F, Reason.CONFLICT_SHOWS_BOTH),
        }[policy.on_conflict]
    if not answer:
        return N, Reason.INSUFFICIENT_CONTEXT
    if missing_c:
        return N, Reason.CONFIDENCE_FAILED
    if confidence >= policy.confidence_threshold:
        return A, Reason.CONFIDENT_MEMORY
    return N, Reason.NEITHER_KNOWS


def all_policies() -> list[Policy]:
    """Every combination of thresholds, routes and conflict settings that is a policy."""
    found = []
    for tau_r, tau_p, routes, check, between, on_conflict in itertools.product(
        (None, 0.5), (None, 0.7), ROUTE_SETS, (False, True), BETWEEN, ON_CONFLICT
    ):
        if check and tau_p is None and between != "passages":
            continue
        if not check and (between, on_conflict) != ("memory", "abstain"):
            continue  # what is not looked for leads nowhere
        found.append(
            policy_with(
                relevance_threshold=tau_r,
                confidence_threshold=tau_p,
                allowed_routes=routes,
                check_conflict=check,
                conflict_between=between,
                on_conflict=on_conflict,
            )
        )
    return found


def test_every_combination_of_signals_takes_the_tabulated_route() -> None:
    for policy in all_policies():
        for relevance, confidence, conflict in itertools.product(
            VALUES, VALUES, (None, True, False)
        ):
            signals = Signals.replay(policy, relevance, confidence, conflict)
            verdict = decide_route(policy, signals)
            assert (verdict.route, verdict.reason) == expected(
                policy, relevance, confidence, conflict
            ), (relevance, confidence, conflict)
            assert policy.route(relevance, confidence, conflict) is verdict.route
            assert next_signal(policy, signals) is None


def test_without_passages_the_context_is_never_followed() -> None:
    for policy in all_policies():
        for confidence in VALUES:
            signals = Signals.replay(policy, 1.0, confidence, False, nothing_retrieved=True)
            verdict = decide_route(policy, signals)
            assert verdict.route is not F
            assert signals.relevance == 0.0


@pytest.mark.parametrize(
    ("relevance", "confidence", "conflict", "scenario"),
    [
        (0.9, 0.9, True, Scenario.CONFLICT),
        (0.9, 0.9, False, Scenario.AGREEMENT),
        (0.9, 0.1, None, Scenario.EXTERNAL_ONLY),
        (0.1, 0.9, None, Scenario.PARAMETRIC_ONLY),
        (0.1, 0.1, None, Scenario.UNKNOWN),
        (None, 0.9, None, None),
        (0.9, None, None, None),
    ],
)
def test_the_scenario_is_named_as_far_as_it_was_measured(
    relevance: float | None,
    confidence: float | None,
    conflict: bool | None,
    scenario: Scenario | None,
) -> None:
    policy = policy_with(check_conflict=True)
    verdict = decide_route(policy, Signals.replay(policy, relevance, confidence, conflict))
    assert verdict.scenario is scenario


def test_a_huge_integer_counts_as_a_failed_signal() -> None:
    assert policy_with().route(10**400, 0.9) is N


units = st.floats(0, 1)
maybe = st.none() | units | st.just(float("nan"))
thresholds = st.none() | units
policies = st.builds(
    lambda tau_r, tau_p, routes, check, between, on: policy_with(
        relevance_threshold=tau_r,
        confidence_threshold=tau_p,
        allowed_routes=tuple(routes),
        check_conflict=check and (tau_p is not None or between == "passages"),
        conflict_between=between,
        on_conflict=on,
    ),
    thresholds,
    thresholds,
    st.lists(st.sampled_from(list(Route)), unique=True),
    st.booleans(),
    st.sampled_from(BETWEEN),
    st.sampled_from(ON_CONFLICT),
)


@pytest.mark.slow
@given(policies, units, units, maybe, st.none() | st.booleans())
@settings(max_examples=25, deadline=None)
def test_more_relevance_never_leads_away_from_the_context(
    policy: Policy, first: float, second: float, confidence: float | None, conflict: bool | None
) -> None:
    low, high = sorted((first, second))
    if policy.route(low, confidence, conflict) is F:
        assert policy.route(high, confidence, conflict) is F


@pytest.mark.slow
@given(policies, maybe, maybe, st.none() | st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_no_route_is_taken_that_the_policy_does_not_allow(
    policy: Policy,
    relevance: float | None,
    confidence: float | None,
    conflict: bool | None,
    nothing: bool,
) -> None:
    signals = Signals.replay(policy, relevance, confidence, conflict, nothing_retrieved=nothing)
    verdict = decide_route(policy, signals)
    assert verdict.route is N or verdict.route in policy.allowed_routes
    assert not (verdict.route is A and nothing is False and signals.confidence is None)
    assert verdict.route is not A or policy.confidence_threshold is not None
    assert verdict == decide_route(policy, signals)


class StatedText:
    """Estimator and conflict detector that repeat what they are told, or fail."""

    fingerprint = Fingerprint(kind="fake")

    def __init__(self, confidence: float | None, conflict: bool | None) -> None:
        self._confidence, self._conflict = confidence, conflict

    def estimate(self, question: str) -> Confidence:
        return Confidence(self._confidence, "answer")  # type: ignore[arg-type]

    async def aestimate(self, question: str) -> Confidence:
        return self.estimate(question)

    def detect(self, question: str, closed_book_answer: str, passages: object) -> bool:
        return self._conflict  # type: ignore[return-value]

    async def adetect(self, question: str, closed_book_answer: str, passages: object) -> bool:
        return self.detect(question, closed_book_answer, passages)

    def examine(self, question: str, closed_book_answer: str, passages: object) -> ConflictFinding:
        if self._conflict is None:
            raise RuntimeError("no idea")
        return ConflictFinding(self._conflict, "both" if self._conflict else "none")

    async def aexamine(
        self, question: str, closed_book_answer: str, passages: object
    ) -> ConflictFinding:
        return self.examine(question, closed_book_answer, passages)


@pytest.mark.slow
@given(policies, maybe, maybe, st.none() | st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_replay_equals_what_the_guard_decided(
    policy: Policy,
    relevance: float | None,
    confidence: float | None,
    conflict: bool | None,
    nothing: bool,
) -> None:
    told = StatedText(confidence, conflict)
    guard = guard_with(
        policy,
        scorer=FakeScorer(default=float("nan") if relevance is None else relevance),
        estimator=told,
        conflict_detector=told,
        deadlines=dict.fromkeys(SignalName, None),
    )
    decided = guard.decide("q", [] if nothing else ["passage"])
    signals = Signals.replay(policy, relevance, confidence, conflict, nothing_retrieved=nothing)
    verdict = decide_route(policy, signals)
    assert (decided.route, decided.reason, decided.scenario) == (
        verdict.route,
        verdict.reason,
        verdict.scenario,
    )
    assert (decided.relevance, decided.confidence) == (signals.relevance, signals.confidence)
    assert decided.conflict == signals.conflict
    assert set(decided.failed_signals) == {name.value for name in signals.failed}
