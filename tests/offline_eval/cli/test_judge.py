"""`knowgate judge`: verdicts on the replies of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.run import (
    RepliesRun,
)
from tests.offline_eval.cli.commands import Knowgate
from tests.offline_eval.judging.runs import ANSWER, REFUSAL, replies_run

MODULE = """
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

def says_no():
    def speak(messages):
        tag = "tone" if "<tone>" in messages[0].text else "abstention"
        outcome = "curt" if tag == "tone" else "no"
        return AIMessage(f"Hm. <{tag}>{outcome}</{tag}>")
    return RunnableLambda(speak)
"""
TONE = """
name = "tone"
prompt = "tone.txt"
outcomes = ["friendly", "curt"]
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return replies_run(tmp_path / "run", {"right": ANSWER, "refused": REFUSAL, "failed": None})


@pytest.mark.slow
def test_the_offline_judges_are_the_default(knowgate: Knowgate, run: Path) -> None:
    outcome = knowgate("judge", run)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("4 verdicts added (0 failed), 0 there before → ")
    assert f"knowgate report {run}" in outcome.out
    found = {name: row.outcome for name, row in RepliesRun.read(run).judgements.items()}
    assert found == {
        "s/right/abstention/detector": "no",
        "s/refused/abstention/detector": "yes",
        "s/right/factuality/estimate": "tier_1",
        "s/refused/factuality/estimate": "NA",
    }
    assert "0 verdicts added (0 failed), 4 there before" in knowgate("judge", run).out


def test_a_model_judges_by_a_criterion_from_a_file(
    knowgate: Knowgate, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripted_judges.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "tone.toml").write_text(TONE, encoding="utf-8")
    (tmp_path / "tone.txt").write_text("Is it friendly?", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    model = "llm:python:scripted_judges:says_no"
    outcome = knowgate(
        "judge", run, "--judge", model, "--criterion", tmp_path / "tone.toml", "--no-bundled",
        "--calls", "concurrency=2,rate=1000",
    )  # fmt: skip
    assert outcome.out.startswith("2 verdicts added (0 failed), 0 there before, 2 calls → ")
    row = RepliesRun.read(run).judgements[f"s/right/tone/{model}"]
    assert (row.outcome, row.reasoning) == ("curt", "Hm.")
