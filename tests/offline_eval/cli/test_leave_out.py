"""`knowgate measure --leave-out`, its last table, and `plan` beside the certificate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.calibration.risk import Leak
from knowgate.calibration.risk.plan import LeakPlan
from knowgate.offline_eval.policies.records import CalibrationSet
from tests.offline_eval.cli.commands import Knowgate, write_lines

PAGES = {
    "plans.md": "# Team\n\nThe Team plan costs nineteen euros a month.\n",
    "trial.md": "# Trial\n\nA trial lasts for 21 days and needs no credit card.\n",
    "api.md": "# Limits\n\nThe interface answers 600 requests per minute.\n",
    "files.md": "# Size\n\nAn upload may have up to 250 megabytes.\n",
}
QUESTIONS: list[dict[str, Any]] = [
    {"id": "team", "question": "What does the Team plan cost?", "source": "plans.md#team"},
    {"id": "month", "question": "How much is it a month?", "source": "plans.md#month"},
    {"id": "trial", "question": "How long is a trial?", "source": "trial.md"},
    {"id": "again", "question": "how long is  a trial?", "source": "trial.md"},
    {"id": "limit", "question": "How many requests per minute?", "source": "api.md"},
    {"id": "size", "question": "How large may an upload be?", "source": "files.md"},
]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _measure(
    knowgate: Knowgate, tmp_path: Path, documents: Path, *more: str, questions: Any = QUESTIONS
) -> Any:
    path = write_lines(tmp_path / "q.jsonl", questions)
    return knowgate(
        *("measure", "--questions", path, "--documents", documents, "--scorer", "lexical"),
        *("--top-k", "2", "--out", tmp_path / "run", *more),
    )


@pytest.mark.parametrize("leave_out", ["source", "page"])
def test_plan_and_certificate_count_the_same_units(
    knowgate: Knowgate, tmp_path: Path, documents: Path, leave_out: str
) -> None:
    # These documents name no sections: what is left out is the page in both cases.
    questions = [{**one, "source": one["source"].split("#")[0]} for one in QUESTIONS]
    _measure(knowgate, tmp_path, documents, "--leave-out", leave_out, questions=questions)
    planned = knowgate(
        "calibrate", "--dry-run", "--questions", tmp_path / "q.jsonl",
        "--leave-out", leave_out, "--json",
    )  # fmt: skip

    units = {record.unit for record in CalibrationSet.of_run(tmp_path / "run").records}
    assert json.loads(planned.out)["plan"]["passages"] == len(units) == 4


def test_plan_counts_passages_or_sources_as_the_questions_are_measured(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    rows = [
        {
            "id": f"q{n}",
            "question": f"What is {n}?",
            "answer": f"It is {n}.",
            "passage": f"It is {n}.",
            "source": f"page {n // 4}",
        }
        for n in range(12)
    ]
    path = write_lines(tmp_path / "q.jsonl", rows)
    knowgate("measure", "--questions", path, "--scorer", "lexical", "--out", tmp_path / "run")

    own = knowgate("calibrate", "--dry-run", "--questions", path)
    units = {record.unit for record in CalibrationSet.of_run(tmp_path / "run").records}
    assert own.out.startswith(f"12 questions on {len(units)} passages")
    assert "Asked of documents, with their sources left out, 3 count." in own.out


PLAN = ("calibrate", "--dry-run", "--questions")


def _questions(path: Path, count: int, per_source: int) -> Path:
    rows = [
        {"question": f"What is {i}?", "answer": f"It is {i}.", "source": f"page {i // per_source}"}
        for i in range(count)
    ]
    return write_lines(path / "q.jsonl", rows)


def test_it_says_that_few_passages_cannot_certify_and_which_bound_they_can(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    outcome = knowgate(*PLAN, _questions(tmp_path, 60, 4), "--risk", "0.1")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(
        "60 questions on 15 passages cannot certify a leak of at most 0.1 with confidence 0.9"
    )
    assert "that takes 25 passages; they can certify --risk 0.16." in outcome.out


def test_a_plan_keeps_its_word() -> None:
    # The smallest bound that is named is certified where nothing passes, and no smaller one.
    found = LeakPlan.of([3] * 20, 0.1)
    assert found.smallest is not None
    assert LeakPlan.of([3] * 20, found.smallest).needed <= 20
    assert LeakPlan.of([3] * 20, found.smallest - 0.01).needed > 20
    assert Leak(found.smallest).bound == 0.11
