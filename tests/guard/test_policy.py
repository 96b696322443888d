"""The policy file: frozen, exact, and picky about what it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from knowgate.guard import (
    Fingerprint,
    FingerprintMismatchError,
    Guarantee,
    Guard,
    InputError,
    Policy,
    PolicyError,
)
from knowgate.guard.artefacts import GuaranteedRisk, Histogram, PolicyPoint, binomial_tail
from knowgate.guard.routing import PlattCalibrator, StepCalibrator
from knowgate.guard.signals.conflict import AnswerConflict
from knowgate.guard.testing import FakeScorer, ScriptedLanguageModel
from tests.support.fakes import FakeEstimator
from tests.support.guards import policy_with

P_VALUE = binomial_tail(1, 100, 0.05)
FULL = Policy(
    created_by="knowgate 0.1.0",
    scorer=Fingerprint(
        kind="fake",
        weights_sha256="ab" * 32,
        backend="torch",
        dtype="float32",
        max_length=256,
        settings={"a": 1, "b": 1.0, "c": True, "d": None, "e": "ü", "f": 0.1 + 0.2, "g": 2**70},
    ),
    estimator=Fingerprint(kind="fake"),
    relevance_calibrator=PlattCalibrator(a=1 / 3, b=-1e-300),
    confidence_calibrator=StepCalibrator(edges=(0.1, 0.30000000000000004), values=(0.0, 0.5, 1.0)),
    relevance_threshold=0.1 + 0.2,
    confidence_threshold=5e-324,
    guarantee=Guarantee(
        statement="≤ 5 %",
        risk=0.05,
        delta=0.1,
        certified=True,
        loss="wrong",
        n=100,
        errors=1,
        risks=(GuaranteedRisk(kind="selective", bound=0.05, n=100, loss=1, p_value=P_VALUE),),
        path=(
            PolicyPoint(
                relevance=0.1 + 0.2, confidence=5e-324, p_value=P_VALUE, let_through=100, errors=1
            ),
        ),
        chosen=0,
    ),
    histograms={"relevance": Histogram(edges=(0.0, 0.5, 1.0), counts=(3, 4))},
).sealed()


def written(tmp_path: Path, value: object) -> Path:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def fields(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(policy_with().to_json())
    return found | changes


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        FULL.relevance_threshold = 0.1  # type: ignore[misc]


def test_saving_and_loading_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    FULL.save(first)
    loaded = Policy.load(first)
    loaded.save(second)
    assert loaded == FULL
    assert first.read_bytes() == second.read_bytes()


@given(st.floats(0, 1), st.floats(min_value=1e-300, max_value=1e300), st.floats(-1e300, 1e300))
@settings(max_examples=25)
def test_no_digit_of_a_number_is_lost(threshold: float, a: float, b: float) -> None:
    policy = policy_with(
        relevance_threshold=threshold, relevance_calibrator=PlattCalibrator(a=a, b=b)
    )
    assert Policy.parse(json.loads(policy.to_json()), where="here") == policy


def test_a_newer_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path, fields(schema_version=2, from_the_future=1))
    with pytest.raises(PolicyError, match="newer") as raised:
        Policy.load(path)
    assert isinstance(raised.value, InputError)
    assert raised.value.where == str(path)
    assert "upgrade" in raised.value.hint


def test_a_policy_without_the_newer_fields_looks_for_a_conflict_with_memory() -> None:
    value = fields(check_conflict=True)
    assert "conflict_between" not in value  # so that an older knowgate reads it too
    parsed = Policy.parse(value, where="here")
    assert (parsed.conflict_between, parsed.on_conflict) == ("memory", "follow_context")


@pytest.mark.parametrize("between", ["memory", "passages", "both"])
@pytest.mark.parametrize("on_conflict", ["follow_context", "show_both", "abstain"])
def test_what_a_policy_says_of_conflicts_survives_saving(
    tmp_path: Path, between: str, on_conflict: str
) -> None:
    policy = policy_with(check_conflict=True, conflict_between=between, on_conflict=on_conflict)
    policy.save(tmp_path / "policy.json")
    assert Policy.load(tmp_path / "policy.json") == policy


def test_a_conflict_between_passages_needs_no_confidence() -> None:
    policy = policy_with(
        check_conflict=True,
        conflict_between="passages",
        confidence_threshold=None,
        allowed_routes=("follow_context", "abstain"),
    )
    assert not policy.needs_estimator
    assert policy.route(0.9, None, True).value == "follow_context"


@pytest.mark.parametrize(
    "changes", [{"conflict_between": "passages"}, {"on_conflict": "show_both"}]
)
def test_a_detector_that_names_no_answers_is_refused_where_they_are_needed(
    changes: dict[str, Any],
) -> None:
    from tests.support.guards import guard_with

    class Detector:
        def detect(self, question: str, closed_book_answer: str, passages: Any) -> bool:
            return False

        async def adetect(self, question: str, closed_book_answer: str, passages: Any) -> bool:
            return False

    with pytest.raises(PolicyError, match="examine"):
        guard_with(policy_with(check_conflict=True, **changes), conflict_detector=Detector())
    guard_with(policy_with(check_conflict=True), conflict_detector=Detector())


@pytest.mark.parametrize("between", ["passages", "both"])
def test_a_detector_that_compares_no_passages_is_refused_where_they_are(between: str) -> None:
    from tests.support.guards import guard_with

    detector = AnswerConflict(ScriptedLanguageModel())

    with pytest.raises(PolicyError, match="does not compare passages"):
        guard_with(
            policy_with(check_conflict=True, conflict_between=between), conflict_detector=detector
        )
    guard_with(
        policy_with(check_conflict=True, on_conflict="show_both"), conflict_detector=detector
    )


def test_a_missing_threshold_is_refused_because_none_must_be_written_out() -> None:
    value = fields()
    del value["relevance_threshold"]
    with pytest.raises(PolicyError, match="relevance_threshold"):
        Policy.parse(value, where="here")


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, '{"a": ' + "1" * 5000 + "}", "\x00"])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "policy.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError):
        Policy.load(path)


def test_another_scorers_policy_is_refused_naming_the_fields_that_differ() -> None:
    policy = policy_with(scorer=Fingerprint(kind="other", dtype="bfloat16"))
    with pytest.raises(FingerprintMismatchError) as raised:
        Guard(policy, scorer=FakeScorer(), estimator=FakeEstimator(), metrics=False)
    assert "kind: 'other' against 'fake'" in str(raised.value)
    assert "dtype: 'bfloat16' against None" in str(raised.value)
    assert "backend" not in str(raised.value)
    assert isinstance(raised.value, InputError)


def test_a_setting_that_differs_is_named_and_the_others_are_not() -> None:
    mine = Fingerprint(kind="sufficiency", settings={"stride": 192, "mix": "a", "idf": None})
    theirs = Fingerprint(kind="sufficiency", settings={"stride": 192, "mix": "b"})
    assert mine.differences(theirs) == [
        "settings.mix: 'a' against 'b'",
        "settings.idf: None against nothing",
    ]
    with pytest.raises(FingerprintMismatchError, match=r"scorer=load_scorer\(DIR\)"):
        policy_with(scorer=mine, relevance_calibrator=PlattCalibrator(a=1.0, b=0.0)).require_scorer(
            theirs
        )


def test_another_estimators_policy_is_refused() -> None:
    policy = policy_with(estimator=Fingerprint(kind="sampled_consistency"))
    with pytest.raises(FingerprintMismatchError, match="confidence estimator"):
        Guard(policy, scorer=FakeScorer(), estimator=FakeEstimator(), metrics=False)


def test_a_policy_without_any_threshold_always_abstains_and_says_so() -> None:
    policy = policy_with(relevance_threshold=None, confidence_threshold=None)
    guard = Guard(policy, metrics=False)
    decision = guard.decide("q", ["p"])
    assert (decision.route.value, str(decision.reason)) == ("abstain", "no_threshold")


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"scorer": None}, "relevance scorer"),
        ({"estimator": None}, "confidence estimator"),
        ({"conflict_detector": None}, "conflicts"),
    ],
)
def test_a_part_that_the_policy_needs_must_be_given(changes: dict[str, Any], missing: str) -> None:
    from tests.support.guards import guard_with

    with pytest.raises(PolicyError, match=missing):
        guard_with(policy_with(check_conflict=True), **changes)


@pytest.mark.parametrize("nested", [False, True])
def test_a_file_in_which_a_key_stands_twice_is_rejected(tmp_path: Path, nested: bool) -> None:
    path = tmp_path / "policy.json"
    text = Policy(scorer=FakeScorer().fingerprint, relevance_threshold=0.5).to_json()
    field = '"kind":' if nested else '"relevance_threshold":'
    value = '"other",' if nested else "0.1,"
    path.write_text(text.replace(field, f"{field} {value} {field}", 1), encoding="utf-8")

    with pytest.raises(InputError, match="stands twice"):
        Policy.load(path)
