"""What is left out: a source, its page, or its topic; and what counts as one unit by that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from knowgate.guard import InputError
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import LeaveOut
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from knowgate.offline_eval.systems.leaving_out import sizes_of_units
from knowgate.offline_eval.systems.served import ServedChain

# The page of plans is repeated in that of prices; nothing else is alike.
TEXTS = {
    "plans.md#team": "The Team plan costs nineteen euros a month for each user.",
    "plans.md#trial": "A trial lasts for 21 days and needs no credit card.",
    "prices.md#list": "Our Team plan costs nineteen euros per month and user.",
    "prices.md#tax": "Value added tax is shown on every invoice.",
    "api.md#limits": "The interface answers 600 requests per minute.",
    "api.md#tokens": "Access tokens expire after half a year.",
    "files.md#size": "An upload may have up to 250 megabytes.",
    "files.md#bin": "Deleted folders are kept in the bin for 30 days.",
}
QUESTIONS: list[dict[str, Any]] = [
    {"id": "team", "question": "What does the Team plan cost?", "source": "plans.md#team"},
    {"id": "trial", "question": "How long is a trial?", "source": "plans.md#trial"},
    {"id": "tax", "question": "Where is tax shown?", "source": "prices.md#tax"},
    {"id": "limit", "question": "How many requests per minute?", "source": "api.md#limits"},
    {"id": "size", "question": "How large may an upload be?", "source": "files.md#size"},
]


def _search(*, sections: bool) -> Any:
    chunks = [
        Document(text, metadata={"source": f"kb/{name if sections else name.split('#')[0]}"})
        for name, text in TEXTS.items()
    ]

    def search(question: str, k: int = 3) -> list[Document]:
        words = set(question.lower().strip("?").split())
        return sorted(
            chunks, key=lambda one: -len(words & set(one.page_content.lower().strip(".").split()))
        )[:k]

    return search


def _file(folder: Path, questions: Sequence[dict[str, Any]] = QUESTIONS) -> Path:
    path = folder / "q.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in questions), encoding="utf-8")
    return path


def _measured(
    folder: Path,
    leave_out: str,
    questions: Sequence[dict[str, Any]] = QUESTIONS,
    *,
    sections: bool = True,
) -> MeasuredRun:
    settings = MeasureSettings(
        questions=_file(folder, questions),
        chain="kb",
        scorer="lexical",
        leave_out=LeaveOut(leave_out),
    )
    chain = ServedChain(_search(sections=sections), name="kb")
    result = run_suite(MEASURE, settings, folder / "run", [Instruments.of(settings, chain)])
    return MeasuredRun.read(result.folder)


def _left(run: MeasuredRun, question: str) -> set[str]:
    """Sections that a left-out case still found."""
    (row,) = [row for row in run.rows if row.case_id == f"{question}/left_out"]
    texts = {text: name for name, text in TEXTS.items()}
    return {texts[run.passages[name].text] for name in row.retrieved}


def _units(folder: Path) -> set[tuple[str, str]]:
    return {record.unit for record in CalibrationSet.of_run(folder / "run").records}


PLANS, PRICES = {"plans.md#team", "plans.md#trial"}, {"prices.md#list", "prices.md#tax"}


@pytest.mark.parametrize(
    ("leave_out", "sections", "gone", "there", "merged"),
    [
        ("source", True, {"plans.md#team"}, {"prices.md#list"}, 0),
        ("source", False, PLANS, set(), 1),
        ("page", True, PLANS, {"prices.md#list"}, 1),
        # The page of prices repeats the answer.
        ("topic", True, PLANS | PRICES, set(), 2),
    ],
)
def test_a_source_its_page_or_its_topic_is_left_out_and_counted_once(
    tmp_path: Path, leave_out: str, sections: bool, gone: set[str], there: set[str], merged: int
) -> None:
    run = _measured(tmp_path, leave_out, sections=sections)

    left = _left(run, "team")
    assert len(left) == 3
    assert not gone & left
    assert there <= left
    assert len(_units(tmp_path)) == len(QUESTIONS) - merged
    assert run.manifest.settings.leave_out is LeaveOut(leave_out)


def test_the_plan_counts_the_units_of_the_certificate(tmp_path: Path) -> None:
    for name in (LeaveOut.SOURCE, LeaveOut.PAGE):
        folder = tmp_path / name
        folder.mkdir()
        _measured(folder, name)
        planned = sizes_of_units(folder / "q.jsonl", name, None, served=True)
        assert len(planned) == len(_units(folder))


OWN: list[dict[str, Any]] = [
    {
        "id": name,
        "question": f"What is said about {name.split('#')[1]}?",
        "answer": text,
        "passage": text,
        "source": name,
    }
    for name, text in TEXTS.items()
]  # fmt: skip


@pytest.mark.parametrize(("leave_out", "units"), [("source", 8), ("page", 4), ("topic", 3)])
def test_own_passages_go_with_their_page_or_topic(
    tmp_path: Path, leave_out: str, units: int
) -> None:
    settings = MeasureSettings(
        questions=_file(tmp_path, OWN), scorer="lexical", leave_out=LeaveOut(leave_out)
    )
    systems = MEASURE.load(settings, None)  # type: ignore[arg-type] # no model is chosen
    run = MeasuredRun.read(run_suite(MEASURE, settings, tmp_path / "run", systems).folder)

    (row,) = [row for row in run.rows if row.case_id == "plans.md#team/left_out"]
    gone = {"source": ("plans.md#team",), "page": ("plans",), "topic": ("plans", "prices")}
    assert not [name for name in row.retrieved if name.startswith(gone[leave_out])]
    planned = sizes_of_units(tmp_path / "q.jsonl", LeaveOut(leave_out), None, served=False)
    assert len(_units(tmp_path)) == len(planned) == units


def test_questions_that_are_all_on_one_page_are_rejected(tmp_path: Path) -> None:
    rows = [{**one, "source": "plans.md"} for one in OWN]
    settings = MeasureSettings(
        questions=_file(tmp_path, rows), scorer="lexical", leave_out=LeaveOut.PAGE
    )

    with pytest.raises(InputError, match="all questions are on one page"):
        run_suite(MEASURE, settings, tmp_path / "run", MEASURE.load(settings, None))  # type: ignore[arg-type]


def test_a_source_that_is_far_from_its_question_is_a_retrieval_miss(tmp_path: Path) -> None:
    far = [Document(f"Nothing about it, {n}.", metadata={"source": f"p{n}"}) for n in range(300)]

    def search(question: str, k: int = 2) -> list[Document]:
        return far[:k] if question.startswith("far") else far[2 : k + 2]

    questions = [
        {"id": "near", "question": "near?", "source": "p2"},
        {"id": "far", "question": "far?", "source": "p250"},
    ]
    settings = MeasureSettings(questions=_file(tmp_path, questions), chain="kb", scorer="lexical")
    chain = Instruments.of(settings, ServedChain(search, name="kb"))
    run = MeasuredRun.read(run_suite(MEASURE, settings, tmp_path / "run", [chain]).folder)

    rows = {row.case_id: row for row in run.rows}
    assert rows["far/in_kb"].retrieval_miss
    assert not rows["near/in_kb"].retrieval_miss
    assert not run.unmatched
