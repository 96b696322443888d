"""Measuring through a chain as it is served: sources, left-out cases, and what is reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from numpy.typing import NDArray

from knowgate.calibration.risk import Costs
from knowgate.guard import Fingerprint, InputError, Policy
from knowgate.guard.signals.relevance import LexicalScorer, register_scorer
from knowgate.offline_eval.policies import Calibrated, calibrate_chain
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import CaseKind, FoundBy
from knowgate.offline_eval.suites import read_suite_run, run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb._signals_summary import read_signals
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from knowgate.offline_eval.suites.ookb.leaving_out import find_source, overlap, same_source
from knowgate.offline_eval.suites.parts import RunOptions
from knowgate.offline_eval.systems.served import ServedChain

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
    instruments = Instruments.served(settings, ServedChain(more.pop("search", _search), name="kb"))
    return MeasuredRun.read(run_suite(MEASURE, settings, folder / "run", [instruments]).folder)


class _LogOdds(LexicalScorer):
    """A scorer of one's own, whose scores are no probabilities."""

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="own_log_odds")

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        return np.asarray(40.0 * super().score(question, passages) - 20.0)


register_scorer("own_log_odds", _LogOdds)


def test_scores_of_any_scale_are_measured(tmp_path: Path) -> None:
    run = _measured(tmp_path, scorer="own_log_odds")

    assert [row.error for row in run.rows] == [None] * len(run.rows)
    assert min(row.raw_relevance or 0.0 for row in run.rows) < 0.0


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


def test_a_question_of_which_nothing_is_known_is_measured_once(tmp_path: Path) -> None:
    run = _measured(tmp_path)

    (row,) = [row for row in run.rows if row.question_id == "live"]
    assert row.kind is CaseKind.LIVE
    assert row.error is None
    assert row.raw_relevance is not None


def test_a_question_whose_answer_is_nowhere_is_no_evidence(tmp_path: Path) -> None:
    run = _measured(tmp_path)

    assert [row.kind for row in run.rows if row.question_id == "lost"] == [CaseKind.LIVE]
    records = CalibrationSet.of_run(tmp_path / "run").records
    assert {record.question_id for record in records} == {"price", "limit", "bin"}
    groups = {record.question_id: record.group for record in records}
    assert groups["price"] == "plans.md"
    assert groups["limit"].startswith("kb/api.md#")


def test_the_report_says_how_sources_were_found(tmp_path: Path) -> None:
    _measured(tmp_path)

    found = read_suite_run(tmp_path / "run")
    document = MEASURE.report(MEASURE.score(found))

    assert document.values["served"] == {
        "sources_found_by": {"metadata": 1, "answer": 1, "passage": 1, "unknown": 2},
        "short_contexts": 0,
        "answer_elsewhere": 0,
    }
    assert any("which is a guess" in line for line in document.warnings)


def test_a_live_log_alone_is_measured_and_not_calibrated_on(tmp_path: Path) -> None:
    live = [{"id": f"l{n}", "question": f"What about {n}?"} for n in range(3)]
    _measured(tmp_path, live)

    with pytest.raises(InputError, match="nothing is known of where the answers"):
        CalibrationSet.of_run(tmp_path / "run")


def test_a_retriever_that_cannot_be_widened_leaves_short_contexts(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS[:2]), encoding="utf-8")
    settings = MeasureSettings(questions=path, chain="kb", scorer="lexical")
    chain = ServedChain(RunnableLambda(_search), name="kb")
    result = run_suite(MEASURE, settings, tmp_path / "run", [Instruments.served(settings, chain)])

    summary = MEASURE.report(read_signals(result.folder)).values["served"]
    assert summary["short_contexts"] == 2


def test_sources_that_occur_nowhere_end_the_run_with_a_hint(tmp_path: Path) -> None:
    wrong = [{"id": f"w{n}", "question": f"What limit {n}?", "source": "Title"} for n in range(3)]

    with pytest.raises(InputError, match="no document that was found") as caught:
        _measured(tmp_path, wrong)

    assert "--source-key" in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_run_is_resumed_to_the_same_files(tmp_path: Path) -> None:
    _measured(tmp_path)
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").glob("*.json*")}
    rows = tmp_path / "run" / "rows.jsonl"
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:3]))

    _measured(tmp_path)

    after = {p.name: p.read_bytes() for p in (tmp_path / "run").glob("*.json*")}
    assert after == before


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
        chain = Instruments.served(settings, ServedChain(search, name="kb"))
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


def test_a_policy_is_fitted_in_one_call(tmp_path: Path) -> None:
    words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"] * 8
    chunks = [
        Document(f"The {word}{n} station opens at {n}.", metadata={"source": f"p{n}"})
        for n, word in enumerate(words)
    ]

    def search(question: str, k: int = 3) -> list[Document]:
        wanted = set(question.lower().strip("?").split())
        return sorted(chunks, key=lambda one: -len(wanted & set(one.page_content.lower().split())))[
            :k
        ]

    path = tmp_path / "q.jsonl"
    lines = [
        {"question": f"When does the {word}{n} station open?", "source": f"p{n}"}
        for n, word in enumerate(words)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")

    found = calibrate_chain(search, path, risk=0.2, settings={"scorer": "lexical"})

    assert found.policy.guarantee is not None
    assert found.policy.guarantee.certified
    assert found.policy.scorer == LexicalScorer().fingerprint

    def calibrated(risk: float | Costs) -> Calibrated:
        settings = {"scorer": "lexical"}
        return calibrate_chain(search, path, risk=risk, out=tmp_path / "run", settings=settings)

    # What the command refuses is not written here either.
    refused = calibrated(0.001)
    assert [one.kind for one in refused.problems] == ["uncertified"]
    assert refused.advice
    assert not (tmp_path / "run" / "policy.json").exists()
    assert MeasuredRun.read(tmp_path / "run").refusal is not None
    assert calibrated(Costs(5)).problems == ()
    assert Policy.load(tmp_path / "run" / "policy.json").state == "costs"


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=30))
def test_overlap_is_symmetric_and_whole_for_a_part(words: list[str]) -> None:
    part = words[: max(1, len(words) // 2)]
    assert overlap(words, words)
    assert overlap(part, words) == overlap(words, part)
    if len(part) > 3:
        assert overlap(part, words)


@pytest.mark.parametrize(
    ("label", "named", "same"),
    [
        ("kb/plans.md", "plans.md", True),
        ("plans.md", "docs/plans.md", True),
        ("plans.md#prices", "plans.md", True),
        ("plans.md:12", "plans.md", True),
        ("old-plans.md", "plans.md", False),
        ("kb\\plans.md", "plans.md", True),
        (7, "7", True),
        (None, "plans.md", False),
        ("", "plans.md", False),
    ],
)
def test_paths_are_compared_by_their_ends(label: object, named: str, same: bool) -> None:
    assert same_source(label, named) is same


def test_an_answer_that_stands_everywhere_is_no_source() -> None:
    from knowgate.offline_eval.data.questions import QuestionRecord

    wide = [Document(f"yes, number {n}") for n in range(10)]

    assert (
        find_source(QuestionRecord("q", "Is it?", "yes"), wide, "source").found_by
        is FoundBy.UNKNOWN
    )
