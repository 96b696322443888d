"""Verdicts to a file and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.guard.errors import InputError
from knowgate.offline_eval.judging.labelling.review_session import Imported, ReviewSession
from knowgate.offline_eval.run.measured_run import MeasuredRun, Review


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_is_exported_can_be_filled_in_and_imported(
    session: ReviewSession, run: Path, tmp_path: Path, kind: str
) -> None:
    session.decide(0, Review.Verdict.ANSWERED, passage="news#1", note="=1+1, “yes”\nand more")
    path = tmp_path / f"reviews.{kind}"

    assert session.export(path) == 1
    (run / "reviews.jsonl").unlink()
    assert ReviewSession.store_file(run, path) == Imported(1, 0, 2)
    found = MeasuredRun.read(run).reviews["fee/left_out"]
    assert (found.passage, found.note) == ("news#1", "=1+1, “yes”\nand more")
    assert ReviewSession.store_file(run, path) == Imported(0, 1, 2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"case_id": "fee/left_out", "verdict": "maybe"}', "verdict"),
        ('{"verdict": "answered"}', "case_id"),
        ('{"case_id": "fee/in_kb", "verdict": "answered"}', "no left-out case"),
        ('{"case_id": "fee/left_out", "verdict": "answered", "passage": "x"}', "not retrieved"),
        ('{"case_id": "tour/left_out", "verdict": "unsure"}', "twice"),
        ('{"case_id": 3}', "case_id"),
        ("[]", "expected a JSON object"),
        ("{", "broken JSON"),
    ],
)  # fmt: skip
def test_a_bad_row_is_told_with_its_line_and_nothing_is_stored(
    run: Path, tmp_path: Path, line: str, words: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"case_id": "tour/left_out", "verdict": "Not answered"}}\n{line}\n', "utf-8")
    with pytest.raises(InputError, match=words) as told:
        ReviewSession.store_file(run, path)
    assert f"{path}:2" in str(told.value)
    assert not (run / "reviews.jsonl").exists()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(list(Review.Verdict)),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=40),
    st.sampled_from(["csv", "jsonl"]),
)
def test_any_verdict_and_note_come_back_as_they_were(
    session: ReviewSession, run: Path, verdict: Review.Verdict, note: str, kind: str
) -> None:
    path = run.parent / f"reviews.{kind}"
    session.decide(2, verdict, note=note)
    session.export(path)
    assert ReviewSession.store_file(run, path).stored == 0, json.dumps(note)
