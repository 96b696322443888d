"""A policy that was changed after its calibration is rejected, or loses its guarantee."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from scipy.stats import binom

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Coverage, Leak, RiskTarget, fit_policy
from knowgate.calibration.risk.risks import LossTable, Risk
from knowgate.guard import Guard, GuardMetrics, InputError, Policy, PolicyError
from knowgate.guard.artefacts import binomial_tail, hoeffding_bentkus
from knowgate.guard.policy import _digest, fault_of
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FakeEstimator


def fitted_records(
    *, leak: bool = False, per_passage: int = 1, questions: int = 240, seed: int = 0
) -> list[CalibrationRecord]:
    """Records whose signals tell right from wrong well, but not always."""
    rng = np.random.default_rng(seed)
    if leak:
        return [
            record
            for i in range(questions)
            for record in CalibrationRecord.leave_one_out_pair(
                f"q{i}",
                float(rng.normal(2.0, 1.0)),
                float(rng.normal(0.0, 1.0)),
                group=f"p{i // per_passage}",
            )
        ]
    return [
        CalibrationRecord(
            f"q{i}",
            relevance=float(np.clip(rng.normal(0.8 if right else 0.2, 0.15), 0, 1)),
            confidence=float(np.clip(rng.normal(0.75 if known else 0.25, 0.15), 0, 1)),
            context_right=bool(right),
            closed_book_right=bool(known),
        )
        for i, (right, known) in enumerate(rng.random((questions, 2)) < 0.6)
    ]


BINDING_KINDS: dict[str, Risk] = {
    "selective": 0.2,
    "each route": RiskTarget.of_errors(0.25, per_route=True),
    "cost": RiskTarget.of_errors(0.3, LossTable(1.0, 0.5, 0.2)),
    "all or nothing": RiskTarget.of_errors(0.3, LossTable(1.0, 1.0, 0.0)),
    "coverage": Coverage(0.3),
    "leak": Leak(0.2),
    "leak of passages": Leak(0.3),
}


@cache
def certified(name: str, attempt: int | None = None) -> Policy:
    """A policy with a certificate of this kind."""
    risk = BINDING_KINDS[name]
    records = fitted_records(leak=isinstance(risk, Leak), per_passage=3 if "of" in name else 1)
    policy = fit_policy(records, risk, delta=0.1, attempt=attempt).policy
    assert policy.guarantee is not None
    assert policy.guarantee.certified
    return policy


@pytest.mark.parametrize("attempt", [None, 1, 3])
@pytest.mark.parametrize("name", BINDING_KINDS)
def test_what_was_calibrated_loads_as_it_was(name: str, attempt: int | None) -> None:
    policy = certified(name, attempt)
    assert fault_of(policy) is None
    text = policy.to_json()
    found = Policy.parse(json.loads(text), where="here")
    assert found == policy
    assert found.state == "true"
    assert found.to_json() == text


def resigned(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with a digest that fits: only the evidence can tell that they were changed."""
    rest = {name: value for name, value in fields.items() if name != "digest"}
    return rest | {"digest": _digest(rest)}


@pytest.mark.parametrize("name", BINDING_KINDS)
@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        (("relevance_threshold",), lambda _: 0.01, "not those of the chosen point"),
        (("guarantee", "risk"), lambda a: a / 2, "its bound"),
        (("guarantee", "n"), lambda n: n + 1, "its bound or its number"),
        (("guarantee", "errors"), lambda n: max(0, n - 1), "its errors"),
        (("guarantee", "risks", 0, "p_value"), lambda p: p / 2, "p-value"),
        (("guarantee", "risks", 0, "loss"), lambda n: n + 3, "counts|errors"),
        (("guarantee", "risks", 0, "bound"), lambda a: a / 2, "bound|p-value"),
        (("guarantee", "path", "chosen", "p_value"), lambda p: p / 2, "p-value"),
        (("guarantee", "chosen"), lambda _: None, "no chosen point"),
        (("guarantee", "delta"), lambda _: 1e-6, "certifies nothing|p-value"),
        (("guarantee", "attempt"), lambda _: 1000, "certifies nothing|p-value"),
    ],
)
def test_a_forged_number_is_found_by_its_evidence(
    name: str, path: tuple[Any, ...], change: Any, words: str
) -> None:
    policy = certified(name)
    assert policy.guarantee is not None
    fields = json.loads(policy.to_json())
    *parents, last = [policy.guarantee.chosen if key == "chosen" and key != path[-1] else key
                      for key in path]  # fmt: skip
    place = fields
    for key in parents:
        place = place[key]
    before = place.get(last)
    place[last] = change(before)
    if place[last] == before:
        pytest.skip("there is nothing to take away")
    with pytest.raises(PolicyError, match=words):
        Policy.parse(resigned(fields), where="here")


