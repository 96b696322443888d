"""Policies fit the output of their scorer, and say where programs made their questions."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from knowgate.guard import (
    Fingerprint,
    Guard,
    InputError,
    Policy,
    PolicyError,
    Reason,
    RelevanceScorer,
    Route,
)
from knowgate.guard.policy import IdentityCalibrator
from knowgate.guard.routing import PlattCalibrator, TemperatureCalibrator
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import FakeScorer

LOG_ODDS = PlattCalibrator(a=1.0, b=0.0)


class DefaultLike:
    """A scorer that is named like the default one."""

    fingerprint = Fingerprint(kind="sufficiency")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "relevance_calibrator 'identity' does not fit"),
        (
            {"relevance_calibrator": TemperatureCalibrator(temperature=2.0)},
            "relevance_calibrator 'temperature' does not fit",
        ),
        (
            {"relevance_calibrator": LOG_ODDS, "aggregator": "noisy_or"},
            "aggregator 'noisy_or' does not fit",
        ),
    ],
)
def test_log_odds_are_never_taken_for_probabilities(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=rf"{why} the scorer 'sufficiency'.*Policy\.for_scorer"):
        Policy(scorer=DefaultLike.fingerprint, relevance_threshold=0.5, **changes)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"score": max}, "it has no fingerprint"),
        ({"fingerprint": Fingerprint(kind="sufficiency")}, "it has no score_pairs"),
        ({"fingerprint": "mine", "score_pairs": max}, "is a str, not a Fingerprint"),
    ],
)
def test_a_scorer_that_lacks_a_part_is_rejected(parts: dict[str, Any], why: str) -> None:
    scorer: Any = SimpleNamespace(**parts)
    policy = Policy(scorer=Fingerprint(kind="lexical"), relevance_threshold=0.5)
    with pytest.raises(InputError, match=f"{why}.* — derive it from .*RelevanceScorer"):
        Guard(policy, scorer=scorer, metrics=False)


class Unwritten(RelevanceScorer):
    """Inherits what computes nothing."""

    fingerprint = Fingerprint(kind="lexical")


def test_a_class_and_what_is_inherited_from_the_protocol_are_no_scorer() -> None:
    policy = Policy(scorer=Unwritten.fingerprint, relevance_threshold=0.5)
    with pytest.raises(InputError, match="it has no score_pairs"):
        Guard(policy, scorer=Unwritten(), metrics=False)  # type: ignore[abstract]
    with pytest.raises(InputError, match=r"LexicalScorer is a class.*LexicalScorer\(\)"):
        Guard(policy, scorer=LexicalScorer, metrics=False)  # type: ignore[arg-type]


def test_a_policy_that_follows_nothing_may_have_any_calibrator() -> None:
    assert not Policy(scorer=Fingerprint(kind="sufficiency"), relevance_threshold=None).may_follow


def test_a_stored_policy_that_does_not_fit_is_rejected_with_its_file(tmp_path: Path) -> None:
    good = Policy.for_scorer(DefaultLike(), threshold=0.5)  # type: ignore[arg-type]
    stored = json.loads(good.to_json())
    stored["relevance_calibrator"] = {"kind": "identity"}
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(stored), encoding="utf-8")

    with pytest.raises(PolicyError, match=r"policy\.json: relevance_calibrator 'identity'"):
        Policy.load(path)


def test_a_policy_for_a_scorer_has_the_calibrator_and_aggregator_that_fit_it() -> None:
    policy = Policy.for_scorer(DefaultLike(), threshold=0.7)  # type: ignore[arg-type]

    assert (policy.aggregator, policy.relevance_calibrator) == ("joint", LOG_ODDS)
    assert policy.relevance_threshold == 0.7
    assert "not calibrated on your data" in policy.note
    assert not policy.calibrated


def test_only_the_default_scorer_has_a_bundled_threshold() -> None:
    bundled = Policy.for_scorer(DefaultLike()).relevance_threshold  # type: ignore[arg-type]
    assert bundled is not None
    with pytest.raises(PolicyError, match="LexicalScorer has no bundled threshold"):
        Policy.for_scorer(LexicalScorer())


def test_the_scale_of_a_scorer_of_ones_own_has_to_be_told() -> None:
    scorer = FakeScorer(default=0.9)
    with pytest.raises(PolicyError, match="FakeScorer are not known to be probabilities"):
        Policy.for_scorer(scorer, threshold=0.5)

    policy = Policy.for_scorer(scorer, threshold=0.5, calibrator=IdentityCalibrator())
    guard = Guard(policy, scorer=scorer, metrics=False)
    assert guard.decide("q", ["passage"]).route is Route.FOLLOW_CONTEXT


def test_a_calibrator_that_does_not_fit_is_rejected_here_too() -> None:
    with pytest.raises(PolicyError, match="relevance_calibrator 'identity' does not fit"):
        Policy.for_scorer(
            DefaultLike(),  # type: ignore[arg-type]
            threshold=0.5,
            calibrator=IdentityCalibrator(),
        )


@pytest.mark.parametrize("value", [1.5, -0.1, 7])
def test_a_raw_score_beyond_a_probability_is_a_failure_not_a_certainty(value: float) -> None:
    scorer = FakeScorer(default=value)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    decision = Guard(policy, scorer=scorer, metrics=False).decide("q", ["passage"])

    assert decision.reason is Reason.RELEVANCE_FAILED

    calibrated = policy.model_copy(update={"relevance_calibrator": LOG_ODDS})
    again = Guard(calibrated, scorer=scorer, metrics=False).decide("q", ["passage"])
    assert again.relevance == pytest.approx(LOG_ODDS.apply(value))


def policy(generated: float, **fields: Any) -> Policy:
    return Policy(
        scorer=FakeScorer().fingerprint,
        relevance_threshold=0.5,
        calibration_set_sha256="0" * 64,
        note="Rules made them.",
        generated=generated,
        **fields,
    )


@pytest.mark.parametrize(
    ("share", "state"), [(0.0, "costs"), (0.1, "costs"), (0.11, "generated"), (1.0, "generated")]
)
def test_more_than_a_tenth_of_them_makes_another_state(share: float, state: str) -> None:
    assert policy(share).state == state
    assert policy(share, changed=True).state == "changed"


def test_it_survives_its_file_and_cannot_be_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    policy(1.0).save(path)
    assert Policy.load(path) == policy(1.0)
    fields = json.loads(path.read_text(encoding="utf-8"))
    del fields["generated"]
    path.write_text(json.dumps(fields), encoding="utf-8")

    with pytest.raises(PolicyError, match="not as it was calibrated"):
        Policy.load(path)


@pytest.mark.parametrize("name", ["policy", "mode", "limits", "scorer", "metrics"])
def test_what_decides_is_fixed_once_a_guard_is_built(name: str) -> None:
    scorer = LexicalScorer()
    guard = Guard(Policy.for_scorer(scorer, threshold=0.5), scorer=scorer)
    with pytest.raises(AttributeError, match=f"'{name}' of a guard is fixed"):
        setattr(guard, name, getattr(guard, name))
