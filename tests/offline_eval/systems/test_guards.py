"""Guards by name, runs in which they speak for themselves, and what was taken out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from knowgate.guard import InputError, Route
from knowgate.offline_eval.judging.judges import DetectorJudge
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import Judgement, ReplyContext
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.ookb import OokbSuite
from knowgate.offline_eval.systems.guards import GuardChoice
from knowgate.offline_eval.systems.plan import Systems
from knowgate.offline_eval.systems.replying import Replier
from tests.offline_eval.suites.ookb.toy import write_toy_questions
from tests.offline_eval.systems.asked import (
    Comparison,
    calibrated_run,
    reader,
    run,
    write_lexical_policy,
)
from tests.support.function_judge import FunctionJudge


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


def test_no_judge_takes_a_guards_reply_for_an_answer(tmp_path: Path) -> None:
    guard = calibrated_run(tmp_path)
    comparison = Comparison(
        models={"reader": reader()}, retrievals=("direct", "basic_rag"), guards=("off", guard)
    )
    seen: list[str] = []

    def never(material: object) -> str:
        seen.append(material.reply_id)  # type: ignore[attr-defined]
        return "no"

    run(
        tmp_path / "kb.jsonl",
        tmp_path / "out",
        comparison,
        settings=OokbSuite.settings(limit=3),
        judges=[
            FunctionJudge("gullible", Judgement.ABSTENTION, never),
            FunctionJudge("own", "tone", lambda _: "plain"),
            DetectorJudge(),
        ],
    )

    found = RepliesRun.read(tmp_path / "out")
    own = [row.reply_id for row in found.replies.values() if row.route is Route.ABSTAIN]
    # Nothing retrieved and not enough retrieved are worded differently.
    assert len({found.replies[name].response for name in own}) == 2
    for name in own:
        for judge in ("gullible", "detector"):
            assert found.judgements[f"{name}/abstention/{judge}"].outcome == "yes"
        assert found.judgements[f"{name}/tone/own"].outcome == "plain"
    assert not set(seen) & set(own)
    assert len(seen) + len(own) == len(found.replies)


def test_a_first_passage_that_is_too_long_is_cut_at_a_word() -> None:
    held = {"kb": {"a": "one two three four", "b": "five"}}
    context = ReplyContext(kind="passages", passages=("a", "b"))

    def shown(most: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        replier = Replier(Systems({}, {}, {}, ()), passages=held, characters=most)
        found = replier.shown(context, "kb")
        return found.context.passages, found.passages

    assert shown(22) == (("a", "b"), ("one two three four", "five"))
    assert shown(21) == (("a",), ("one two three four",))
    assert shown(10) == (("a",), ("one two",))
    assert shown(7) == (("a",), ("one two",))
    assert shown(2) == (("a",), ("on",))


CHECK = "left_out_check.jsonl"


def questions_with_a_restatement(path: Path) -> Path:
    """Six toy questions, and one whose answer holds all of the first one's."""
    write_toy_questions(path, 6)
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    more = {"id": "again", "question": "And the library?", "answer": f"Yes. {first['answer']}"}
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(more, ensure_ascii=False) + "\n")
    return path


def test_an_answer_that_stands_elsewhere_is_noted_and_reported(tmp_path: Path) -> None:
    questions = questions_with_a_restatement(tmp_path / "kb.jsonl")
    out = tmp_path / "out"

    run(questions, out, Comparison(models={"reader": reader()}, retrievals=("direct",)))

    rows = [json.loads(line) for line in (out / CHECK).read_text("utf-8").splitlines()]
    assert ("0-ü", "again") in {(row["question_id"], row["passage_id"]) for row in rows}
    report = json.loads(write_report(out, formats=("json",)).json.read_text("utf-8"))
    assert [row["passage_id"] for row in report["left_out_check"] if row["question_id"] == "0-ü"]


def test_only_questions_that_are_asked_with_their_passage_out_are_checked(tmp_path: Path) -> None:
    questions = questions_with_a_restatement(tmp_path / "kb.jsonl")
    comparison = Comparison(models={"reader": reader()}, retrievals=("direct",))

    run(
        questions,
        tmp_path / "in_kb",
        comparison,
        settings=OokbSuite.settings(cases=(CaseKind.IN_KB,)),
    )
    run(questions, tmp_path / "few", comparison, settings=OokbSuite.settings(limit=1))

    assert not (tmp_path / "in_kb" / CHECK).exists()
    lines = (tmp_path / "few" / CHECK).read_text("utf-8").splitlines()
    assert {json.loads(line)["question_id"] for line in lines} == {"0-ü"}


def test_logged_replies_are_checked_too_and_no_answer_elsewhere_is_an_empty_file(
    tmp_path: Path,
) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 3)
    row = {"id": "0-ü", "response": "I do not know.", "context_ids": ["1-ü"]}
    (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")

    run(questions, tmp_path / "out", Comparison(replay=[tmp_path / "log.jsonl"]))

    assert (tmp_path / "out" / CHECK).read_text("utf-8") == ""
