"""Passages that do not bear on the question stay out; abstentions name the nearest pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from knowgate.guard import Decision, Guard, Policy, Route
from knowgate.guard.contracts import ConflictFinding, View
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FakeConflictDetector
from tests.support.guards import guard_with, policy_with

SCORES = {"opens at nine": 0.9, "closes at six": 0.8, "dogs": 0.2, "fees": 0.1}
PASSAGES = ["dogs", "The library opens at nine.", "", "It closes at six.", "fees"]


def guard_keeping(margin: float | None, **changes: object) -> Guard:
    policy = policy_with(kept_margin=margin, confidence_threshold=None)
    return guard_with(policy, scorer=FakeScorer(SCORES, default=0.0), **changes)


@pytest.mark.parametrize(
    ("margin", "kept"),
    [(None, (0, 1, 3, 4)), (0.0, (1, 3)), (0.1, (1, 3)), (0.65, (0, 1, 3)), (5.0, (0, 1, 3, 4))],
)
def test_passages_far_below_the_best_are_left_out_of_the_prompt(
    margin: float | None, kept: tuple[int, ...]
) -> None:
    decision = guard_keeping(margin).decide("When?", PASSAGES)

    assert decision.route is Route.FOLLOW_CONTEXT
    assert decision.kept == kept
    assert len(decision.scores) == len(PASSAGES)


def test_one_passage_alone_pushes_no_other_out_of_the_prompt() -> None:
    policy = policy_with(kept_margin=0.1, relevance_threshold=0.9)
    honest = [0.3, 0.5, 0.2]
    assert policy.kept(honest) == [0, 1, 2]
    assert policy.kept([0.3, 0.5, 0.1]) == [0, 1]
    # Whatever a single passage scores, the best of the others stays.
    assert all(1 in policy.kept([*honest, score]) for score in (0.0, 0.5, 1.0, 100.0))


def test_a_passage_that_would_be_followed_alone_is_kept() -> None:
    policy = policy_with(kept_margin=0.0, relevance_threshold=0.5)
    assert policy.kept([0.9, 0.8, 0.5, 0.4]) == [0, 1, 2]


def test_passages_are_left_out_alike_in_every_form() -> None:
    guard = guard_keeping(0.1)
    [together] = guard.decide_batch(["When?"], [PASSAGES])
    assert together.kept == guard.decide("When?", PASSAGES).kept == (1, 3)


def test_nothing_is_left_out_where_relevance_was_not_measured() -> None:
    assert policy_with(kept_margin=0.0).kept([None, None]) == [0, 1]


def test_a_conflict_keeps_every_passage_that_takes_part() -> None:
    finding = ConflictFinding.of([View("nine", (1,)), View("ten", (0,))])

    class Detector(FakeConflictDetector):
        def examine(self, *_: object) -> ConflictFinding:
            return finding

        async def aexamine(self, *_: object) -> ConflictFinding:
            return finding

    policy = policy_with(
        kept_margin=0.0, check_conflict=True, conflict_between="passages", on_conflict="show_both"
    )
    guard = guard_with(policy, scorer=FakeScorer(SCORES), conflict_detector=Detector())
    assert guard.decide("When?", PASSAGES).kept == (0, 1, 3, 4)


def test_the_margin_is_stored_and_left_out_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    policy_with(kept_margin=0.25).save(path)
    assert Policy.load(path).kept_margin == 0.25

    assert "kept_margin" not in json.loads(policy_with().to_json())
    assert "kept_margin" not in policy_with().model_dump()


@given(
    st.lists(
        st.lists(st.floats(-9, 0.5), min_size=1, max_size=6).flatmap(
            lambda scores: st.tuples(
                st.just(scores), st.lists(st.integers(0, len(scores) - 1), min_size=1, unique=True)
            )
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_learned_margin_breaks_no_sufficient_set_and_is_the_smallest(
    sets: list[tuple[list[float], list[int]]],
) -> None:
    margin = Policy.kept_margin_of(sets)
    assert margin is not None
    # A threshold that no passage passes by itself.
    policy = policy_with(kept_margin=margin, relevance_threshold=1.0)
    assert all(set(needed) <= set(policy.kept(scores)) for scores, needed in sets)
    if margin > 1e-6:
        tighter = policy.model_copy(update={"kept_margin": margin * 0.999})
        assert not all(set(needed) <= set(tighter.kept(scores)) for scores, needed in sets)


def test_without_questions_there_is_no_margin() -> None:
    assert Policy.kept_margin_of([]) is None
    assert Policy.kept_margin_of([([1.0, 2.0], [])]) is None


PAGES = [
    Document("dogs", metadata={"source": "dogs.md"}),
    Document("It closes at six.", metadata={"title": "Opening hours", "source": "hours.md"}),
    Document("The library opens at nine.", metadata={"title": "Opening\nhours"}),
    Document("fees"),
]


def abstaining() -> Guard:
    policy = policy_with(relevance_threshold=0.95, confidence_threshold=None)
    return guard_with(policy, scorer=FakeScorer(SCORES, default=0.0))


def test_an_abstention_carries_the_nearest_passages_with_their_scores() -> None:
    decision = abstaining().decide("When?", PAGES)

    assert decision.found is not None
    assert decision.found.documents == (PAGES[2], PAGES[1], PAGES[0], PAGES[3])
    assert decision.found.scores == (0.9, 0.8, 0.2, 0.1)
    assert decision.found.suggestions == ("Opening hours", "dogs.md")


def test_what_was_found_stays_out_of_what_is_stored() -> None:
    decision = abstaining().decide("When?", PAGES)

    assert "found" not in decision.model_dump()
    assert "dogs" not in repr(decision)
    assert Decision.model_validate_json(decision.model_dump_json()).found is None


def test_only_abstentions_from_something_carry_it() -> None:
    assert abstaining().decide("When?", []).found is None
    assert guard_keeping(None).decide("When?", PAGES).found is None


def test_passages_that_were_not_scored_are_found_in_the_order_given() -> None:
    decision = guard_with(policy_with(relevance_threshold=None)).decide("When?", PAGES)

    assert decision.found is not None
    assert decision.found.documents == tuple(PAGES)
    assert decision.found.scores == (None,) * 4
