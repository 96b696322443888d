"""`knowgate kb build`."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.cli import _kb
from tests.offline_eval.cli.commands import Knowgate

assert _kb.kb_app is not None  # registers the command


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A text, a page, and a file that is none."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "rules.txt").write_text(
        "The limit in a tunnel must be 50 km/h. The fine for parking must be $70."
    )
    (folder / "faq.html").write_text("<h2>Who pays the fine?</h2><p>The driver.</p>")
    (folder / "photo.txt").write_bytes(b"\x89PNG\x00\x00")
    return folder


def test_documents_become_questions_by_rules_and_go_into_an_evaluation(
    knowgate: Knowgate, documents: Path, tmp_path: Path
) -> None:
    out = tmp_path / "kb"

    built = knowgate("kb", "build", documents, "--out", out)
    evaluated = knowgate(
        "measure", "--questions", out / "questions.jsonl", "--scorer", "lexical",
        "--out", tmp_path / "run",
    )  # fmt: skip

    assert built.code == 0, built.err
    assert "documents: 3, of which 1 gave nothing · sentences: 2 · facts: 2 · questions: 3" in (
        built.out
    )
    assert "failures: binary 1" in built.out
    assert "cost" not in built.out
    assert f"next: knowgate measure --questions {out / 'diverse.jsonl'} --out run" in built.out
    assert evaluated.code == 0, evaluated.err
