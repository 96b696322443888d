"""The guard on conflicts: what it asks for, what the decision carries, all forms alike."""

from __future__ import annotations

from typing import Any

import pytest

from knowgate.guard import Decision, Guard, Policy, Reason, Route, Scenario
from knowgate.guard.contracts import ConflictFinding, View
from knowgate.guard.signals.conflict import PassageConflict, SameMeaning
from knowgate.guard.testing import FakeScorer
from knowgate.guard.testing import ScriptedLanguageModel as Scripted
from tests.support.fakes import FakeConflictDetector, FakeEstimator
from tests.support.guards import guard_with, policy_with, without_timings

PASSAGES = ["good nine", " ", "good ten", "good silent"]
SAID = {"good nine": "nine", "good ten": "ten", "good silent": "not stated"}


def contested(
    between: str = "both", on_conflict: str = "show_both", **changes: Any
) -> tuple[Guard, Scripted, FakeEstimator]:
    model = Scripted(SAID)
    estimator = FakeEstimator({"sure": 0.9}, answers={"sure": "noon"}, default=0.1)
    policy = policy_with(check_conflict=True, conflict_between=between, on_conflict=on_conflict)
    guard = guard_with(
        policy,
        scorer=FakeScorer({"good": 0.9}),
        estimator=estimator,
        conflict_detector=PassageConflict(model, same=SameMeaning()),
        **changes,
    )
    return guard, model, estimator


async def in_every_way(guard: Guard, question: str, passages: Any) -> Decision:
    """The one decision of all four forms."""
    decisions = [
        guard.decide(question, passages),
        await guard.adecide(question, passages),
        *guard.decide_batch([question], [passages]),
        *await guard.adecide_batch([question], [passages]),
    ]
    first, *others = [without_timings(decision) for decision in decisions]
    assert all(other == first for other in others)
    return decisions[0]


@pytest.mark.parametrize(
    ("on_conflict", "route", "reason", "kept"),
    [
        ("follow_context", Route.FOLLOW_CONTEXT, Reason.CONFLICT_FOLLOWS_CONTEXT, (0, 2, 3)),
        ("show_both", Route.FOLLOW_CONTEXT, Reason.CONFLICT_SHOWS_BOTH, (0, 2, 3)),
        ("abstain", Route.ABSTAIN, Reason.CONFLICT, ()),
    ],
)
async def test_contradicting_passages_are_told_with_their_own_indices(
    on_conflict: str, route: Route, reason: Reason, kept: tuple[int, ...]
) -> None:
    guard, _, estimator = contested("passages", on_conflict)

    decision = await in_every_way(guard, "unsure", PASSAGES)

    assert (decision.route, decision.reason, decision.kept) == (route, reason, kept)
    assert decision.views == (View("nine", (0,)), View("ten", (2,)))
    assert (decision.conflict, decision.scenario, decision.confidence) == (True, None, None)
    assert estimator.calls == 0


async def test_memory_takes_part_where_the_model_is_confident() -> None:
    guard, _, _ = contested("both")

    sure = await in_every_way(guard, "sure", PASSAGES)
    unsure = await in_every_way(guard, "unsure", PASSAGES)

    assert sure.views[-1] == View("noon", (), from_memory=True)
    assert sure.scenario is Scenario.CONFLICT
    assert len(unsure.views) == 2
    assert unsure.scenario is Scenario.EXTERNAL_ONLY
    assert {sure.reason, unsure.reason} == {Reason.CONFLICT_SHOWS_BOTH}


async def test_passages_that_disagree_are_no_conflict_with_memory() -> None:
    guard, model, _ = contested("memory")

    agreed = await in_every_way(guard, "sure", ["good nine", "good ten"])
    assert agreed.reason is Reason.CONFLICT_SHOWS_BOTH  # memory says a third thing

    model = Scripted({"good nine": "noon", "good ten": "ten"})
    guard = guard_with(
        guard.policy,
        scorer=FakeScorer({"good": 0.9}),
        estimator=FakeEstimator({"sure": 0.9}, answers={"sure": "noon"}),
        conflict_detector=PassageConflict(model),
    )
    decision = await in_every_way(guard, "sure", ["good nine", "good ten"])
    assert (decision.conflict, decision.reason) == (False, Reason.SUFFICIENT_CONTEXT)
    assert decision.scenario is Scenario.AGREEMENT
    assert len(decision.views) == 2


