from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Coverage, Leak
from knowgate.guard import Policy
from knowgate.offline_eval.policies import calibrate_records
from knowgate.offline_eval.policies._rates import Rates, outcomes_under
from knowgate.offline_eval.policies.records import CalibrationSet
from tests.offline_eval.policies.measured import drawn


def _true_rates(policy: Policy, population: CalibrationSet) -> tuple[float, float | None]:
    rates = Rates(outcomes_under(policy, population.records))
    assert rates.coverage.value is not None
    return rates.coverage.value, rates.risk.value


@pytest.mark.slow
def test_no_question_is_used_for_two_things() -> None:
    found = calibrate_records(drawn(300, variants=2), risk=0.2, delta=0.1, share=0.8)

    parts = [{c.question_id for c in part} for part in (found.learn, found.certify, found.test)]
    assert all(parts)
    assert len(parts[0] | parts[1] | parts[2]) == sum(map(len, parts)) == 300
    assert {*found.learn, *found.certify, *found.test} == set(found.measured.records)


def test_the_rates_are_those_of_questions_that_nothing_was_fitted_on() -> None:
    found = calibrate_records(drawn(400), risk=0.2, delta=0.1, share=0.8)

    assert vars(found.rates) == vars(Rates(outcomes_under(found.policy, found.test)))
    assert found.rates is not None
    assert found.rates.questions == len(found.test)


def test_by_default_nothing_is_set_aside_and_the_rates_are_of_what_certified() -> None:
    found = calibrate_records(drawn(600), risk=0.3, delta=0.1)

    assert found.test == ()
    assert found.rates is not None
    assert vars(found.rates) == vars(Rates(outcomes_under(found.policy, found.certify)))
    coverage, risk = _true_rates(found.policy, CalibrationSet(drawn(4000, seed=5).records, ""))
    assert found.rates.coverage.value == pytest.approx(coverage, abs=0.06)
    assert found.rates.risk.value == pytest.approx(risk, abs=0.06)


def _leave_one_out(
    apart: float, *, questions: int = 80, missed: float = 0.0, seed: int = 0
) -> CalibrationSet:
    """Questions whose source in place raises relevance by `apart` standard deviations."""
    rng = np.random.default_rng(seed)
    records: list[CalibrationRecord] = []
    for i in range(questions):
        without, with_it = rng.normal(), rng.normal() + apart
        pair = CalibrationRecord.leave_one_out_pair(f"q{i}", with_it, without, group=f"p{i // 2}")
        if rng.random() < missed:
            pair = (replace(pair[0], context_right=False), pair[1])
        records += pair
    return CalibrationSet(tuple(records), "drawn", leaves_out=True)


@pytest.mark.parametrize(
    ("kind", "measured", "risk"),
    [
        ("uncertified", _leave_one_out(3.0, questions=20), 0.1),
        ("blind", _leave_one_out(0.0), 0.2),
        ("abstains", _leave_one_out(1.0), 0.1),
        ("misses", _leave_one_out(4.0, missed=0.6), 0.2),
    ],
)
def test_a_policy_that_should_not_serve_says_why(
    kind: str, measured: CalibrationSet, risk: float
) -> None:
    found = calibrate_records(measured, Leak(risk), delta=0.1)

    assert kind in {problem.kind for problem in found.problems}
    for problem in found.problems:
        assert problem.what.endswith(".")
        assert problem.hint


def test_leak_rates_are_near_the_truth() -> None:
    differences = []
    for seed in range(8):
        found = calibrate_records(
            _leave_one_out(2.0, questions=120, seed=seed), Leak(0.2), delta=0.1
        )
        truth = outcomes_under(found.policy, _leave_one_out(2.0, questions=3000, seed=99).records)
        rates = found.leak_rates
        assert rates is not None
        for interval, kind in (
            (rates.left_out_abstention, "left_out"),
            (rates.false_abstention, "in_kb"),
        ):
            of_kind = [not outcome.passes for outcome in truth if outcome.case.case == kind]
            assert interval.value is not None
            differences.append(interval.value - sum(of_kind) / len(of_kind))

    assert abs(np.mean(differences[::2])) < 0.05
    assert abs(np.mean(differences[1::2])) < 0.05


def test_what_went_right_among_the_certifying_questions_moves_neither_calibrators_nor_path() -> (
    None
):
    measured = drawn(200)
    found = calibrate_records(measured, risk=0.2, delta=0.1)
    learnt = set(found.learn)
    turned = tuple(
        case
        if case in learnt
        else replace(
            case, context_right=not case.context_right, closed_book_right=not case.closed_book_right
        )
        for case in measured.records
    )

    other = calibrate_records(replace(measured, records=turned), risk=0.2, delta=0.1)

    assert other.choices == found.choices
    assert [(s["relevance"], s["confidence"]) for s in other.steps] == [
        (s["relevance"], s["confidence"]) for s in found.steps
    ]
    assert [s["p_value"] for s in other.steps] != [s["p_value"] for s in found.steps]


@pytest.mark.slow
def test_a_coverage_that_is_asked_for_comes_with_the_bound_that_it_costs() -> None:
    population = drawn(4000, seed=999)
    asked = {}
    for coverage in (0.4, 0.8):
        found = calibrate_records(drawn(800), Coverage(coverage), delta=0.1)
        assert found.policy.guarantee is not None
        assert found.policy.guarantee.certified
        bound = found.policy.guarantee.risk
        reached, risk = _true_rates(found.policy, CalibrationSet(population.records, ""))
        assert coverage - 0.02 <= reached <= coverage + 0.15
        assert risk is not None
        assert risk <= bound <= risk + 0.11
        asked[coverage] = bound
    assert asked[0.4] < asked[0.8]


def test_a_run_teaches_which_passages_are_left_out_of_the_prompt() -> None:
    sets = tuple(((2.0, 1.0, 0.0 + i / 100, -3.0), (2,)) for i in range(40))
    measured = replace(_leave_one_out(3.0), kept_sets=sets)

    found = calibrate_records(measured, Leak(0.2), delta=0.1)

    assert found.policy.kept_margin == 1.0
    assert all(2 in found.policy.kept(scores) for scores, _ in sets)
    assert found.left_out_of_prompts() == pytest.approx(1 / 4)
    few = calibrate_records(replace(measured, kept_sets=sets[:10]), Leak(0.2), delta=0.1)
    assert few.policy.kept_margin is None
