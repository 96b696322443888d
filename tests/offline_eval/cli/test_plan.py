"""`knowgate calibrate --dry-run`: what can be certified, said before anything is measured."""

from __future__ import annotations

from pathlib import Path

from knowgate.calibration.risk import Leak
from knowgate.calibration.risk.plan import LeakPlan
from tests.offline_eval.cli.commands import Knowgate, write_lines

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
