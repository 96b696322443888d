"""Questions that share a group: each group counts once, and the promise holds however alike."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Coverage, RiskTarget, certificate, fit_policy
from knowgate.calibration.risk.risks import LossTable, PathPoint, Risk
from knowgate.calibration.statistics import binomial_p_value
from knowgate.guard import Guarantee, Policy, PolicyError
from knowgate.guard.artefacts import counted_groups, hoeffding_bentkus, sum_of_shares

DELTA = 0.1
PATH = (PathPoint(0.5, None),)
Bools = NDArray[np.bool_]


def _records(wrong: Bools, *, grouped: bool = True) -> list[CalibrationRecord]:
    """Every question passes; `wrong` has the shape (groups, questions of each)."""
    relevance = np.random.default_rng(0).uniform(0.5, 1.0, wrong.shape)
    return [
        CalibrationRecord(
            f"q{i}-{j}", float(relevance[i, j]), None, not wrong[i, j], None,
            group=f"d{i}" if grouped else "",
        )
        for i, j in np.ndindex(wrong.shape)
    ]  # fmt: skip


def _alike(groups: int, each: int, rate: float, rho: float, seed: int) -> Bools:
    """Questions that go wrong at a rate, alike within a group with a latent correlation."""
    rng = np.random.default_rng([seed, groups, each])
    shared, own = rng.normal(size=(groups, 1)), rng.normal(size=(groups, each))
    return np.asarray(math.sqrt(rho) * shared + math.sqrt(1 - rho) * own < ndtri(rate))


def _guarantee(records: list[CalibrationRecord], risk: Risk = 0.2, **more: object) -> Guarantee:
    guarantee = fit_policy(records, risk, delta=DELTA, **more).policy.guarantee  # type: ignore[arg-type]
    assert guarantee is not None
    return guarantee


def test_a_group_counts_by_its_share_of_the_questions_that_count() -> None:
    groups = np.asarray([0, 0, 0, 1, 1, 2])
    counted = np.asarray([[True, True, False, True, True, False]])
    losses = np.asarray([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]])

    [found] = certificate.groups_at(groups, counted, losses)

    assert found == ((2, 0, 1), (2, 1, 1))
    assert (counted_groups(found), sum_of_shares(found)) == (2, 0.5)


def test_the_p_value_by_hand() -> None:
    # Error-free: the largest chance is that of groups that go wrong as a whole, .8 each.
    assert certificate.group_p_value(((2, 0, 27),), 2, 0.2, DELTA) == pytest.approx(0.8**27)
    # The same as that of 27 passages of a leak, one of which half passes (see `LeakTest`).
    assert certificate.group_p_value(((2, 0, 26), (2, 1, 1)), 2, 0.2, DELTA) == pytest.approx(
        0.0032, abs=5e-5
    )


def test_the_larger_one_of_the_tests_by_question_and_by_group_decides() -> None:
    # Forty small groups that go well, and a large one of which half goes wrong.
    records = _records(np.zeros((40, 1), dtype=bool))
    large = [
        CalibrationRecord(f"large {i}", 0.9, None, i % 2 > 0, None, group="large")
        for i in range(200)
    ]

    [risk] = _guarantee([*records, *large], 0.1, path=PATH).risks

    assert (risk.n, risk.loss) == (240, 100)
    assert risk.p_value == pytest.approx(binomial_p_value(100, 240, 0.1))
    by_group = certificate.group_p_value(((1, 0, 40), (200, 100, 1)), 200, 0.1, DELTA)
    assert by_group < DELTA < risk.p_value


@pytest.mark.parametrize(("groups", "each", "rho"), [(30, 20, 0.3), (30, 20, 1.0), (100, 10, 0.7)])
def test_whatever_the_correlation_a_broken_bound_is_rarely_certified(
    groups: int, each: int, rho: float
) -> None:
    draws = 30
    false = sum(
        _guarantee(_records(_alike(groups, each, 0.1001, rho, seed)), 0.1).certified
        for seed in range(draws)
    )

    # By question it was .08 to .42 for 30 documents, .07 to .31 for 100.
    assert false <= draws * DELTA + 2 * math.sqrt(draws * DELTA * (1 - DELTA))


@pytest.mark.parametrize(
    "risk",
    [
        0.3,
        Coverage(0.5),
        RiskTarget("false_abstention", 0.5),
        RiskTarget("cost", 0.3, LossTable(1.0, 0.5, 0.1)),
        RiskTarget.of_errors(0.3, per_route=True),
    ],
)
def test_a_stored_guarantee_bears_out_its_groups(risk: Risk) -> None:
    policy = fit_policy(_records(_alike(60, 3, 0.05, 0.5, 0)), risk, delta=DELTA).policy
    assert policy.guarantee is not None
    assert policy.guarantee.certified
    assert "groups of" in policy.guarantee.statement

    assert Policy.parse(json.loads(policy.to_json()), where="policy.json") == policy


def test_groups_that_were_changed_are_rejected() -> None:
    policy = fit_policy(_records(_alike(60, 3, 0.05, 0.5, 0)), 0.3, delta=DELTA).policy
    for place in range(3):
        stored = json.loads(policy.to_json())
        stored["guarantee"]["risks"][0]["groups"][0][place] += 1
        with pytest.raises(PolicyError):
            Policy.parse(stored, where="policy.json")


def test_the_bound_of_a_coverage_is_the_smallest_that_both_tests_bear_out() -> None:
    guarantee = _guarantee(_records(_alike(60, 3, 0.1, 0.5, 1)), Coverage(0.5))

    [_, risk] = guarantee.risks
    groups = sum(count for *_, count in risk.groups)
    total = sum(count * wrong / size for size, wrong, count in risk.groups)
    level = DELTA / 2 / len(guarantee.path)

    assert hoeffding_bentkus(total, groups, risk.bound) <= level
    assert hoeffding_bentkus(total, groups, risk.bound - 0.001) > level
    assert binomial_p_value(int(risk.loss), risk.n, risk.bound) <= level
