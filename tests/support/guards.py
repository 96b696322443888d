"""Policies and guards over the bundled fakes, shared by the guard's tests."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any

from knowgate.guard import Decision, Fingerprint, Guard, GuardMetrics, GuardOptions, Policy, Route
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FakeConflictDetector, FakeEstimator

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


FORMS = ("decide", "adecide", "decide_batch", "adecide_batch")
OPTIONS = {field.name for field in fields(GuardOptions)}


def guard_with(policy: Policy | None = None, **changes: Any) -> Guard:
    """A guard over fakes that find nothing, without metrics, unless told otherwise.

    Args:
        policy: bound to the vetoes among the changes, if any.
        changes: arguments of `Guard`, fields of `GuardOptions`, and `registry`.
    """
    parts: dict[str, Any] = {
        "scorer": FakeScorer(),
        "estimator": FakeEstimator(),
        "conflict_detector": FakeConflictDetector(),
        "metrics": False,
    }
    options = GuardOptions(**{name: changes.pop(name) for name in OPTIONS & set(changes)})
    registry = changes.pop("registry", None)
    if changes.get("metrics") is True:
        changes["metrics"] = GuardMetrics.on(registry)
    policy = policy or policy_with()
    for veto in changes.get("vetoes", ()):
        policy = policy.with_veto(veto)
    return Guard(policy, options=options, **(parts | changes))


async def all_decided(form: str, guard: Guard, *asked: tuple[Any, Any]) -> list[Decision]:
    """The decision on the first question, or those on all, by one of `FORMS`."""
    questions, passages = [question for question, _ in asked], [its for _, its in asked]
    if form == "decide":
        return [guard.decide(*asked[0])]
    if form == "adecide":
        return [await guard.adecide(*asked[0])]
    if form == "decide_batch":
        return await asyncio.to_thread(guard.decide_batch, questions, passages)
    return await guard.adecide_batch(questions, passages)


async def decided(form: str, guard: Guard, question: Any, passages: Any) -> Decision:
    """The decision on one question, by one of `FORMS`."""
    return (await all_decided(form, guard, (question, passages)))[0]


def without_timings(decision: Decision) -> dict[str, Any]:
    """Everything in a decision that repeats itself exactly."""
    return decision.model_dump(exclude={"timings"})
