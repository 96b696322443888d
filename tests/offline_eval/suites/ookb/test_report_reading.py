from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard import Fingerprint, FingerprintMismatchError, InputError
from knowgate.offline_eval.suites.ookb._signals_summary import SignalsSummary
from tests.offline_eval.suites.ookb.written_rows import (
    WriteRun,
    case,
    pairs,
    policy,
)


def error_of(run: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        SignalsSummary.read(run)
    assert caught.value.what
    assert caught.value.where
    assert caught.value.hint
    return caught.value


def test_a_policy_of_another_scorer_is_refused(write_run: WriteRun) -> None:
    other = policy(scorer=Fingerprint(kind="bi_encoder"))
    run = write_run(pairs([0.9], [0.1]), test_questions=["q0"], calibration={"policy": other})

    assert isinstance(error_of_mismatch(run), FingerprintMismatchError)


def error_of_mismatch(run: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        SignalsSummary.read(run)
    return caught.value


def test_a_question_on_both_sides_of_the_split_is_refused(write_run: WriteRun) -> None:
    run = write_run(
        pairs([0.9], [0.1]), test_questions=["q0"], calibration={"calibration_questions": ["q0"]}
    )

    assert "at once" in error_of(run).what


def test_leaving_out_a_shared_passage_goes_by_its_own_id(write_run: WriteRun) -> None:
    run = write_run([case(0, "in_kb", 0.9), case(1, "left_out", 0.5, retrieved=["q0"])])
    path = run / "questions.jsonl"
    SignalsSummary.read(run)
    shared = path.read_text(encoding="utf-8").replace(
        '"question_id": "q1"', '"question_id": "q1", "passage_id": "q0"'
    )
    path.write_text(shared, encoding="utf-8")

    assert "'q0' was retrieved although it was left out" in error_of(run).what
