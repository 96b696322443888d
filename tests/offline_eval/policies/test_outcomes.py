from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import binom

from knowgate.guard import Policy, Route
from knowgate.guard.routing import PlattCalibrator, TemperatureCalibrator
from knowgate.offline_eval.policies import Calibrated, calibrate_records
from knowgate.offline_eval.policies._rates import Rates, clustered_rate, outcomes_under
from knowgate.offline_eval.policies._report import calibration_document, what_if_of
from knowgate.offline_eval.report.what_if import share
from knowgate.offline_eval.report.writing import ReportPaths, ReportWriter
from tests.offline_eval.policies.measured import ESTIMATOR, SCORER, case, drawn
from tests.offline_eval.suites.ookb.test_signals import EVIL
from tests.support.report_page import Page

POLICY = Policy(
    scorer=SCORER, relevance_threshold=0.5, confidence_threshold=0.7, allowed_routes=tuple(Route)
)


def test_each_route_is_wrong_by_its_own_answer() -> None:
    cases = [
        case("a", 0.9, 0.9, (True, False)),  # follows, right
        case("b", 0.9, 0.9, (False, True)),  # follows, wrong although memory knew
        case("c", 0.1, 0.9, (True, False)),  # answers, wrong
        case("d", 0.1, 0.9, (False, True)),  # answers, right
        case("e", 0.1, 0.1, (True, False)),  # declines, although the context was right
        case("f", 0.1, 0.1, (False, False)),  # declines, rightly
        case("g", 0.9, 0.1, (None, True)),  # follows, not known: wrong
        case("h", None, 0.9, (True, True)),  # relevance failed: declines
    ]

    outcomes = outcomes_under(POLICY, cases)

    assert [o.route.value[0] for o in outcomes] == ["f", "f", "a", "a", "a", "a", "f", "a"]
    assert [o.passes for o in outcomes] == [True] * 4 + [False, False, True, False]
    assert [o.wrong for o in outcomes] == [False, True, True, False, False, False, True, False]
    rates = Rates(outcomes)
    assert (rates.coverage.value, rates.risk.value) == (5 / 8, 3 / 5)
    assert (rates.followed_wrong.value, rates.answered_wrong.value) == (2 / 3, 1 / 2)
    assert rates.false_abstention.value == 2 / 7


def test_nothing_retrieved_is_a_relevance_of_zero_whatever_the_calibrator_says() -> None:
    lax = POLICY.model_copy(
        update={
            "relevance_threshold": 0.0,
            "relevance_calibrator": TemperatureCalibrator(temperature=2.0),
        }
    )

    [found] = outcomes_under(lax, [case(relevance=0.9, nothing_retrieved=True)])

    assert (found.shown.relevance, found.route) == (0.0, Route.ABSTAIN)


def test_with_one_case_per_unit_the_interval_is_clopper_and_pearsons() -> None:
    trials = [(("question", str(i)), 2.0, i < 3) for i in range(10)]

    rate = clustered_rate(trials)

    assert (rate.value, rate.n) == (0.3, 10)
    # The shares at which 3 of 10 or more, and 3 or fewer, have a chance of .025.
    assert rate.low is not None
    assert rate.high is not None
    assert binom.sf(2, 10, rate.low) == pytest.approx(0.025)
    assert binom.cdf(3, 10, rate.high) == pytest.approx(0.025)


def test_units_count_as_many_trials_as_their_variance_leaves() -> None:
    # Ten units of two: five have 2 of 2, five 1 of 2. The share is .75, residuals are ±.5, so the
    # variance is 10/9 · 10 · .25 / 20² = .0069444, that of .1875 / .0069444 = 27 trials, times
    # (t of 19 / t of 9 degrees)² = (2.09302 / 2.26216)² = .85605: 23.113, above the 20 there are.
    trials = [(("group", str(i // 2)), 1.0, i % 4 != 3) for i in range(20)]

    assert clustered_rate(trials).low == pytest.approx(betaincinv(15, 6, 0.025))
    # No more than one trial for each unit: 7.5 of 10.
    few = clustered_rate(trials, most=10)
    assert (few.low, few.high) == pytest.approx(
        (betaincinv(7.5, 3.5, 0.025), betaincinv(8.5, 2.5, 0.975))
    )
    # All of a unit alike: residuals ±1 or so, and fewer than ten trials remain.
    alike = clustered_rate([(("group", str(i // 2)), 1.0, i < 10) for i in range(20)])
    independent = 0.25 / (10 / 9 * 10 * 1 / 400) * (2.0930240544 / 2.2621571628) ** 2
    assert alike.low == pytest.approx(
        betaincinv(independent / 2, independent / 2 + 1, 0.025), rel=1e-6
    )


@pytest.mark.slow
def test_the_interval_covers_the_true_rate_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        trials = []
        for unit in range(60):
            chance = rng.beta(2, 4)
            trials += [(("group", str(unit)), 1.0, bool(rng.random() < chance)) for _ in range(4)]
        rate = clustered_rate(trials)
        covered += (rate.low or 0) <= 1 / 3 <= (rate.high or 0)
    # 200 draws at 95 %: a standard error of 1.5 points;
    assert 0.90 <= covered / 200 <= 0.99


@pytest.fixture(scope="module")
def calibrated() -> Calibrated:
    return calibrate_records(drawn(400, seed=1), risk=0.25, delta=0.1)


def write_calibration_report(found: Calibrated, page: Path) -> ReportPaths:
    writer = ReportWriter(page.parent, ("json", "html"), page=page.name)
    return writer.write(calibration_document(found))


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_text_of_the_records_cannot_become_markup(calibrated: Calibrated, tmp_path: Path) -> None:
    evil = replace(
        calibrated,
        measured=replace(calibrated.measured, population=EVIL, source=EVIL),
        warnings=(EVIL,),
    )

    page = Page(write_calibration_report(evil, tmp_path / "p.html").html.read_text("utf-8"))

    assert not page.tags & {"img", "b", "i"}
    assert not page.handlers
    assert "<script>alert(1)</script>" in page.text
    assert "\u202e" not in page.text
    assert {"reliability-caption", "risk-coverage-caption"} <= set(page.ids)


def test_other_thresholds_give_the_rates_of_the_policy_that_has_them() -> None:
    measured = drawn(80, seed=3, variants=2)
    records = [
        replace(record, conflict=number % 3 == 0, weight=1.0 + number % 4)
        for number, record in enumerate(measured.records)
    ]
    rule = Policy(
        scorer=SCORER,
        relevance_calibrator=PlattCalibrator(a=1.0, b=0.0),
        relevance_threshold=0.5,
        confidence_threshold=0.5,
        allowed_routes=tuple(Route),
        check_conflict=True,
        on_conflict="abstain",
        estimator=ESTIMATOR,
    )
    block = what_if_of(rule, outcomes_under(rule, records), "Cases")
    stops = zip(block.stops("relevance")[::9], block.stops("confidence")[::9], strict=False)

    for relevance, confidence in [*stops, (None, 0.3), (0.2, None), (None, None)]:
        thresholds = {"relevance_threshold": relevance, "confidence_threshold": confidence}
        rates = Rates(outcomes_under(rule.model_copy(update=thresholds), records))
        found = block.at(relevance, confidence)
        assert share(found["coverage"]) == pytest.approx(rates.coverage.value, rel=1e-12)
        assert share(found["false_abstention"]) == pytest.approx(
            rates.false_abstention.value, rel=1e-12
        )
        if rates.risk.value is not None:
            assert share(found["wrong"]) == pytest.approx(rates.risk.value, rel=1e-12)
