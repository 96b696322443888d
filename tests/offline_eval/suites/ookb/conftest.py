"""A toy knowledge base with a finished run over it, and runs written by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions
from tests.offline_eval.suites.ookb.written_rows import SCORER, Row, WriteRun, policy


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


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes a run folder; `test_questions` given, it is a calibrated one."""

    def write(
        rows: Sequence[Row],
        *,
        name: str = "run",
        manifest: Mapping[str, Any] | None = None,
        text: str = "What does it cost?",
        test_questions: Sequence[str] | None = None,
        calibration: Mapping[str, Any] | None = None,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        ids = list(dict.fromkeys(row["question_id"] for row in rows))
        questions = [
            {"question_id": i, "question": text, "answer": text, "passage": text, "source": "kb"}
            for i in ids
        ]
        top = {
            "schema_version": 1,
            "suite": "ookb",
            "created_by": "knowgate 0.1.0",
            "settings": {
                "scorer": SCORER.model_dump(),
                "aggregator": "max",
                "retrieval": "basic_rag",
                "top_k": 5,
                "passage": "answer",
                "seed": 0,
            },
            "inputs": [{"name": "kb.json", "sha256": "0" * 64}],
            "questions": len(ids),
            "cases": len(rows),
            **(manifest or {}),
        }
        _write(folder / "manifest.json", json.dumps(top))
        _write(folder / "questions.jsonl", "".join(json.dumps(q) + "\n" for q in questions))
        _write(folder / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        if test_questions is not None:
            value = {
                "schema_version": 1,
                "policy": policy(),
                "risk": 0.1,
                "delta": 0.1,
                "seed": 0,
                "calibration_questions": [i for i in ids if i not in test_questions],
                "test_questions": list(test_questions),
                **(calibration or {}),
            }
            _write(folder / "calibration.json", json.dumps(value))
        return folder

    return write


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
