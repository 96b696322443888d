"""`knowgate tune relevance`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knowgate.calibration import Interval
from knowgate.calibration.training.sufficiency.cases import TrainingQuestion
from knowgate.calibration.training.sufficiency.tuning import TuningReport
from knowgate.offline_eval.cli import _tune, app
from tests.offline_eval.cli.commands import (
    Knowgate,
    Outcome,
    read_lines,
)
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


@pytest.mark.parametrize(
    ("folder", "named"),
    [("lexical", "./lexical"), ("my scorer", "'my scorer'"), ("tuned", "tuned")],
)
def test_a_folder_is_named_so_that_it_is_found(
    capsys: pytest.CaptureFixture[str], folder: str, named: str
) -> None:
    report = TuningReport(30, 0.5, 0.5, Interval(1.0, 1.0, 1.0, 30), 12)
    _tune._tell(report, Path(folder))
    assert capsys.readouterr().out.endswith(
        f"Use it with --scorer {named}, and calibrate again, on other questions.\n"
    )


def test_questions_are_written_where_there_are_none_and_kept(
    knowgate: Knowgate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"When does hall {i} open?,Hall {i} opens at {i}.\n" for i in range(24)]
    (tmp_path / "faq.csv").write_text("question,answer\n" + "".join(rows))
    given: list[TrainingQuestion] = []

    def tuned(cases: list[TrainingQuestion], work: Path, **_: object) -> TuningReport:
        given.extend(cases)
        (work / "sufficiency.json").write_text("{}")
        return TuningReport(24, 0.8, 0.7, Interval(-0.1, -0.2, -0.05, 24), 0)

    monkeypatch.setattr(_tune, "tune_relevance", tuned)
    out = tmp_path / "new"
    done = knowgate(
        "tune", "relevance", "--documents", tmp_path / "faq.csv", "--model", "none", "--out", out
    )
    assert done.code == 0, done.err
    assert [one.text for one in given[:2]] == ["When does hall 0 open?", "When does hall 1 open?"]
    assert "Hall 0 opens at 0." in given[0].passage
    kept = tmp_path / "new-kb" / "questions.jsonl"
    assert f"24 questions → {kept}" in done.out
    assert len(read_lines(kept)) == 24
    assert done.out.endswith("Keep the bundled scorer, --scorer sufficiency.\n")
    assert json.loads((out / "tuning.json").read_text())["use"] == "sufficiency"
