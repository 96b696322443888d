"""One run: what is retrieved, what is measured, what a failure leaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.data.questions import PassageKind
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from tests.offline_eval.suites.ookb.toy import ToyEncoder, embed, write_toy_questions
from tests.support.fakes import FailingScorer, SlowScorer


class _Recorder:
    """An encoder that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        return embed(texts)


def _rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "rows.jsonl").open(encoding="utf-8")]


def _run(folder: Path, scorer: Any, *, encoder: Any = embed, **settings: Any) -> Path:
    questions = folder / "kb.jsonl"
    if not questions.exists():
        write_toy_questions(questions, 8)
    return run_suite(
        MEASURE,
        MeasureSettings(questions=questions, **settings),
        folder / "run",
        [Instruments(scorer, ToyEncoder(encoder))],
    ).folder


def test_the_retriever_sees_the_question_and_nothing_else(tmp_path: Path) -> None:
    encoder = _Recorder()

    _run(tmp_path, FakeScorer(), encoder=encoder, passage=PassageKind.QUESTION_ANSWER)

    lines = (tmp_path / "kb.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    passages, *queries = encoder.asked
    assert passages == [f"{r['question']}\n{r['answer']}" for r in records]
    assert queries == [[r["question"]] for r in records for _ in range(2)]


@pytest.mark.parametrize("top_k", [1, 3, 7, 8, 500])
def test_the_left_out_passage_is_never_retrieved(tmp_path: Path, top_k: int) -> None:
    rows = _rows(_run(tmp_path, FakeScorer(), top_k=top_k))

    for row in rows:
        left_out = row["kind"] == "left_out"
        assert len(row["retrieved"]) == len(set(row["retrieved"])) == min(top_k, 8 - left_out)
        assert len(row["scores"]) == len(row["retrieved"])
        if left_out:
            assert row["question_id"] not in row["retrieved"]
            assert not row["retrieval_miss"]


def test_a_passage_that_questions_share_is_left_out_for_each_of_them(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "question": "Who?", "answer": "Ann and Bob."},
        {"id": "b", "question": "Which two?", "answer": "Ann  and Bob. "},
        {"id": "c", "question": "When?", "answer": "At nine."},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "kb.jsonl").write_text(text, encoding="utf-8")

    rows = {row["case_id"]: row for row in _rows(_run(tmp_path, FakeScorer()))}

    assert rows["a/left_out"]["retrieved"] == rows["b/left_out"]["retrieved"] == ["c"]
    assert rows["c/left_out"]["retrieved"] == ["a"]


def test_a_question_whose_passage_is_not_found_is_a_retrieval_miss(tmp_path: Path) -> None:
    rows = _rows(_run(tmp_path, FakeScorer(), encoder=lambda t: np.ones((len(t), 1), np.float32)))

    # All tie, so the first five passages of the file are always found.
    for row in rows[::2]:
        assert row["retrieved"] == [f"{i}-ü" for i in range(5)]
        assert row["retrieval_miss"] == (row["question_id"] not in row["retrieved"])
    records = CalibrationSet.of_run(tmp_path / "run").records
    assert [r.context_right for r in records[::2]] == [True] * 5 + [False] * 3
    assert all(r.relevance is not None for r in records[1::2])


def test_the_aggregate_is_the_guards_own(tmp_path: Path) -> None:
    scorer = FakeScorer({"library": 0.9, "harbour": 0.6, "museum": 0.3}, default=0.0)

    rows = _rows(_run(tmp_path, scorer, top_k=8, aggregator="top3_mean"))

    assert rows[0]["raw_relevance"] == pytest.approx(0.6)
    assert rows[1]["raw_relevance"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("scorer", "kind"),
    [
        (FailingScorer(RuntimeError("a secret question")), "SignalError"),
        (FakeScorer(default=float("nan")), "SignalValueError"),
        (FakeScorer(default=float("inf")), "SignalValueError"),
    ],
)
def test_a_scorer_that_fails_leaves_rows_and_no_text_of_others(
    tmp_path: Path, scorer: FakeScorer, kind: str
) -> None:
    rows = _rows(_run(tmp_path, scorer))

    assert len(rows) == 16
    for row in rows:
        assert row["error"]["type"] == kind
        assert row["raw_relevance"] is None
        assert row["retrieved"]
        assert "secret" not in json.dumps(row)
    assert all(r.relevance is None for r in CalibrationSet.of_run(tmp_path / "run").records)


def test_a_question_that_cannot_be_embedded_is_a_row_and_not_the_end(tmp_path: Path) -> None:
    def encoder(texts: Sequence[str]) -> NDArray[np.float32]:
        if texts[0].startswith("When does the museum"):
            raise RuntimeError("out of memory on a secret question")
        return embed(texts)

    rows = _rows(_run(tmp_path, FakeScorer(), encoder=encoder))

    failed = [row for row in rows if row["error"]]
    assert [row["case_id"] for row in failed] == ["2-ü/in_kb", "2-ü/left_out"]
    assert failed[0]["error"]["detail"] == "retrieval signal: raised RuntimeError"


def test_how_slow_the_machine_is_does_not_decide_which_rows_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowgate.guard._measuring.RelevanceSignal.deadline", 0.001)

    rows = _rows(_run(tmp_path, SlowScorer(0.01)))

    assert all(row["error"] is None for row in rows)
