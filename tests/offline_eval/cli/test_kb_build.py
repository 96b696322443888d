"""`knowgate kb build`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.offline_eval.cli import _kb
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused
from tests.support.scripted_chat import ScriptedChat
from tests.support.scripted_facts import scripted_facts

MODEL = "python:tests.offline_eval.cli.test_kb_build:failing_chat"

assert _kb.kb_app is not None  # registers the command


def failing_chat() -> ScriptedChat:
    """What `--model` names in these tests."""
    return ScriptedChat(script=scripted_facts, failure_rate=0.3)


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


def test_a_model_is_named_and_its_cost_is_told(
    knowgate: Knowgate, documents: Path, tmp_path: Path
) -> None:
    out = tmp_path / "kb"

    built = knowgate("kb", "build", documents, "--model", MODEL, "--out", out)

    assert built.code == 0, built.err
    assert "facts: 2 · questions: 3" in built.out
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["model"] == MODEL
    assert manifest["cost"]["calls"] >= 3
    assert f"cost: {manifest['cost']['calls']} calls" in built.out


def test_a_dry_run_tells_the_cost_and_writes_nothing(
    knowgate: Knowgate, documents: Path, tmp_path: Path
) -> None:
    out = tmp_path / "kb"

    told = knowgate("kb", "build", documents, "--model", "openai:x", "--out", out, "--dry-run")

    assert told.code == 0, told.err
    assert "calls: 1 for facts, about 2 for questions (0 answered already)" in told.out
    assert "tokens, estimated:" in told.out
    assert not out.exists()


@pytest.mark.slow
def test_prompts_are_replaced_by_files(knowgate: Knowgate, documents: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "mine.txt"
    prompt.write_text("Ask about this.\nFact: {fact}")
    out = tmp_path / "kb"

    built = knowgate(
        "kb", "build", documents, "--model", MODEL, "--question-prompt", prompt, "--out", out
    )

    assert built.code == 0, built.err
    assert json.loads((out / "manifest.json").read_text())["settings"]["question_prompt"] == "mine"
    assert len(read_lines(out / "questions.jsonl")) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "nonsense"), "there is no such model"),
        (("--question-prompt", "prompt.txt"), "the prompt has no slot {fact}"),
        (("--rate", "0", "--model", MODEL), "rate"),
    ],
)
def test_bad_options_are_refused_in_one_line_and_nothing_is_written(
    options: tuple[str, ...],
    words: str,
    knowgate: Knowgate,
    documents: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prompt.txt").write_text("Ask.")

    found = knowgate("kb", "build", documents, "--out", tmp_path / "kb", *options)

    refused(found, words)
    assert not (tmp_path / "kb").exists()


def test_documents_that_do_not_exist_are_refused(knowgate: Knowgate, tmp_path: Path) -> None:
    refused(knowgate("kb", "build", tmp_path / "nowhere", "--out", tmp_path / "kb"), "no such file")