def test_confidence_may_be_added_to_a_promise_about_contexts_only() -> None:
    changes = {"confidence_calibrator": {"kind": "platt", "a": 3.0, "b": 0.0}}
    leak, selective = (json.loads(certified(n).to_json()) | changes for n in ("leak", "selective"))

    assert Policy.parse(resigned(leak), where="here").guarantee is not None
    with pytest.raises(PolicyError, match="not those that were certified"):
        Policy.parse(resigned(selective), where="here")


@pytest.mark.parametrize("name", ["selective", "leak of passages"])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("relevance_calibrator", "a"), 1e308),
        (("relevance_calibrator",), {"kind": "step", "edges": [0.5], "values": [0.0, 1.0]}),
        (("scorer", "kind"), "another"),
        (("scorer", "settings"), {"passages": 3}),
        (("aggregator",), "top3_mean"),
    ],
)
def test_a_guarantee_is_about_the_numbers_that_were_certified(
    name: str, path: tuple[str, ...], value: Any
) -> None:
    fields = json.loads(certified(name).to_json())
    place = fields
    for key in path[:-1]:
        place = place[key]
    if path == ("relevance_calibrator", "a") and place["kind"] != "platt":
        fields["relevance_calibrator"] = {"kind": "platt", "a": value, "b": 0.0}
    else:
        place[path[-1]] = value
    with pytest.raises(PolicyError, match="not those that were certified"):
        Policy.parse(resigned(fields), where="here")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("n",), 10**12),
        (("errors",), 10**12),
        (("risks", 0, "n"), 10**12),
        (("risks", 0, "loss"), 1e12),
        (("risks", 0, "loss"), 1e400),
        (("passages",), [[3, 0, 10**12]]),
        (("passages",), [[10**6, 1, 10**4], [10**6, 0, 10**4]]),
        (("passages",), [[1, 0, 1]] * 10_001),
        (("first_stage_passages",), [[10**6, 0, 10**6]]),
        (("unanswerable_topics",), [[10**10, 0, 1]]),
        (("risks",), "repeated"),
    ],
)
def test_numbers_that_nobody_counts_are_refused_before_anything_is_computed(
    path: tuple[Any, ...], value: Any
) -> None:
    fields = json.loads(certified("leak of passages").to_json())
    place = fields["guarantee"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = place["risks"] * 1000 if value == "repeated" else value
    with pytest.raises(PolicyError, match=r"^here: field 'guarantee"):
        Policy.parse(resigned(fields), where="here")


def test_a_file_of_many_megabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(certified("selective").to_json() + " " * 2**23, encoding="utf-8")
    with pytest.raises(InputError, match="has more than 2,097,152 bytes"):
        Policy.load(path)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every single value in parsed JSON."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in places(inner, (*path, key))]
    if isinstance(value, list):
        return [found for key, inner in enumerate(value) for found in places(inner, (*path, key))]
    return [path]


STORED = {name: json.loads(certified(name).to_json()) for name in ("selective", "leak of passages")}
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 400), st.floats(0, 1), st.text(max_size=3)
)


