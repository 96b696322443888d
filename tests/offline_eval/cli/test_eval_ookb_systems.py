"""`knowgate eval ookb` with systems under test."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.run import (
    RepliesRun,
)
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused

CHAT = "python:tests.offline_eval.cli.scripted_models:chat"
CHAIN = "python:tests.offline_eval.cli.scripted_models:chain"


@pytest.mark.slow
def test_the_same_command_again_asks_nothing(knowgate: Knowgate, workplace: Path) -> None:
    arguments = (
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAT, "--limit", 3,
        "--judge", "none", "--out", workplace / "replies",
    )  # fmt: skip
    knowgate(*arguments)
    before = {path.name: path.read_bytes() for path in (workplace / "replies").iterdir()}

    outcome = knowgate(*arguments)

    assert "6 replies (6 were there before)" in outcome.out
    assert {path.name: path.read_bytes() for path in (workplace / "replies").iterdir()} == before


@pytest.mark.slow
def test_failures_are_told_and_asked_again_on_demand(knowgate: Knowgate, workplace: Path) -> None:
    arguments = (
        "eval", "ookb", "--questions", workplace / "kb.jsonl",
        "--model", CHAT.replace(":chat", ":failing"), "--limit", 10, "--judge", "none",
        "--out", workplace / "replies", "--calls",
    )  # fmt: skip

    def failed() -> int:
        rows = RepliesRun.read(workplace / "replies").replies.values()
        return sum(row.error is not None for row in rows)

    outcome = knowgate(*arguments, "attempts=1")
    first = failed()
    assert first > 0
    assert outcome.code == 1
    assert f"{first} of 20 replies failed" in outcome.err
    assert "--retry-failed" in outcome.err
    assert knowgate(*arguments, "attempts=1").code == 1

    assert knowgate(*arguments, "attempts=12", "--retry-failed").code == 0
    assert failed() == 0


@pytest.mark.slow
def test_a_run_of_replies_cannot_be_calibrated_on(knowgate: Knowgate, workplace: Path) -> None:
    knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAT, "--limit", 2,
        "--judge", "none", "--out", workplace / "replies",
    )  # fmt: skip

    outcome = knowgate("calibrate", "--run", workplace / "replies", "--out", workplace / "new.json")

    refused(outcome, "holds replies, not relevance signals", "--scorer")
    assert not (workplace / "new.json").exists()


@pytest.mark.slow
def test_a_chain_is_asked_without_prompts(knowgate: Knowgate, workplace: Path) -> None:
    knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAIN,
        "--prompt", "basic", "--prompt", "opinion", "--limit", 2, "--judge", "none",
        "--out", workplace / "replies",
    )  # fmt: skip

    rows = read_lines(workplace / "replies" / "replies.jsonl")
    assert {row["response"] for row in rows} == {'["context", "documents", "question"]'}
    assert {row["system_id"] for row in rows} == {f"{CHAIN}·basic_rag"}
