"""A run of replies, its data frame, and coroutines on a loop of their own."""

from __future__ import annotations

import asyncio
import threading
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from knowgate.offline_eval.run import Question, RepliesRun, RowError, Run, Stored
from knowgate.offline_eval.run.event_loop import run_interruptibly
from knowgate.offline_eval.run.manifest import Manifest
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import (
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)
from knowgate.offline_eval.run.table import TableSpec
from tests.support.any_rows import any_table


class Colour(StrEnum):
    """An enum in a row."""

    RED = "red"


class Row(Stored):
    """A row with a field of each kind."""

    row_id: str
    colour: Colour | None = None
    count: int | None = None
    score: float | None = None
    right: bool | None = None
    names: tuple[str, ...] = ()
    error: RowError | None = None


ROWS = TableSpec("rows", Row, "row_id")
DTYPES = {
    "row_id": "string",
    "colour": "string",
    "count": "Int64",
    "score": "float64",
    "right": "boolean",
    "names": "object",
    "error.type": "string",
    "error.detail": "string",
}


def stored(folder: Path, *rows: Row) -> Run:
    with Run.create_or_resume(folder, Manifest.new(suite="toy")) as run:
        run[ROWS].extend(rows)
    return Run.read(folder)


def test_each_row_is_a_line_and_each_field_a_typed_column(tmp_path: Path) -> None:
    whole = Row(row_id="a", colour=Colour.RED, count=3, score=0.5, right=True, names=("x", "y"))
    failed = Row(row_id="b", error=RowError(type="TimeoutError", detail="too late"))

    frame = stored(tmp_path / "run", whole, failed).to_pandas(ROWS)

    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == DTYPES
    assert list(frame["row_id"]) == ["a", "b"]
    assert list(frame.iloc[0][:6]) == ["a", "red", 3, 0.5, True, ["x", "y"]]
    assert list(frame.isna().sum()) == [0, 1, 1, 1, 1, 0, 1, 1]
    assert frame["error.type"][1] == "TimeoutError"


def test_a_run_without_rows_has_the_same_columns(tmp_path: Path) -> None:
    frame = stored(tmp_path / "run").to_pandas(ROWS)

    assert len(frame) == 0
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == DTYPES


async def answered() -> tuple[int, str]:
    await asyncio.sleep(0)
    return 3, threading.current_thread().name


def test_without_a_loop_the_work_runs_in_this_thread() -> None:
    assert run_interruptibly(answered()) == (3, threading.current_thread().name)


async def test_where_a_loop_runs_the_work_runs_in_another_thread() -> None:
    number, thread = run_interruptibly(answered())

    assert number == 3
    assert thread != threading.current_thread().name


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
