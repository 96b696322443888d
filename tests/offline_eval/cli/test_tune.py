"""`knowgate tune relevance`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knowgate.calibration import Interval
from knowgate.calibration.training.cases import TrainingQuestion
from knowgate.calibration.training.sufficiency import TuningReport
from knowgate.offline_eval.cli import _tune, app
from tests.offline_eval.cli.commands import Outcome
from tests.offline_eval.suites.ookb.toy import write_toy_questions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A folder beside the knowledge base it was tuned on, and what was printed; read only."""
    folder = tmp_path_factory.mktemp("tune")
    questions = write_toy_questions(folder / "kb.jsonl", 24)

    def tune(cases: list[TrainingQuestion], work: Path, **_: object) -> TuningReport:
        (work / "sufficiency.json").write_text("{}", encoding="utf-8")
        return TuningReport(len(cases), 0.7, 0.9, Interval(0.2, 0.1, 0.3, len(cases)), 7)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tune, "tune_relevance", tune)
        arguments = ["tune", "relevance", "--questions", questions, "--out", folder / "new" / "one"]
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return folder / "new" / "one", Outcome(done.exit_code, done.stdout, done.stderr)


def test_a_tuned_folder_holds_the_scorer_and_the_verdict(tuned: tuple[Path, Outcome]) -> None:
    folder, outcome = tuned
    assert outcome.code == 0, outcome
    assert sorted(path.name for path in folder.iterdir()) == ["sufficiency.json", "tuning.json"]
    # Nothing is left beside it, and others may read it.
    assert [path.name for path in folder.parent.iterdir()] == ["one"]
    assert folder.stat().st_mode & 0o755 == 0o755
    report = json.loads((folder / "tuning.json").read_text(encoding="utf-8"))
    assert report["questions"] == 24
