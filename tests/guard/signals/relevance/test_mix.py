"""A mix of scorers: one value by a rule that a policy holds."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document

from knowgate.guard import Guard, GuardOptions, InputError, Policy, Reason
from knowgate.guard.errors import FingerprintMismatchError, SignalValueError
from knowgate.guard.fingerprint import Fingerprint, MixRule, default_aggregator, output_scale
from knowgate.guard.signals.relevance import CascadeScorer, load_scorer
from knowgate.guard.signals.relevance._combined import MixScorer
from knowgate.guard.signals.relevance.registry import completed_scorer, scorer_name
from knowgate.guard.testing import FakeScorer
from tests.support.guards import FORMS, all_decided

RULE = MixRule(intercept=-2.0, weights=((1.0, 0.5), (0.1, 0.0)))
NAME = "mix:lexical+metadata:points"


def passages(*points: object) -> list[Document]:
    texts = ["The library opens at nine.", "Dogs bark.", "Ferries leave."]
    return [
        Document(text, metadata={} if one is None else {"points": one})
        for text, one in zip(texts, points, strict=False)
    ]


def mix_of(name: str = NAME, rule: MixRule = RULE) -> MixScorer:
    mix: Any = load_scorer(name)
    found: MixScorer = mix.weighted_as(rule.fingerprint([one.fingerprint for one in mix.scorers]))
    return found


async def decided(guard: Guard, way: str, given: list[Document]) -> Any:
    asked = ("When does the library open?", given), ("Dogs?", passages(1.0, 50.0))
    found, *others = await all_decided(way, guard, *asked)
    assert all(other.route == "follow_context" for other in others)
    return found


WAYS = pytest.mark.parametrize("way", FORMS)


@WAYS
async def test_the_value_is_that_of_the_rule_in_all_forms(way: str) -> None:
    mix, given = mix_of(), passages(3.0, 30.0, 12.0)
    guard = Guard(Policy.for_scorer(mix, threshold=0.5), scorer=mix, metrics=False)
    best, *rest = load_scorer("lexical").score(
        "When does the library open?", [one.page_content for one in given]
    )
    assert rest == [0.0, 0.0]
    found = await decided(guard, way, given)
    # Value and margin of `lexical` are the same here; the points count by the best alone.
    assert found.raw_relevance == pytest.approx(-2.0 + 1.0 * best + 0.5 * best + 0.1 * 30.0)
    assert found.scores == (best, 0.0, 0.0)
    assert found.route == "follow_context"
    assert (await decided(guard, way, passages(3.0, 3.0))).route == "abstain"


@WAYS
async def test_a_part_that_fails_fails_the_mix(way: str) -> None:
    mix = mix_of()
    options = GuardOptions(on_error={"relevance": "follow_context"})
    guard = Guard(Policy.for_scorer(mix, threshold=0.5), scorer=mix, options=options, metrics=False)
    found = await decided(guard, way, passages(30.0, None))
    assert (found.failed_signals, found.route) == (("relevance",), "follow_context")
    assert found.reason is Reason.SIGNAL_FAILED_FOLLOWS_CONTEXT


def test_a_policy_loads_its_mix_and_is_bound_to_scorers_and_weights(tmp_path: Any) -> None:
    mix = mix_of()
    Policy.for_scorer(mix, threshold=0.5).save(tmp_path / "policy.json")
    policy = Policy.load(tmp_path / "policy.json")
    assert policy.aggregator == "joint" == default_aggregator("mix")
    assert output_scale(policy.scorer) == "log_odds"
    assert scorer_name(policy.scorer) == NAME
    assert load_scorer(policy.scorer).fingerprint == mix.fingerprint == policy.scorer
    given = passages(3.0, 30.0)
    question = "When does the library open?"
    expected = Guard(policy, scorer=mix, metrics=False).decide(question, given)
    for named in (None, load_scorer(NAME)):
        served = Guard.load(tmp_path / "policy.json", scorer=named, metrics=False)
        assert served.decide(question, given).raw_relevance == expected.raw_relevance
    other = MixRule(intercept=-2.0, weights=((1.0, 0.5), (0.2, 0.0)))
    for wrong in (
        mix_of(rule=other),
        load_scorer("mix:lexical+metadata:rank"),
        load_scorer("mix:lexical+metadata:points+metadata:rank"),
    ):
        with pytest.raises(FingerprintMismatchError):
            Guard.load(tmp_path / "policy.json", scorer=wrong, metrics=False)


def test_a_cascade_may_have_a_mix_in_front() -> None:
    mix = mix_of()
    cascade = CascadeScorer(mix, FakeScorer(default=0.0), threshold=0.0, reach=9.0)
    policy = Policy.for_scorer(cascade, threshold=0.5)
    given = passages(3.0, 30.0)
    loaded = completed_scorer(policy.scorer, FakeScorer(default=0.0))
    for one in (cascade, loaded):
        found = Guard(policy, scorer=one, metrics=False).decide("The library?", given)
        assert (found.relevance_stage, found.route) == ("costly", "abstain")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mix:lexical", "no mix of two to 5"),
        ("mix:lexical+lexical", "no mix of two to 5"),
        ("mix:lexical+", "no mix of two to 5"),
        ("mix:a+b+c+d+e+f", "no mix of two to 5"),
        ("mix:lexical+nonsense", "unknown scorer 'nonsense'"),
    ],
)
def test_other_names_are_refused(name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_scorer(name)


def test_without_weights_nothing_is_measured() -> None:
    with pytest.raises(InputError, match="no weights yet"):
        load_scorer(NAME).score_sets(["?"], [["a"]])  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="no weights"):
        load_scorer(Fingerprint(kind="mix", parts=mix_of().fingerprint.parts))
    with pytest.raises(InputError, match="is in a mix itself"):
        MixScorer([load_scorer("lexical"), mix_of()])


def test_a_part_that_gives_no_numbers_is_told() -> None:
    class Odd(FakeScorer):
        def score_pairs(self, pairs: Any) -> Any:
            return ["0.5" for _ in pairs]

    with pytest.raises(SignalValueError):
        MixScorer([Odd(), FakeScorer()], RULE).score_set("?", ["a"])
