"""A toy knowledge base and a finished run over it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions


@pytest.fixture(scope="session")
def finished_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `kb.jsonl` and its finished run `run`; not to be written to."""
    folder = tmp_path_factory.mktemp("toy")
    run_toy(write_toy_questions(folder / "kb.jsonl", 60), folder / "run")
    return folder


@pytest.fixture
def toy(finished_toy: Path, tmp_path: Path) -> Path:
    """A copy of it to do with as one likes."""
    return Path(shutil.copytree(finished_toy, tmp_path / "toy"))
