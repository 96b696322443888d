"""Criteria of one's own, from files and from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.guard.prompts import Prompt
from knowgate.offline_eval.judging.llm_judge import Criterion, LLMJudge
from tests.offline_eval.judging.runs import ScriptedJudge

TOML = """
name = "tone"
prompt = "tone.txt"
outcomes = ["friendly", "curt"]
sees = ["question", "reply", "citation"]
positive = "friendly"
otherwise = "NA"

[only_where]
abstention = ["no"]
"""


def written(folder: Path, text: str, name: str = "tone.toml") -> Path:
    (folder / "tone.txt").write_text("Is it friendly?\n", encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_criterion_is_read_from_toml(tmp_path: Path) -> None:
    found = Criterion.read(written(tmp_path, TOML))
    assert found == Criterion(
        name="tone",
        prompt=Prompt("tone", "Is it friendly?"),
        outcomes=("friendly", "curt"),
        tag="tone",
        sees=("question", "reply", "citation"),
        positive="friendly",
        only_where={"abstention": ("no",)},
        otherwise="NA",
    )


def test_a_criterion_that_waits_for_an_outcome_that_never_comes_is_refused(tmp_path: Path) -> None:
    # In place of the bundled abstention, whose "no" factuality waits for.
    mine = TOML.replace('"tone"', '"abstention"').replace('[only_where]\nabstention = ["no"]', "")
    criterion = Criterion.read(written(tmp_path, mine))
    model = ScriptedJudge(lambda _: "")
    with pytest.raises(InputError, match="waits for an outcome 'no' of 'abstention'"):
        LLMJudge(model.model, name="m", criteria=Criterion.bundled([criterion]))


def test_a_criterion_of_the_same_name_takes_the_bundled_ones_place() -> None:
    mine = Criterion(
        name="abstention",
        prompt=Prompt("mine", "Does it decline?"),
        outcomes=("yes", "no"),
        tag="abstention",
    )
    model = ScriptedJudge(lambda _: "").model
    judge = LLMJudge(model, name="m", criteria=Criterion.bundled([mine]))
    bundled = LLMJudge(model, name="m")
    assert judge.criteria == ("abstention", "factuality", "failure")
    assert judge.version("abstention") != bundled.version("abstention")
    assert judge.version("factuality") == bundled.version("factuality")
