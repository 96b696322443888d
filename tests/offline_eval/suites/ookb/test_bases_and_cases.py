"""Several knowledge bases in one run, and the cases made of their questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.data.questions import KnowledgeBase, PassageKind, QuestionRecord
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites.ookb._cases import build_cases, read_bases


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


_RECORDS = [
    QuestionRecord("a", "Who?", "Ann.", passage="About Ann."),
    QuestionRecord("b", "When?", "At nine.", passage="About\n Ann. "),
    QuestionRecord("c", "Where?", " Ann.\n", passage="About towns."),
]


def test_each_question_is_asked_twice_in_the_order_of_the_file() -> None:
    cases = build_cases(_RECORDS, KnowledgeBase.of(_RECORDS, PassageKind.ANSWER, where="kb"))

    assert [case.case_id for case in cases] == [
        f"{name}/{kind}" for name in "abc" for kind in ("in_kb", "left_out")
    ]
    assert [case.kind for case in cases[:2]] == [CaseKind.IN_KB, CaseKind.LEFT_OUT]
    assert [case.passage_id for case in cases] == ["a", "a", "b", "b", "a", "a"]
    assert [case.question for case in cases[::2]] == ["Who?", "When?", "Where?"]
