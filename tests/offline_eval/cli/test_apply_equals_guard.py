"""`knowgate apply` and `Guard` decide alike, whatever the policy and the signals."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.guard import Fingerprint, Guard, GuardOptions, Policy, Route
from knowgate.guard.contracts import ConflictBetween, ConflictFinding, View
from knowgate.guard.testing import FakeScorer
from tests.offline_eval.cli.commands import Knowgate, read_lines, write_lines
from tests.support.fakes import FakeConflictDetector, FakeEstimator

_COMPARED = (
    "route", "reason", "scenario", "relevance", "confidence", "conflict", "failed_signals"
)  # fmt: skip
_NO_DEADLINES = {"relevance": None, "confidence": None, "conflict": None}
# Two passages and the model's memory that all say something else: a conflict of each kind.
_ALL_DIFFER = (View("one", (0,)), View("two", (1,)), View("three", (), from_memory=True))
_PASSAGES = ["First.", "Second."]


class _FailingDetector(FakeConflictDetector):
    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        raise RuntimeError("no idea")


_THRESHOLDS = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1.0))


@st.composite
def _policies(draw: st.DrawFn) -> Policy:
    tau_r, tau_p = draw(_THRESHOLDS), draw(_THRESHOLDS)
    between = draw(st.sampled_from(["memory", "passages", "both"]))
    may_check = tau_p is not None or between == "passages"
    return Policy(
        scorer=Fingerprint(kind="fake"),
        relevance_threshold=tau_r,
        confidence_threshold=tau_p,
        allowed_routes=tuple(draw(st.sets(st.sampled_from(list(Route))))),
        check_conflict=may_check and draw(st.booleans()),
        conflict_between=between,
        on_conflict=draw(st.sampled_from(["follow_context", "show_both", "abstain"])),
    )


@st.composite
def _policies_and_lines(draw: st.DrawFn) -> tuple[Policy, list[dict[str, Any]]]:
    policy = draw(_policies())
    # On a threshold and next to it is where two programs would first disagree.
    edges = [
        value
        for threshold in (policy.relevance_threshold, policy.confidence_threshold)
        if threshold is not None
        for value in (threshold, math.nextafter(threshold, 0), math.nextafter(threshold, 1))
    ]
    value = st.one_of(
        st.none(),
        st.sampled_from([math.nan, math.inf, -math.inf, 0, 1, 0.0, -0.0, 1.0, *edges]),
        st.floats(0.0, 1.0),
    )
    line = st.fixed_dictionaries(
        {
            "relevance": value,
            "confidence": value,
            "conflict": st.sampled_from([None, True, False]),
            "nothing_retrieved": st.booleans(),
        }
    )
    return policy, draw(st.lists(line, min_size=1, max_size=8))


def _guarded(policy: Policy, line: dict[str, Any]) -> dict[str, Any]:
    """What a guard decides whose scorer, estimator and detector say what `line` says."""

    def number(name: str) -> float:
        return math.nan if line[name] is None else float(line[name])

    confidence = number("confidence")
    guard = Guard(
        policy,
        scorer=FakeScorer(default=number("relevance")),
        estimator=FakeEstimator(
            default=confidence, error=None if math.isfinite(confidence) else RuntimeError("no idea")
        ),
        conflict_detector=(
            _FailingDetector()
            if line["conflict"] is None
            else FakeConflictDetector(views={"Why?": _ALL_DIFFER if line["conflict"] else ()})
        ),
        options=GuardOptions(deadlines=_NO_DEADLINES),
        metrics=False,
    )
    passages = [] if line["nothing_retrieved"] else _PASSAGES
    return guard.decide("Why?", passages).model_dump(mode="json")


def _replayed(
    knowgate: Knowgate, policy: Policy, lines: Sequence[dict[str, Any]], *options: str
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        policy.save(folder / "policy.json")
        write_lines(folder / "in.jsonl", lines)
        outcome = knowgate(
            "apply", "--policy", folder / "policy.json", "--input", folder / "in.jsonl",
            "--output", folder / "out.jsonl", *options,
        )  # fmt: skip
        assert outcome.code == 0, outcome
        return read_lines(folder / "out.jsonl")


def _require_equal(
    policy: Policy, lines: Sequence[dict[str, Any]], replayed: Sequence[dict[str, Any]]
) -> None:
    assert len(replayed) == len(lines)
    for line, found in zip(lines, replayed, strict=True):
        expected = _guarded(policy, line)
        assert {name: found[name] for name in _COMPARED} == {
            name: expected[name] for name in _COMPARED
        }, (policy, line)


@pytest.mark.slow
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(_policies_and_lines())
def test_a_replay_equals_the_guard_for_any_policy_and_any_signals(
    knowgate: Knowgate, drawn: tuple[Policy, list[dict[str, Any]]]
) -> None:
    policy, lines = drawn

    _require_equal(policy, lines, _replayed(knowgate, policy, lines))


@pytest.mark.slow
def test_a_conflict_counts_for_the_guard_as_for_the_replay_by_its_kind(knowgate: Knowgate) -> None:
    memory_differs = (View("one", (0, 1)), View("two", (), from_memory=True))
    passages_differ = (View("one", (0,), from_memory=True), View("two", (1,)))
    kinds: tuple[ConflictBetween, ...] = ("memory", "passages", "both")
    for views, between in itertools.product(
        (memory_differs, passages_differ, _ALL_DIFFER, ()), kinds
    ):
        policy = Policy(
            scorer=Fingerprint(kind="fake"),
            relevance_threshold=0.5,
            confidence_threshold=0.5,
            check_conflict=True,
            conflict_between=between,
            on_conflict="abstain",
        )
        guard = Guard(
            policy,
            scorer=FakeScorer(default=0.9),
            estimator=FakeEstimator(default=0.9),
            conflict_detector=FakeConflictDetector(views={"Why?": views}),
            metrics=False,
        )
        conflict = ConflictFinding.of(views).counts(between)
        line = {"relevance": 0.9, "confidence": 0.9, "conflict": conflict}

        [found] = _replayed(knowgate, policy, [line])

        expected = guard.decide("Why?", _PASSAGES).model_dump(mode="json")
        assert {name: found[name] for name in _COMPARED} == {
            name: expected[name] for name in _COMPARED
        }
