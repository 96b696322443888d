"""`knowgate judge`: verdicts on the replies of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.calibration import Interval
from knowgate.guard.files import write_json
from knowgate.offline_eval.run import (
    RepliesRun,
)
from knowgate.offline_eval.suites.judge_bias.artefact import JudgeBias
from tests.offline_eval.cli.commands import Knowgate, refused
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
DOWN = """
import os

def _shaky(messages):
    if os.environ.get("JUDGE_IS_DOWN"):
        raise OSError
    tag = next(t for t in ("abstention", "factuality", "failure") if f"<{t}>" in messages[0].text)
    outcome = {"abstention": "no", "factuality": "tier_1", "failure": "none"}[tag]
    return AIMessage(f"<{tag}>{outcome}</{tag}>")

shaky = RunnableLambda(_shaky)
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


def test_failed_verdicts_are_told_and_asked_again(
    knowgate: Knowgate, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "judging_down.py").write_text(MODULE + DOWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    options = ("--judge", "llm:python:judging_down:shaky", "--calls", "attempts=1")
    monkeypatch.setenv("JUDGE_IS_DOWN", "1")
    first = knowgate("judge", run, *options)
    assert "failed; the rows in" in first.err
    assert "--retry-failed" in first.err
    monkeypatch.delenv("JUDGE_IS_DOWN")
    assert "0 verdicts added" in knowgate("judge", run, *options).out
    assert "(0 failed)" in knowgate("judge", run, *options, "--retry-failed").out


def measured(path: Path, judge: str, follows: float) -> Path:
    """A measurement of a judge's bias: so many verdicts follow its belief."""
    share = Interval(follows, max(0.0, follows - 0.1), min(1.0, follows + 0.1), 50)
    none = Interval(0.0, 0.0, 0.07, 50)
    bias = JudgeBias(
        judge=judge, questions=50, cases=200, kappa=Interval(1 - follows, 0.1, 1.0, 50),
        follows_belief=share, rejects_disbelieved=share, accepts_believed=share,
        control_errors=none, belief_effect=share,
    )  # fmt: skip
    write_json(path, bias.model_dump(mode="json"))
    return path


def test_a_judge_that_follows_its_beliefs_is_warned_of(
    knowgate: Knowgate, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "judging_down.py").write_text(MODULE + DOWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    judge = "llm:python:judging_down:shaky"
    options = ["--judge", judge, "--judge", "detector"]
    bias = measured(tmp_path / "bias.json", judge, 0.3)
    planned = knowgate("judge", run, *options, "--bias", bias, "--dry-run")
    assert f"warning: The judge {judge} follows its own beliefs" in planned.err
    assert not (run / "judge_bias.json").exists()
    found = knowgate("judge", run, *options, "--bias", bias)
    assert found.code == 0
    assert "against the context in 30 %" in found.err
    assert list(JudgeBias.of_run(run)) == [judge]
    assert knowgate("report", run).code == 0
    told = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert told["judge_bias"][judge]["follows_belief"]["value"] == 0.3
    for name in ("report.md", "report.html"):
        assert "follows its own beliefs against the context" in (run / name).read_text("utf-8")


def test_a_colon_in_a_name_makes_no_picture(knowgate: Knowgate, run: Path) -> None:
    refused(knowgate("judge", run, "--judge", "oracle:x:7"), "oracle:x:7")
