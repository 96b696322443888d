"""`knowgate import`."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.run import (
    RepliesRun,
)
from tests.offline_eval.cli.commands import Knowgate, refused, write_lines
from tests.offline_eval.data.formats.knowornot_experiments import asked, metadata, replied, store
from tests.offline_eval.data.formats.test_lm_eval import GENERATION


def test_knowornot_documents_go_in(knowgate: Knowgate, tmp_path: Path) -> None:
    output = {"metadata": metadata(), "responses": [replied(asked(0, [1, 2]), "It is red.")]}
    unanswered = {"metadata": metadata(retrieval_type="DIRECT"), "questions": [asked(1, None)]}
    files = [store(tmp_path / "a.json", output), store(tmp_path / "b.json", unanswered)]

    taken = knowgate("import", "knowornot", *files, "--out", tmp_path / "run")

    assert taken.code == 0
    assert taken.err.startswith(f"warning: {files[1]}: the experiment has no output document")
    assert f"run → {tmp_path / 'run'}" in taken.out
    assert len(RepliesRun.read(tmp_path / "run").replies) == 1


def test_lm_eval_samples_go_in(knowgate: Knowgate, tmp_path: Path) -> None:
    log = write_lines(tmp_path / "samples_t.jsonl", [GENERATION])

    outcome = knowgate("import", "lm-eval", log, "--out", tmp_path / "run", "--model", "m")

    assert (outcome.code, outcome.err) == (0, "")
    assert list(RepliesRun.read(tmp_path / "run").systems) == ["m"]


@pytest.mark.parametrize("tool", ["knowornot", "lm-eval"])
def test_broken_files_leave_no_run(knowgate: Knowgate, tmp_path: Path, tool: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"responses": 3}\n', encoding="utf-8")

    refused(knowgate("import", tool, path, "--out", tmp_path / "run"), str(path))

    assert not (tmp_path / "run").exists()
    refused(knowgate("import", tool, tmp_path / "none", "--out", tmp_path / "run"), "no such file")
