"""Measuring through a chain as it is served: sources, left-out cases, and what is reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.calls import RunOptions
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import CaseKind, FoundBy
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from knowgate.offline_eval.suites.ookb.signals import SignalsSummary
from knowgate.offline_eval.systems.leaving_out import find_source, overlap, same_source
from knowgate.offline_eval.systems.served import ServedChain
from tests.support.tables import table

PAGES = {
    "plans.md": ["The Team plan costs nineteen euros a month.", "A trial lasts for 21 days."],
    "api.md": ["The limit is 600 requests per minute.", "Tokens expire after half a year."],
    "files.md": ["A file may have up to 250 megabytes.", "The bin is emptied after 30 days."],
}
CHUNKS = [
    Document(text, metadata={"source": f"kb/{page}"}) for page in PAGES for text in PAGES[page]
]
QUESTIONS: list[dict[str, Any]] = [
    {"id": "price", "question": "What does the Team plan cost?", "source": "plans.md"},
    {"id": "limit", "question": "What limit is there?", "answer": "600 requests per minute"},
    {"id": "bin", "question": "When is the bin empty?", "passage": f"{PAGES['files.md'][1]} Yes."},
    {"id": "live", "question": "What about yearly?"},
    {"id": "lost", "question": "Is there a discount?", "answer": "forty percent for students"},
]  # fmt: skip


def _search(question: str, k: int = 2) -> list[Document]:
    """Rank the chunks by shared words; ties keep their order."""
    words = set(question.lower().replace("?", "").split())

    def shared(one: Document) -> int:
        return -len(words & set(one.page_content.lower().replace(".", "").split()))

    return sorted(CHUNKS, key=shared)[:k]


def _measured(folder: Path, questions: Sequence[dict[str, Any]] = QUESTIONS, **more: Any) -> Any:
    path = folder / "q.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in questions), encoding="utf-8")
    settings = MeasureSettings(questions=path, chain="kb", **{"scorer": "lexical", **more})
    instruments = Instruments.of(settings, ServedChain(more.pop("search", _search), name="kb"))
    return MeasuredRun.read(run_suite(MEASURE, settings, folder / "run", [instruments]).folder)


def test_each_way_to_find_the_source_leaves_it_out(tmp_path: Path) -> None:
    run = _measured(tmp_path)
    rows = {row.case_id: row for row in run.rows}

    assert {name: one.found_by for name, one in run.sources.items()} == {
        "price": FoundBy.METADATA,
        "limit": FoundBy.ANSWER,
        "bin": FoundBy.PASSAGE,
    }
    texts = {name: [run.passages[one].text for one in row.retrieved] for name, row in rows.items()}
    assert texts["price/in_kb"][0] == PAGES["plans.md"][0]
    assert not set(texts["price/left_out"]) & set(PAGES["plans.md"])
    assert PAGES["api.md"][0] in texts["limit/in_kb"]
    assert PAGES["api.md"][0] not in texts["limit/left_out"]
    assert PAGES["files.md"][1] in texts["bin/in_kb"]
    assert PAGES["files.md"][1] not in texts["bin/left_out"]
    assert all(len(found) == 2 for found in texts.values() if found)


def test_a_question_whose_answer_is_nowhere_or_not_known_is_no_evidence(tmp_path: Path) -> None:
    run = _measured(tmp_path)

    for name in ("live", "lost"):
        assert [row.kind for row in run.rows if row.question_id == name] == [CaseKind.LIVE]
    records = CalibrationSet.of_run(tmp_path / "run").records
    assert {record.question_id for record in records} == {"price", "limit", "bin"}
    groups = {record.question_id: record.group for record in records}
    assert groups["price"] == "plans.md"
    assert groups["limit"].startswith("kb/api.md#")


def test_a_retriever_that_cannot_be_widened_leaves_short_contexts(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS[:2]), encoding="utf-8")
    settings = MeasureSettings(questions=path, chain="kb", scorer="lexical")
    chain = ServedChain(RunnableLambda(_search), name="kb")
    result = run_suite(MEASURE, settings, tmp_path / "run", [Instruments.of(settings, chain)])

    summary = MEASURE.report(SignalsSummary.read(result.folder)).values["served"]
    assert summary["short_contexts"] == 2


def test_a_question_that_cannot_be_retrieved_is_a_failed_row_and_can_be_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS[:3]), encoding="utf-8")
    settings = MeasureSettings(questions=path, chain="kb", scorer="lexical")
    broken = [QUESTIONS[1]["question"]]

    def search(question: str, k: int = 2) -> list[Document]:
        if question in broken:
            raise ConnectionError
        return _search(question, k)

    def run(*, retry_failed: bool = False) -> Any:
        chain = Instruments.of(settings, ServedChain(search, name="kb"))
        return run_suite(
            MEASURE, settings, tmp_path / "run", [chain], RunOptions(retry_failed=retry_failed)
        )

    first = run()
    failed = [row for row in MeasuredRun.read(first.folder).rows if row.error is not None]
    broken.clear()
    again = run(retry_failed=True)

    assert first.failed == 2
    assert {(row.question_id, row.kind) for row in failed} == {
        ("limit", CaseKind.IN_KB),
        ("limit", CaseKind.LEFT_OUT),
    }
    assert again.failed == 0
    assert MeasuredRun.read(again.folder).sources["limit"].found_by is FoundBy.ANSWER


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=30))
def test_overlap_is_symmetric_and_whole_for_a_part(words: list[str]) -> None:
    part = words[: max(1, len(words) // 2)]
    assert overlap(words, words)
    assert overlap(part, words) == overlap(words, part)
    if len(part) > 3:
        assert overlap(part, words)


@pytest.mark.parametrize(
    ("label", "named", "same"),
    table(__file__, "paths are compared by their ends"),
)
def test_paths_are_compared_by_their_ends(label: object, named: str, same: bool) -> None:
    assert same_source(label, named) is same


def test_an_answer_that_stands_everywhere_is_no_source() -> None:
    from knowgate.offline_eval.data.questions import QuestionRecord

    wide = [Document(f"yes, number {n}") for n in range(10)]

    assert find_source(QuestionRecord("q", "Is it?", "yes"), wide, "source") is None
