"""Policies and guards over the bundled fakes, shared by the guard's tests."""

from __future__ import annotations

from typing import Any

from knowgate.guard import Decision, Fingerprint, Guard, Policy, Route
from knowgate.guard.testing import FakeConflictDetector, FakeEstimator, FakeScorer

ALL_ROUTES = (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN)


def policy_with(**changes: Any) -> Policy:
    """A policy for the fakes: relevance from 0.5, confidence from 0.7, every route allowed."""
    values: dict[str, Any] = {
        "scorer": Fingerprint(kind="fake"),
        "relevance_threshold": 0.5,
        "confidence_threshold": 0.7,
        "allowed_routes": ALL_ROUTES,
    }
    return Policy(**(values | changes))


def guard_with(policy: Policy | None = None, **changes: Any) -> Guard:
    """A guard over fakes that find nothing, without metrics, unless told otherwise."""
    parts: dict[str, Any] = {
        "scorer": FakeScorer(),
        "estimator": FakeEstimator(),
        "conflict_detector": FakeConflictDetector(),
        "metrics": False,
    }
    return Guard(policy or policy_with(), **(parts | changes))


def without_timings(decision: Decision) -> dict[str, Any]:
    """Everything in a decision that repeats itself exactly."""
    return decision.model_dump(exclude={"timings"})