async def test_agreeing_passages_are_followed() -> None:
    guard, model, _ = contested("passages")

    decision = await in_every_way(guard, "unsure", ["good nine", "good nine too"])

    assert (decision.conflict, decision.reason) == (False, Reason.SUFFICIENT_CONTEXT)
    assert decision.views == (View("nine", (0, 1)),)
    assert model.calls == 4


async def test_an_insufficient_context_is_not_looked_at_for_conflicts() -> None:
    guard, model, _ = contested("both")

    decision = await in_every_way(guard, "unsure", ["nine", "ten"])

    assert decision.route is Route.ABSTAIN
    assert (model.calls, decision.views, decision.conflict) == (0, (), None)


async def test_many_questions_are_decided_alike_in_every_form() -> None:
    questions = [f"question {i}" for i in range(40)]
    kinds: list[tuple[View, ...]] = [
        (View("a", (0,)), View("b", (1,))),
        (View("a", (0, 1)), View("m", (), True)),
        (View("a", (0,)), View("b", (1,)), View("m", (), True)),
        (View("a", (0, 1), True),),
        (),
    ]
    for between in ("memory", "passages", "both"):
        guard = guard_with(
            policy_with(check_conflict=True, conflict_between=between, on_conflict="abstain"),
            scorer=FakeScorer({"good": 0.9}),
            estimator=FakeEstimator({q: i % 3 / 2 for i, q in enumerate(questions)}),
            conflict_detector=FakeConflictDetector(
                views={q: kinds[i % len(kinds)] for i, q in enumerate(questions)}
            ),
        )
        passages: list[Any] = [["", "good", "good"] for _ in questions]
        single = [without_timings(guard.decide(q, p)) for q, p in zip(questions, passages)]  # noqa: B905
        batch = guard.decide_batch(questions, passages)
        abatch = await guard.adecide_batch(questions, passages)
        assert [without_timings(d) for d in batch] == single
        assert [without_timings(d) for d in abatch] == single
        assert {d.route for d in batch} == {Route.FOLLOW_CONTEXT, Route.ABSTAIN}
        assert all(0 not in view.passages for d in batch for view in d.views)


class Odd(FakeConflictDetector):
    """Finds what it is told to, sound or not."""

    def __init__(self, finding: Any) -> None:
        super().__init__()
        self._finding = finding

    def examine(self, question: str, closed_book_answer: str, passages: Any) -> Any:
        return self._finding

    async def aexamine(self, question: str, closed_book_answer: str, passages: Any) -> Any:
        return self._finding


@pytest.mark.parametrize(
    "finding",
    [
        None,
        True,
        ConflictFinding("yes", "both"),  # type: ignore[arg-type]
        ConflictFinding(True, "both", (View("a", (7,)),)),
        ConflictFinding(True, "both", (View("a", (-1,)),)),
        ConflictFinding(True, "both", (View(None, (0,)),)),  # type: ignore[arg-type]
        ConflictFinding(True, "both", ("a",)),  # type: ignore[arg-type]
    ],
)
async def test_a_finding_that_makes_no_sense_fails_the_signal(finding: Any) -> None:
    guard = guard_with(
        policy_with(check_conflict=True, conflict_between="passages"),
        scorer=FakeScorer({"good": 0.9}),
        conflict_detector=Odd(finding),
    )

    decision = await in_every_way(guard, "unsure", ["good"])

    assert decision.reason is Reason.CONFLICT_FAILED


def test_the_policy_alone_routes_as_the_guard_does() -> None:
    policy: Policy = contested("passages", "abstain")[0].policy

    assert policy.route(0.9, None, True) is Route.ABSTAIN
    assert policy.route(0.9, None, False) is Route.FOLLOW_CONTEXT
    assert policy.route(0.9, None, None) is Route.ABSTAIN


class _WithoutViews(FakeConflictDetector):
    """Finds a conflict and no answers."""

    def examine(self, question: str, closed_book_answer: str, passages: Any) -> ConflictFinding:
        return ConflictFinding(conflict=True, kind="memory", views=())


async def test_a_conflict_without_the_answers_to_show_is_a_failed_signal() -> None:
    guard = guard_with(
        policy_with(check_conflict=True, conflict_between="memory", on_conflict="show_both"),
        scorer=FakeScorer({"good": 0.9}),
        estimator=FakeEstimator({"When?": 0.9}, answers={"When?": "noon"}, default=0.1),
        conflict_detector=_WithoutViews(["When?"]),
    )

    decision = await in_every_way(guard, "When?", PASSAGES)

    assert (decision.route, decision.reason) == (Route.ABSTAIN, Reason.CONFLICT_FAILED)
