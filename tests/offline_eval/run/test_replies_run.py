"""A run of replies: started once, appended to, and read with everything checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowgate.offline_eval.run import Question, RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import (
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)
from tests.support.any_rows import any_table

QUESTIONS = [
    Question(question_id="q1", question="When?", answer="Nine.", passage_id="p1"),
    Question(question_id="q2", question="Where?", answer="Here.", passage_id="p2"),
]
PASSAGES = [StoredPassage(passage_id=name, text=f"text of {name}") for name in ("p1", "p2", "p3")]
CASES = [
    ReplyCase(case_id="q1/left_out", question_id="q1", kind=CaseKind.LEFT_OUT),
    ReplyCase(case_id="q2/in_kb", question_id="q2", kind=CaseKind.IN_KB),
]
SYSTEM = ReplySystem(system_id="s", model="m")


def start(folder: Path, **changed: Any) -> Path:
    given: dict[str, Any] = {
        "settings": {"seed": 0},
        "systems": [SYSTEM],
        "questions": QUESTIONS,
        "passages": PASSAGES,
        "cases": CASES,
        "replies": 2,
    }
    return RepliesRun.start(folder, **{**given, **changed})


def reply(case: str, **fields: Any) -> dict[str, Any]:
    row = ReplyRow(reply_id=f"s/{case}", case_id=case, system_id="s", response="Ten.")
    return {**row.model_dump(mode="json"), **fields}


def store(folder: Path, name: str, key: str, *rows: dict[str, Any]) -> None:
    with any_table(folder / name, key) as opened:
        for row in rows:
            opened.append(row)


def test_what_was_stored_is_read_back(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    store(run, "replies", "reply_id", reply("q1/left_out"))
    judged = {"judgement_id": "s/q1/left_out/abstention/x", "reply_id": "s/q1/left_out"}
    store(
        run,
        "judgements",
        "judgement_id",
        {**judged, "judge": "x", "criterion": "abstention", "outcome": "no"},
    )
    found = RepliesRun.read(run)
    assert [row.response for row in found.replies.values()] == ["Ten."]
    assert found.question_of(found.replies["s/q1/left_out"]).answer == "Nine."
    assert next(iter(found.judgements.values())).outcome == "no"
    assert found.manifest.replies == 2
    assert RepliesRun.is_in(run)


def test_a_start_that_was_killed_before_its_manifest_is_made_good(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    (run / "manifest.json").unlink()
    (run / "cases.jsonl").write_text("half a li")
    assert len(RepliesRun.read(start(run)).cases) == 2


@pytest.mark.parametrize(
    ("context", "wanted"),
    [
        (ReplyContext(kind="passages", passages=("p3", "p1")), ["p3", "p1"]),
        (ReplyContext(kind="passages", passages=("p1", "gone")), ["p1"]),
        (ReplyContext(kind="all_but", passages=("p1",)), ["p2", "p3"]),
        (ReplyContext(kind="none"), []),
        (None, []),
    ],
)
def test_contexts_are_kept_by_reference(
    tmp_path: Path, context: ReplyContext | None, wanted: list[str]
) -> None:
    run = start(tmp_path / "run")
    dumped = None if context is None else context.model_dump(mode="json")
    store(run, "replies", "reply_id", reply("q1/left_out", context=dumped))
    found = RepliesRun.read(run)
    passages = found.context_passages(found.replies["s/q1/left_out"])
    assert [passage.passage_id for passage in passages] == wanted
