"""Self-adaptation end to end, on a small made-up knowledge base."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from knowgate.calibration.training import sufficiency as tuning
from knowgate.calibration.training.sufficiency import (
    MIN_QUESTIONS,
    TuningReport,
    _gain,
    _log_loss,
    tune_relevance,
)
from knowgate.guard import InputError
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.match_model import MatchModel
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer
from tests.calibration.training.sufficiency.knowledge import made_up_questions

pytestmark = pytest.mark.slow


@dataclasses.dataclass
class _Tuned:
    folder: Path
    report: TuningReport


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> _Tuned:
    """One tuning of a step with its judgement, on three folds."""
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "_FOLDS", 3)
        report = tune_relevance(made_up_questions(), folder, checkpoints=(1,))
    assert report is not None
    return _Tuned(folder, report)


def test_the_report_says_what_was_measured(tuned: _Tuned) -> None:
    report = tuned.report
    assert report.questions == 24
    assert 0.5 < report.before <= 1.0
    assert 0.5 < report.after <= 1.0
    assert report.gain.value == pytest.approx(report.after - report.before)
    low, value, high = report.gain.low, report.gain.value, report.gain.high
    assert low is not None
    assert value is not None
    assert high is not None
    assert low <= value <= high
    assert report.gain.n == 24
    assert report.steps in {0, 1}
    assert report.helped == (low > 0.0)
    assert json.loads(json.dumps(report.as_json(), allow_nan=False)) == {
        "schema_version": 1,
        "questions": 24,
        "auroc_before": round(report.before, 6),
        "auroc_after": round(report.after, 6),
        "gain": {"value": round(value, 6), "low": round(low, 6), "high": round(high, 6)},
        "steps": report.steps,
        "helped": report.helped,
        "use": "tuned" if report.helped else "sufficiency",
    }


def test_the_folder_is_a_scorer(tuned: _Tuned) -> None:
    assert sorted(path.name for path in tuned.folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "sufficiency.json",
        "tuned_on.json",
    ]
    scorer = load_scorer(str(tuned.folder))
    assert isinstance(scorer, SufficiencyScorer)
    assert scorer.model == MatchModel.load(tuned.folder / "sufficiency.json")
    assert scorer.model.fitted_on == "tuned on 24 questions of one knowledge base"
    question, *others = made_up_questions()
    passages = [other.passage for other in others[:4]]
    with_it = scorer.score_set(question.text, [question.passage, *passages])
    assert with_it.scores.index(max(with_it.scores)) == 0
    assert with_it.joint > scorer.score_set(question.text, passages).joint


def test_without_judgement_the_middle_checkpoint_is_shipped(tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    report = tune_relevance(
        made_up_questions(20),
        tmp_path,
        checkpoints=(1,),
        judge=False,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert report is None
    assert progress[-1] == (1, 1)
    assert MatchModel.load(tmp_path / "sufficiency.json").fitted_on.startswith(
        "tuned on 20 questions"
    )


def test_too_few_questions_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    few = made_up_questions(MIN_QUESTIONS - 1)
    with pytest.raises(InputError, match=r"19 usable questions are too few .* — at least 20"):
        tune_relevance(few, tmp_path)
    with pytest.raises(InputError, match="0 usable questions"):
        tune_relevance([], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_gain_is_paired_by_question() -> None:
    before = [(0.0, 1.0)] * 10 + [(2.0, 1.0)] * 10
    after = [(2.0, 1.0)] * 20
    found = _gain(before, after, seed=0)
    assert found.value == pytest.approx(0.5)
    assert found.low is not None
    assert found.high is not None
    assert 0.2 < found.low < 0.5 < found.high < 0.8
    same = _gain(before, before, seed=0)
    assert (same.value, same.low, same.high, same.n) == (0.0, 0.0, 0.0, 20)


def test_the_log_loss_is_that_of_both_sets() -> None:
    assert _log_loss([(0.0, 0.0)]) == pytest.approx(2 * 0.6931471805599453)
    assert _log_loss([(50.0, -50.0), (0.0, 0.0)]) == pytest.approx(0.6931471805599453)
