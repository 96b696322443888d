"""The suite on public data gives the numbers that were measured before it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.calibration import SelectiveCurve
from knowgate.guard.engine import BiEncoderScorer
from knowgate.offline_eval.data.questions import PassageKind
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb.instruments import Instruments


@pytest.fixture(scope="module")
def encoder() -> BiEncoderScorer:
    """The embedded encoder, loaded once."""
    return BiEncoderScorer()


def _run(shared_data: Path, out: Path, encoder: BiEncoderScorer, kind: PassageKind) -> MeasuredRun:
    questions = shared_data / "policybench" / "questions" / "BTT.json"
    settings = MeasureSettings(questions=questions, passage=kind, scorer="bi_encoder")
    run_suite(MEASURE, settings, out, [Instruments(encoder, encoder)])
    return MeasuredRun.read(out)


def _auroc(run: MeasuredRun) -> float | None:
    raw = {kind: [row.raw_relevance for row in run.rows if row.kind is kind] for kind in CaseKind}
    return SelectiveCurve.auroc(
        [value for value in raw[CaseKind.IN_KB] if value is not None],
        [value for value in raw[CaseKind.LEFT_OUT] if value is not None],
    )


@pytest.mark.slow
def test_answers_alone_are_told_apart_as_well_as_measured_before(
    shared_data: Path, tmp_path: Path, encoder: BiEncoderScorer
) -> None:
    run = _run(shared_data, tmp_path / "run", encoder, PassageKind.ANSWER)

    assert _auroc(run) == pytest.approx(0.821, abs=0.01)
    assert all(row.error is None for row in run.rows)


@pytest.mark.slow
def test_with_the_question_in_the_passage_it_is_easy(
    shared_data: Path, tmp_path: Path, encoder: BiEncoderScorer
) -> None:
    run = _run(shared_data, tmp_path / "run", encoder, PassageKind.QUESTION_ANSWER)

    found = _auroc(run)
    assert found is not None
    assert found >= 0.99
