"""`metadata:KEY`: the number that came with each passage decides."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document

from knowgate.guard import Guard, GuardOptions, InputError, Policy, Reason, Route
from knowgate.guard.errors import PolicyError, SignalValueError
from knowgate.guard.fingerprint import Fingerprint
from knowgate.guard.routing import PlattCalibrator
from knowgate.guard.signals.relevance import CascadeScorer, load_scorer
from knowgate.guard.signals.relevance.registry import scorer_name
from knowgate.guard.testing import FakeScorer
from knowgate.guard.text import TextWithMetadata
from tests.support.guards import FORMS, all_decided


def passage(value: object, key: str = "relevance_score") -> Document:
    return Document("A text.", metadata={key: value})


def guard_of(name: str = "metadata:relevance_score", **options: Any) -> Guard:
    """A guard whose threshold is at the raw value 3 (or -3, where lower is better)."""
    scorer = load_scorer(name)
    at = -3.0 if name.endswith("true") else 3.0
    policy = Policy.for_scorer(
        scorer, threshold=0.5, calibrator=PlattCalibrator(a=1.0, b=-at), aggregator="max"
    )
    return Guard(policy, scorer=scorer, options=GuardOptions(**options), metrics=False)


async def decided(guard: Guard, way: str, passages: list[object]) -> Any:
    """The decision on one question, beside another one where several are decided."""
    good: list[object] = [passage(9.0), {"text": "Too.", "metadata": {"relevance_score": 1}}]
    found, *others = await all_decided(way, guard, ("Which?", passages), ("And?", good))
    assert all(one.route is Route.FOLLOW_CONTEXT for one in others), "one's fault is not another's"
    return found


WAYS = pytest.mark.parametrize("way", FORMS)


@WAYS
@pytest.mark.parametrize(
    ("values", "route"), [([2.5, 3.5, -40.0], "follow_context"), ([2.5, 2.9, -40.0], "abstain")]
)
async def test_the_best_number_decides_on_its_own_scale(
    way: str, values: list[float], route: str
) -> None:
    found = await decided(guard_of(), way, [passage(value) for value in values])
    assert found.route == route
    assert found.scores == tuple(values)
    assert found.raw_relevance == max(values)
    assert found.relevance == pytest.approx(1 / (1 + math.exp(3.0 - max(values))))


@WAYS
@pytest.mark.parametrize("value", [None, "0.9", True, math.nan, math.inf, [1.0], 10**400], ids=str)
async def test_a_passage_without_the_number_is_a_failed_measurement(
    way: str, value: object
) -> None:
    for guard, route in (
        (guard_of(), Route.ABSTAIN),
        (guard_of(on_error="follow_context"), Route.FOLLOW_CONTEXT),
    ):
        found = await decided(guard, way, [passage(9.0), passage(value)])
        assert found.route is route
        assert found.failed_signals == ("relevance",)
        assert found.relevance is None


class Hostile(Document):
    """Raises where its metadata is read."""

    def __getattribute__(self, name: str) -> Any:
        if name == "metadata":
            raise RuntimeError("secret")
        return super().__getattribute__(name)


@WAYS
@pytest.mark.parametrize("bare", ["a text", {"text": "x"}, {"text": "x", "metadata": [1]}, Hostile])
async def test_passages_without_metadata_are_a_failed_measurement(way: str, bare: Any) -> None:
    given = Hostile(page_content="A text.") if bare is Hostile else bare
    found = await decided(guard_of(), way, [passage(9.0), given])
    assert found.reason is Reason.RELEVANCE_FAILED


def test_numbers_of_any_kind_are_read_and_lower_can_be_better() -> None:
    values = [passage(one, "d") for one in (0.5, 2, np.float32(1.5), Decimal("0.25"))]
    assert load_scorer("metadata:d").score("?", values).tolist() == [0.5, 2.0, 1.5, 0.25]  # type: ignore[arg-type]
    nearest = load_scorer("metadata:d,lower=true").score("?", values)  # type: ignore[arg-type]
    assert nearest.tolist() == [-0.5, -2.0, -1.5, -0.25]
    guard = guard_of("metadata:d,lower=true")
    assert guard.decide("Which?", [passage(2.5, "d"), passage(7.0, "d")]).route == "follow_context"
    assert guard.decide("Which?", [passage(3.5, "d")]).route == "abstain"
    # Without passages there is nothing to read, and nothing failed.
    assert guard.decide("Which?", []).relevance == 0.0


def test_what_is_missing_is_told_without_a_value() -> None:
    with pytest.raises(SignalValueError) as error:
        load_scorer("metadata:rank").score("?", [passage("secret", "rank")])  # type: ignore[list-item]
    assert "'rank' in the metadata of a passage is a str, no number" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("metadata:", "names no key"),
        ("metadata:a,dtype=int8", "'dtype=int8' is no option"),
        ("metadata:a,lower=yes", "lower=true"),
        ("metadata:a,lower", "lower=true"),
    ],
)
def test_a_name_that_says_something_else_is_refused(name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_scorer(name)


def test_a_policy_names_its_key_and_is_bound_to_it() -> None:
    for name in ("metadata:a b", "metadata:distance,lower=true"):
        fingerprint = load_scorer(name).fingerprint
        assert scorer_name(fingerprint) == name
        assert load_scorer(fingerprint).fingerprint == fingerprint
    guard = guard_of()
    with pytest.raises(PolicyError, match=r"settings\.key"):
        Guard(guard.policy, scorer=load_scorer("metadata:other"), metrics=False)
    with pytest.raises(PolicyError, match="no joint value"):
        Policy.for_scorer(
            load_scorer("metadata:a"),
            threshold=0.5,
            calibrator=PlattCalibrator(a=1, b=0),
            aggregator="joint",
        )
    with pytest.raises(InputError, match="names no key"):
        load_scorer(Fingerprint(kind="metadata"))


@pytest.mark.parametrize("cheap_reads", [True, False])
def test_a_cascade_hands_the_metadata_on(cheap_reads: bool) -> None:
    told, fake = load_scorer("metadata:score"), FakeScorer({"text": 0.9})
    stages = (told, fake) if cheap_reads else (fake, told)
    cascade = CascadeScorer(*stages, threshold=0.5, reach=0.5)
    policy = Policy.for_scorer(cascade, threshold=0.5, calibrator=PlattCalibrator(a=1, b=0))
    guard = Guard(policy, scorer=cascade, metrics=False)
    found = guard.decide("Which?", [passage(0.6 if cheap_reads else 0.9, "score")])
    assert found.relevance_stage == "costly"
    # 2 · 0.5 · (1 - 0.9) less than the cheap value.
    assert found.raw_relevance == pytest.approx((0.6 if cheap_reads else 0.9) - 0.1)


def test_a_text_with_metadata_is_its_text() -> None:
    text = TextWithMetadata.of("a", Document("b", metadata={"k": 1}))
    assert text == "a"
    assert text.metadata == {"k": 1}
    assert TextWithMetadata.of("a", 5).metadata == {}
