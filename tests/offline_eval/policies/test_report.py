from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from knowgate.guard import Policy, Route
from knowgate.guard.routing import PlattCalibrator
from knowgate.offline_eval.policies import Calibrated, calibrate_records
from knowgate.offline_eval.policies._rates import Rates, outcomes_under
from knowgate.offline_eval.policies._report import calibration_document, what_if_of
from knowgate.offline_eval.report.writing import ReportPaths, ReportWriter
from tests.offline_eval.policies.measured import ESTIMATOR, SCORER, drawn
from tests.offline_eval.suites.ookb.test_signals_report import EVIL
from tests.support.report_page import Page


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
        assert found.coverage.value == pytest.approx(rates.coverage.value, rel=1e-12)
        assert found.false_abstention.value == pytest.approx(
            rates.false_abstention.value, rel=1e-12
        )
        if rates.risk.value is not None:
            assert found.wrong.value == pytest.approx(rates.risk.value, rel=1e-12)
