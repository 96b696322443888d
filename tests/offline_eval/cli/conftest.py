"""The command line, in process; a toy run made through it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knowgate.offline_eval.cli import app, main
from tests.guard.engine.remembered import remembered_encoders
from tests.offline_eval.cli.commands import Knowgate, Outcome
from tests.offline_eval.suites.ookb.toy import write_toy_questions


@pytest.fixture(scope="module", autouse=True)
def _remembered_encoders() -> Iterator[None]:
    """Many tests measure the same toy questions."""
    with remembered_encoders():
        yield


@pytest.fixture
def knowgate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Knowgate:
    """Runs `knowgate …` as the console script does."""

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr("sys.argv", ["knowgate", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        code = stopped.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `kb.jsonl`, its `run` and the `policy.json` fitted on it; read only."""
    folder = tmp_path_factory.mktemp("cli")
    questions = write_toy_questions(folder / "kb.jsonl", 60)
    for arguments in (
        ["measure", "--questions", questions, "--out", folder / "run", "--scorer", "lexical"],
        ["calibrate", "--run", folder / "run", "--risk", "0.2", "--out", folder / "policy.json"],
    ):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def workplace(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished_run, tmp_path / "work"))
