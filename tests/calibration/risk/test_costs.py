"""Thresholds chosen by cost: the best ones, reported honestly, and never with a guarantee."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Costs, Fit, MaxAbstention, fit_policy
from knowgate.calibration.risk.costs import LeakFold
from knowgate.calibration.risk.fit import PolicyBinding
from knowgate.guard import Fingerprint, Policy
from knowgate.guard.errors import PolicyError

_SCORES = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=12)


def _records(
    in_kb: Sequence[float], left_out: Sequence[float], *, group_size: int = 1
) -> list[CalibrationRecord]:
    found = []
    for case, scores in (("in_kb", in_kb), ("left_out", left_out)):
        for i, score in enumerate(scores):
            group = f"p{i // group_size}"
            right = case == "in_kb"
            found.append(
                CalibrationRecord(f"q{i}", score, None, right, None, group=group, case=case)
            )
    return found


def _fitted(records: list[CalibrationRecord], risk: Costs | MaxAbstention) -> Fit:
    binding = PolicyBinding(scorer=Fingerprint(kind="fake"))
    return fit_policy(records, risk, delta=0.1, binding=binding)


def _passes(policy: Policy, raw: float) -> bool:
    threshold = policy.relevance_threshold
    return threshold is not None and policy.relevance_calibrator.apply(raw) >= threshold


def _rates(policy: Policy, in_kb: Sequence[float], left_out: Sequence[float]) -> tuple[float, ...]:
    """Leak and false abstention."""
    leak = sum(_passes(policy, raw) for raw in left_out) / len(left_out)
    return leak, 1.0 - sum(_passes(policy, raw) for raw in in_kb) / len(in_kb)


@pytest.mark.parametrize(
    ("leak", "abstention", "passing"),
    [
        # Above 3: one of four abstained from, none passes. Above 1: none and two of four.
        (1.0, 1.0, [4, 5, 6]),
        (1.0, 3.0, [2, 3, 4, 5, 6]),
        (0.001, 1.0, [2, 3, 4, 5, 6]),
    ],
)
def test_the_cheapest_threshold_by_hand(leak: float, abstention: float, passing: list[int]) -> None:
    records = _records([2, 4, 5, 6], [0, 1, 2, 3])

    policy = _fitted(records, Costs(leak, abstention)).policy

    assert [raw for raw in range(7) if _passes(policy, raw)] == passing


@settings(max_examples=60, deadline=None)
@given(_SCORES, _SCORES, st.floats(0.05, 20), st.floats(0.05, 0.95))
def test_no_other_threshold_costs_less_on_the_same_questions(
    in_kb: list[float], left_out: list[float], leak: float, share: float
) -> None:
    costs = Costs(leak, missing_share=share)
    policy = _fitted(_records(in_kb, left_out), costs).policy

    found = costs.of(*_rates(policy, in_kb, left_out))

    for threshold in (*range(10), math.inf):
        other = (
            sum(s >= threshold for s in left_out) / len(left_out),
            sum(s < threshold for s in in_kb) / len(in_kb),
        )
        assert found <= costs.of(*other) + 1e-9


def test_each_passage_counts_once_in_the_leak() -> None:
    # Three questions of one passage pass at 5, one of another at 3.
    records = _records([4.0, 4.0], [])
    records += _records([], [5.0, 5.0, 5.0, 0.0], group_size=3)
    lax = _fitted(records, Costs(1.5)).policy  # half leaks: .75 against 1 for abstaining

    assert _passes(lax, 4.0)


@pytest.mark.parametrize(("share", "abstained"), [(0.001, 0), (0.25, 2), (0.5, 4), (0.9, 8)])
def test_the_strictest_threshold_that_keeps_abstention_within_a_share(
    share: float, abstained: int
) -> None:
    in_kb = [float(n) for n in range(9)]  # k of 9 below it abstain from (k + .5)/10 of new ones
    policy = _fitted(_records(in_kb, [20.0]), MaxAbstention(share)).policy

    assert sum(not _passes(policy, raw) for raw in in_kb) == abstained


def test_a_policy_chosen_for_costs_says_that_nothing_is_guaranteed(tmp_path: Path) -> None:
    fit = _fitted(_records([2, 4, 5, 6], [0, 1, 2, 3]), Costs(5))
    path = tmp_path / "policy.json"
    fit.policy.save(path)
    loaded = Policy.load(path)

    assert loaded.guarantee is None
    assert loaded.state == "costs"
    assert loaded.note == (
        "Threshold chosen for costs (a leak costs 5, an abstention 1) on 4 questions; "
        "nothing is guaranteed."
    )
    changed = json.loads(path.read_text()) | {"note": "certified"}
    path.write_text(json.dumps(changed))
    with pytest.raises(PolicyError, match="not as it was calibrated"):
        Policy.load(path)


@pytest.mark.parametrize("risk", [Costs(2.0), MaxAbstention(0.25)])
def test_the_rates_of_the_folds_are_those_of_new_questions(risk: Costs | MaxAbstention) -> None:
    """Answerable scores are normal around 1.5, left-out ones around 0."""
    questions, reported, true = 40, [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        records = _records(
            rng.normal(1.5, 1, questions).tolist(), rng.normal(0, 1, questions).tolist()
        )
        fit = _fitted(records, risk)
        passing = {"in_kb": 0, "left_out": 0}
        for fold in LeakFold.deal(fit, seed=seed):
            threshold = math.inf if fold.threshold is None else fold.threshold
            for record in fold.records:
                passing[record.case] += (record.relevance or 0.0) >= threshold
        reported.append((passing["left_out"] / questions, 1 - passing["in_kb"] / questions))
        grid = np.linspace(-4, 6, 2001)
        at = next(raw for raw in grid.tolist() if _passes(fit.policy, raw))
        true.append((1 - ndtr(at), ndtr(at - 1.5)))
    off = np.asarray(reported) - np.asarray(true)

    error = off.std(axis=0) / math.sqrt(len(off))
    # Folds are a twentieth smaller than the whole, which costs up to a point.
    assert (np.abs(off.mean(axis=0)) < 3 * error + 0.01).all()
