"""Guards by name, and what their policies were fitted on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.systems.guards import GuardChoice
from tests.offline_eval.systems.asked import calibrated_run, write_lexical_policy


def test_a_calibrated_run_tells_which_questions_its_policy_has_seen(tmp_path: Path) -> None:
    run = calibrated_run(tmp_path)
    noted = json.loads((run / "calibration.json").read_text(encoding="utf-8"))
    lines = (run / "questions.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    texts = {row["question_id"]: row["question"] for row in map(json.loads, lines)}

    [choice] = GuardChoice.load([run])

    assert choice.name == "run"
    assert not any(choice.held_out(texts[name]) for name in noted["calibration_questions"])
    assert all(choice.held_out(texts[name]) for name in noted["test_questions"])
    assert choice.held_out("Something else?") is True


def test_a_bare_policy_tells_nothing_of_what_it_has_seen(tmp_path: Path) -> None:
    off, choice = GuardChoice.load(["off", write_lexical_policy(tmp_path / "strict.json")])

    assert (off.name, off.policy) == ("off", None)
    assert choice.name == "strict"
    assert choice.held_out("Something?") is None


def test_policies_of_one_file_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    one = write_lexical_policy(tmp_path / "a" / "policy.json", 1.0)
    two = write_lexical_policy(tmp_path / "b" / "policy.json", 0.5)

    assert [c.name for c in GuardChoice.load([one, two])] == ["policy", "b/policy"]


def test_the_premise_guard_was_fitted_on_no_question() -> None:
    [choice] = GuardChoice.load(["premise"])

    assert choice.name == "premise"
    assert choice.sha256
    assert choice.held_out("Anything?") is True


MODULE = """
from knowgate.offline_eval.systems.guards import GuardChoice

def made():
    return GuardChoice.load_guards(["premise"], None)["premise"][0]

number = 7
"""


def test_a_guard_can_be_an_object_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users_guards.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "users_guards", raising=False)

    loaded = GuardChoice.load_guards(["off", "python:users_guards:made"], None)

    assert list(loaded) == ["python:users_guards:made"]
    with pytest.raises(InputError, match="is a int, not a Guard"):
        GuardChoice.load(["python:users_guards:number"])