@given(st.sampled_from(sorted(STORED)), st.data(), VALUES)
@settings(max_examples=20, deadline=None)
@example("selective", None, 0.5)
def test_a_single_edit_is_rejected_in_one_line_or_changes_nothing(
    name: str, data: Any, value: Any
) -> None:
    stored = STORED[name]
    path = ("relevance_threshold",) if data is None else data.draw(st.sampled_from(places(stored)))
    edited = deepcopy(stored)
    place = edited
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    try:
        found = Policy.parse(edited, where="policy.json")
    except InputError as error:
        words = str(error)
    else:
        words, edited = "", {}
    if edited:
        assert "\n" not in words
        assert words.startswith("policy.json: ")
        return
    before = Policy.parse(stored, where="policy.json")
    assert found.model_copy(update={"created_by": ""}) == before.model_copy(
        update={"created_by": ""}
    )


@pytest.mark.parametrize("damage", ["threshold", "no digest"])
def test_a_changed_policy_loads_on_request_without_its_guarantee_and_says_so(
    tmp_path: Path, damage: str
) -> None:
    policy = certified("selective").model_copy(update={"scorer": FakeScorer().fingerprint})
    fields = json.loads(policy.to_json())
    if damage == "threshold":
        fields["relevance_threshold"] = 0.25
    else:
        del fields["digest"]
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(PolicyError, match="not as it was calibrated") as raised:
        Policy.load(path)
    assert "allow_changed=True" in raised.value.hint

    found = Policy.load(path, allow_changed=True)

    assert found.relevance_threshold == fields["relevance_threshold"]
    assert found.guarantee is None
    assert not found.calibrated
    assert "nothing is guaranteed" in found.note
    found.save(path)  # stays what it is, wherever it is copied to
    again = Policy.load(path)
    assert again == found
    registry = CollectorRegistry()
    Guard(again, scorer=FakeScorer(), estimator=FakeEstimator(), metrics=GuardMetrics.on(registry))
    labels = {"guard": "default", "calibrated": "changed"}
    assert registry.get_sample_value("knowgate_guards_total", labels) == 1


def test_a_policy_written_by_hand_needs_no_digest_and_may_be_edited() -> None:
    fields = json.loads(
        Policy(scorer=FakeScorer().fingerprint, relevance_threshold=0.5, note="by hand").to_json()
    )
    assert "digest" not in fields
    fields["relevance_threshold"] = 0.75
    assert Policy.parse(fields, where="here").relevance_threshold == 0.75


def test_the_margin_that_says_nothing_is_lost_of_is_kept_at_zero() -> None:
    policy = Policy(scorer=FakeScorer().fingerprint, relevance_threshold=0.5, kept_margin=0.0)
    assert Policy.parse(json.loads(policy.to_json()), where="here").kept_margin == 0.0


@given(st.integers(0, 3000), st.floats(0.001, 0.999), st.data())
@settings(max_examples=25, deadline=None)
def test_the_exact_tail_is_that_of_scipy(n: int, risk: float, data: st.DataObject) -> None:
    errors = data.draw(st.integers(0, n))
    expected = 1.0 if n == 0 else float(binom.cdf(errors, n, risk))
    assert binomial_tail(errors, n, risk) == pytest.approx(expected, rel=1e-8, abs=1e-14)


@given(st.integers(1, 500), st.floats(0.01, 0.99), st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_bounded_losses_have_the_p_value_of_the_calibration(
    n: int, risk: float, share: float
) -> None:
    from scipy.special import bdtr, rel_entr

    loss = share * n
    mean = min(share, risk)
    entropy = max(0.0, rel_entr(mean, risk) + rel_entr(1 - mean, 1 - risk))
    whole = min(n, int(-(-(loss - 1e-9) // 1)))
    expected = min(
        1.0, 2.718281828459045 * bdtr(whole, n, risk), 2.718281828459045 ** (-n * entropy)
    )
    assert hoeffding_bentkus(loss, n, risk) == pytest.approx(expected, rel=1e-6, abs=1e-12)
