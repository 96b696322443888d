"""Criteria of one's own, from files and from Python."""

from __future__ import annotations

import json
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


def test_toml_nested_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="broken TOML"):
        Criterion.read(written(tmp_path, "a = " + "[" * 100_000))


def test_a_criterion_that_waits_for_an_outcome_that_never_comes_is_refused(tmp_path: Path) -> None:
    # In place of the bundled abstention, whose "no" factuality waits for.
    mine = TOML.replace('"tone"', '"abstention"').replace('[only_where]\nabstention = ["no"]', "")
    criterion = Criterion.read(written(tmp_path, mine))
    model = ScriptedJudge(lambda _: "")
    with pytest.raises(InputError, match="waits for an outcome 'no' of 'abstention'"):
        LLMJudge(model.model, name="m", criteria=Criterion.bundled([criterion]))


def test_a_criterion_is_read_from_json(tmp_path: Path) -> None:
    value = {"name": "tone", "prompt": "tone.txt", "outcomes": ["a", "b"], "tag": "verdict"}
    found = Criterion.read(written(tmp_path, json.dumps(value), "tone.json"))
    assert (found.tag, found.sees, found.only_where) == ("verdict", ("question", "reply"), {})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("name = ", "broken TOML"),
        (TOML.replace('name = "tone"', ""), "'name': Field required"),
        (TOML.replace("tone.txt", "none.txt"), "no such file"),
        (TOML.replace('"curt"]', '"Friendly"]'), "two outcomes"),
        (TOML.replace('"curt"]', '"<curt>"]'), "has <"),
        (TOML.replace('"citation"]', '"secret"]'), "cannot see 'secret'"),
        (TOML.replace('"reply", ', ""), "must see the reply"),
        (TOML.replace('positive = "friendly"', 'positive = "nice"'), "none of the outcomes"),
        (TOML.replace('name = "tone"', 'name = "a/b"'), "is not a name"),
        (TOML.replace("otherwise", "else"), "'else': Extra inputs"),
        (
            TOML.replace('["friendly", "curt"]', '"friendly"'),
            "'outcomes': Input should be a valid tuple",
        ),
    ],
)
def test_a_broken_criterion_is_refused_with_its_place(tmp_path: Path, text: str, what: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=what) as refusal:
        Criterion.read(path)
    assert str(tmp_path) in refusal.value.where


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a criterion"):
        Criterion.read(written(tmp_path, TOML, "tone.yaml"))


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


def test_a_criterion_that_depends_on_one_not_asked_is_refused() -> None:
    with pytest.raises(InputError, match="depends on 'abstention'"):
        LLMJudge(ScriptedJudge(lambda _: "").model, name="m", criteria=Criterion.bundled()[1:])
