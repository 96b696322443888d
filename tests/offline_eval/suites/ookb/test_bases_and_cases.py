"""Several knowledge bases in one run, their cases, and what stands elsewhere all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import Fingerprint, InputError
from knowgate.offline_eval.data.bases import read_bases
from knowgate.offline_eval.data.embedding import embed_all
from knowgate.offline_eval.data.questions import KnowledgeBase, PassageKind, QuestionRecord
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.systems.leaving_out import left_out_check


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
    ids = {name: question.question_id for name, question in second.questions.items()}
    assert ids == {"b": "two/b", "c": "c"}


def test_a_limit_bounds_what_is_asked_and_not_what_is_known(tmp_path: Path) -> None:
    file = write_document(tmp_path / "one.json", None, ["a", "b", "c"])

    [base] = read_bases([file], PassageKind.ANSWER, limit=1)

    assert [question.question_id for question in base.asked] == ["a"]
    assert len(base.passages) == 3


def test_two_bases_of_one_name_are_refused(tmp_path: Path) -> None:
    one = write_document(tmp_path / "one.json", "same", ["a", "b"])
    two = write_document(tmp_path / "two.json", "same", ["c", "d"])

    with pytest.raises(InputError, match="called 'same'"):
        read_bases([one, two])


def test_each_question_is_asked_twice_in_the_order_of_the_file(tmp_path: Path) -> None:
    asked = [("a", "Who?", "Ann."), ("b", "When?", "At nine."), ("c", "Where?", " Ann.\n")]
    rows = [dict(zip(("id", "question", "answer"), one, strict=True)) for one in asked]
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    cases = MEASURE.cases(MeasureSettings(questions=file))

    assert [case.case_id for case in cases] == [
        f"{name}/{kind}" for name in "abc" for kind in ("in_kb", "left_out")
    ]
    assert [case.kind for case in cases[:2]] == [CaseKind.IN_KB, CaseKind.LEFT_OUT]
    assert [case.passage_id for case in cases] == ["a", "a", "b", "b", "a", "a"]
    assert [case.question for case in cases[::2]] == ["Who?", "When?", "Where?"]


def _check(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    records = [QuestionRecord(str(at), *pair) for at, pair in enumerate(pairs)]
    found = left_out_check(records, KnowledgeBase.of(records, PassageKind.ANSWER, where="toy"))
    return [(one.question_id, one.passage_id) for one in found]


def test_an_answer_that_stands_in_another_passage_is_reported() -> None:
    pairs = [
        ("Who pays?", "The owner pays the fee."),
        ("How does it work?", "First you apply. THE owner — pays the fee; then you wait."),
        ("When is lunch?", "Lunch is at noon."),
    ]

    assert _check(pairs) == [("0", "1")]


def test_a_part_of_a_longer_word_is_no_answer() -> None:
    pairs = [("What?", "a b c art"), ("Which?", "a b c artist"), ("Who?", "z y x w")]

    assert _check(pairs) == []


Floats32 = NDArray[np.float32]


class _Encoder:
    fingerprint = Fingerprint(kind="scripted", backend="python", dtype="float32")

    def __init__(self, embed: Callable[[Sequence[str]], Floats32]) -> None:
        self.embed = embed


def _lengths(texts: Sequence[str]) -> Floats32:
    return np.asarray([[len(text), 1.0] for text in texts], dtype=np.float32)


def test_every_text_has_its_row_however_many_there_are() -> None:
    texts = ["x" * n for n in range(200)]
    told: list[tuple[int, int]] = []

    rows = embed_all(texts, _Encoder(_lengths), lambda done, total: told.append((done, total)))

    assert rows[:, 0].tolist() == list(range(200))
    assert told[-1] == (200, 200)
    assert embed_all([], _Encoder(_lengths)).shape[0] == 0
