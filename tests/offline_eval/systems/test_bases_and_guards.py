"""Several knowledge bases in one run, and what guards have seen of their questions."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.data import PassageKind
from knowgate.offline_eval.systems import (
    held_out_of,
    load_guard_choices,
    load_guards,
    read_bases,
)
from tests.offline_eval.systems.asked import calibrated_run, write_lexical_policy


def write_document(path: Path, name: str | None, ids: list[str]) -> Path:
    questions = [
        {"identifier": one, "question": f"What is {one} of {path.stem}?", "answer": f"{one}!"}
        for one in ids
    ]
    document = {"questions": questions}
    if name is not None:
        document["knowledge_base_identifier"] = name  # type: ignore[assignment]
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_bases_are_named_by_their_document_or_else_by_their_file(tmp_path: Path) -> None:
    one = write_document(tmp_path / "one.json", "parks", ["a", "b"])
    two = write_document(tmp_path / "two.json", None, ["c", "d"])

    assert [base.name for base in read_bases([one, two])] == ["parks", "two"]


def test_only_ids_that_clash_get_the_name_of_their_base(tmp_path: Path) -> None:
    one = write_document(tmp_path / "one.json", None, ["a", "b"])
    two = write_document(tmp_path / "two.json", None, ["b", "c"])

    first, second = read_bases([one, two])

    assert [record.question_id for record in first.records] == ["a", "one/b"]
    assert [record.question_id for record in second.records] == ["two/b", "c"]
    assert second.knowledge_base.passage_of == {"two/b": "two/b", "c": "c"}
    assert second.original_ids == {"b": "two/b", "c": "c"}


def test_a_limit_bounds_what_is_asked_and_not_what_is_known(tmp_path: Path) -> None:
    file = write_document(tmp_path / "one.json", None, ["a", "b", "c"])

    [base] = read_bases([file], PassageKind.ANSWER, limit=1)

    assert [question.question_id for question in base.questions()] == ["a"]
    assert len(base.passages()) == 3


def test_two_bases_of_one_name_are_refused(tmp_path: Path) -> None:
    one = write_document(tmp_path / "one.json", "same", ["a", "b"])
    two = write_document(tmp_path / "two.json", "same", ["c", "d"])

    with pytest.raises(InputError, match="called 'same'"):
        read_bases([one, two])


def test_a_calibrated_run_tells_which_questions_its_policy_has_seen(tmp_path: Path) -> None:
    run = calibrated_run(tmp_path)
    noted = json.loads((run / "calibration.json").read_text(encoding="utf-8"))
    lines = (run / "questions.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    texts = {row["question_id"]: row["question"] for row in map(json.loads, lines)}

    [choice] = load_guard_choices([run])

    assert choice.name == "run"
    assert not any(choice.held_out(texts[name]) for name in noted["calibration_questions"])
    assert all(choice.held_out(texts[name]) for name in noted["test_questions"])
    assert choice.held_out("Something else?") is True


def test_a_bare_policy_tells_nothing_of_what_it_has_seen(tmp_path: Path) -> None:
    off, choice = load_guard_choices(["off", write_lexical_policy(tmp_path / "strict.json")])

    assert (off.name, off.policy) == ("off", None)
    assert choice.name == "strict"
    assert choice.held_out("Something?") is None


def test_policies_of_one_file_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    one = write_lexical_policy(tmp_path / "a" / "policy.json", 1.0)
    two = write_lexical_policy(tmp_path / "b" / "policy.json", 0.5)

    assert [c.name for c in load_guard_choices([one, two])] == ["policy", "b/policy"]


def test_one_guard_twice_is_refused(tmp_path: Path) -> None:
    policy = write_lexical_policy(tmp_path / "policy.json", 1.0)

    for specs in (["off", "off"], [policy, Path(shutil.copy(policy, tmp_path / "copy.json"))]):
        with pytest.raises(InputError, match="twice"):
            load_guard_choices(specs)


def test_a_run_without_a_policy_says_what_to_do(tmp_path: Path) -> None:
    run = calibrated_run(tmp_path)
    (run / "calibration.json").unlink()

    with pytest.raises(InputError, match="knowgate calibrate --run"):
        load_guard_choices([run])


def test_beside_a_policy_that_cannot_tell_no_question_is_known_to_be_unseen(
    tmp_path: Path,
) -> None:
    calibrated = calibrated_run(tmp_path)
    bare = write_lexical_policy(tmp_path / "bare.json")
    off, known, unknown = load_guard_choices(["off", calibrated, bare])
    noted = json.loads((calibrated / "calibration.json").read_text("utf-8"))
    lines = (calibrated / "questions.jsonl").read_text("utf-8").splitlines()
    texts = {row["question_id"]: row["question"] for row in map(json.loads, lines)}
    seen = texts[noted["calibration_questions"][0]]
    unseen = texts[noted["test_questions"][0]]

    assert held_out_of([off, known], unseen) is True
    assert held_out_of([off, known, unknown], unseen) is None
    assert held_out_of([off, known, unknown], seen) is False
    assert held_out_of([off], seen) is None


def test_the_premise_guard_was_fitted_on_no_question() -> None:
    [choice] = load_guard_choices(["premise"])

    assert choice.name == "premise"
    assert choice.sha256
    assert choice.held_out("Anything?") is True


MODULE = """
from knowgate.offline_eval.systems import premise_guard

def made():
    return premise_guard()

number = 7
"""


def test_a_guard_can_be_an_object_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users_guards.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "users_guards", raising=False)

    loaded = load_guards(["off", "python:users_guards:made"], None)

    assert list(loaded.guards) == list(loaded.sha256) == ["python:users_guards:made"]
    with pytest.raises(InputError, match="is a int, not a Guard"):
        load_guard_choices(["python:users_guards:number"])
