"""`knowgate calibrate --records`, and the promise about what passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Guard, InputError, Policy
from tests.offline_eval.cli.commands import Knowgate, Outcome, refused, write_lines
from tests.offline_eval.policies.measured import drawn, record_lines
from tests.support.fakes import FakeEstimator

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drawn_lines() -> list[dict[str, Any]]:
    return [dict(line) for line in record_lines(drawn(400))]


@pytest.fixture
def records(tmp_path: Path, drawn_lines: list[dict[str, Any]]) -> Path:
    return write_lines(tmp_path / "records.jsonl", drawn_lines)


def _calibrate(knowgate: Knowgate, records: Path, *options: str | Path) -> Outcome:
    return knowgate(
        "calibrate", "--records", records, "--out", records.with_name("policy.json"), *options
    )


def test_records_that_name_nothing_give_a_policy_that_no_guard_loads(
    knowgate: Knowgate, tmp_path: Path, drawn_lines: list[dict[str, Any]]
) -> None:
    records = write_lines(tmp_path / "records.jsonl", drawn_lines[1:])

    outcome = _calibrate(knowgate, records, "--risk", "0.25")

    assert outcome.code == 0
    assert "careful: The records do not name the relevance scorer" in outcome.out
    with pytest.raises(InputError, match="unnamed"):
        Guard.load(records.with_name("policy.json"), estimator=FakeEstimator(), metrics=False)


def _history(records: Path) -> list[str]:
    path = records.with_name(f"{records.stem}.calibrations.jsonl")
    return path.read_text(encoding="utf-8").splitlines()


def test_further_calibrations_on_the_same_records_share_delta_and_say_so(
    knowgate: Knowgate, records: Path
) -> None:
    levels = []
    for number, risk in enumerate(("0.25", "0.3", "0.35"), start=1):
        outcome = _calibrate(knowgate, records, "--risk", risk)
        assert f"attempt {number} on this data" in outcome.out
        guarantee = Policy.load(records.with_name("policy.json")).guarantee
        assert guarantee is not None
        assert guarantee.attempt == number
        levels.append(guarantee.level)
    assert levels == pytest.approx([0.075, 0.0125, 0.1 / 24])
    assert len(_history(records)) == 3

    # Nor does it help to drop a question: the data is beside the same history.
    lines = records.read_text(encoding="utf-8").splitlines(keepends=True)
    records.write_text("".join(lines[:-1]), encoding="utf-8")
    assert "attempt 4" in _calibrate(knowgate, records, "--risk", "0.25").out


def test_a_history_that_is_damaged_or_cannot_be_kept_is_bad_input(
    knowgate: Knowgate, records: Path
) -> None:
    _calibrate(knowgate, records, "--risk", "0.25")
    history = records.with_name(f"{records.stem}.calibrations.jsonl")
    history.write_text("{}\n", encoding="utf-8")
    outcome = _calibrate(knowgate, records, "--risk", "0.3")
    refused(outcome, f"{history}:1")


def test_nothing_is_written_over_the_records(knowgate: Knowgate, records: Path) -> None:
    before = records.read_bytes()

    refused(knowgate("calibrate", "--records", records, "--out", records), "is a file that is read")
    refused(_calibrate(knowgate, records, "--report", records.with_name("policy.html")), "one file")

    assert records.read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_leaves_no_report_without_its_policy(knowgate: Knowgate, records: Path) -> None:
    page = records.with_name("page.html")

    outcome = knowgate(
        "calibrate", "--records", records, "--out", "/dev/full", "--risk", "0.25", "--report", page
    )

    refused(outcome, "No space left")
    assert not page.exists()
    assert not page.with_suffix(".json").exists()
