"""Verdicts to a file and back."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.guard.errors import InputError
from knowgate.offline_eval.judging.labelling.review_session import (
    ReviewCase,
    ReviewSession,
    _place,
)
from knowgate.offline_eval.run.measured_run import MeasuredRun, Review
from knowgate.offline_eval.run.questions import CaseKind, MeasuredRow, Question
from tests.offline_eval.cli.commands import read_lines


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_is_exported_can_be_filled_in_and_imported(
    session: ReviewSession, run: Path, tmp_path: Path, kind: str
) -> None:
    session.decide(0, Review.Verdict.ANSWERED, passage="news#1", note="=1+1, “yes”\nand more")
    path = tmp_path / f"reviews.{kind}"

    assert session.export(path) == 1
    (run / "reviews.jsonl").unlink()
    assert ReviewSession.store_file(run, path) == (1, 0, 2)
    found = MeasuredRun.read(run).reviews["fee/left_out"]
    assert (found.passage, found.note) == ("news#1", "=1+1, “yes”\nand more")
    assert ReviewSession.store_file(run, path) == (0, 1, 2)


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
    assert ReviewSession.store_file(run, path)[0] == 0, json.dumps(note)


def verdicts(run: Path) -> dict[str, str]:
    return {name: str(one.verdict) for name, one in MeasuredRun.read(run).reviews.items()}


def test_the_probably_answered_case_comes_first_then_the_highest_relevance(
    session: ReviewSession,
) -> None:
    assert [case.row.case_id for case in session.cases] == [
        "fee/left_out",
        "tour/left_out",
        "dogs/left_out",
    ]
    assert [case.probable for case in session.cases] == [True, False, False]


relevances = st.none() | st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(st.tuples(relevances, st.booleans()), max_size=12), st.randoms())
def test_any_cases_have_one_order(
    drawn: list[tuple[float | None, bool]], shuffle: random.Random
) -> None:
    cases = [
        ReviewCase(
            MeasuredRow(
                case_id=str(at), question_id="q", kind=CaseKind.LEFT_OUT, retrieval_miss=False,
                retrieved=("p",) * (relevance is not None), raw_relevance=relevance,
                scores=(relevance,) * (relevance is not None), error=None,
            ),
            Question(question_id="q", question="q"),
            probable=probable,
        )
        for at, (relevance, probable) in enumerate(drawn)
    ]  # fmt: skip
    shuffled = cases.copy()
    shuffle.shuffle(shuffled)

    ordered = sorted(shuffled, key=_place)

    assert ordered == sorted(cases, key=_place)
    for probable in (True, False):
        found = [case.relevance for case in ordered if case.probable is probable]
        known = [value for value in found if value is not None]
        assert known == sorted(known, reverse=True)
        assert found[len(known) :] == [None] * (len(found) - len(known))
    assert [case.probable for case in ordered] == sorted((p for _, p in drawn), reverse=True)


def test_a_verdict_is_on_disk_at_once_and_the_last_one_counts(
    session: ReviewSession, run: Path
) -> None:
    session.decide(0, Review.Verdict.UNSURE)
    assert verdicts(run) == {"fee/left_out": "unsure"}
    session.decide(0, Review.Verdict.ANSWERED, passage="news#1", note="says so")

    assert verdicts(run) == {"fee/left_out": "answered"}
    assert [row["verdict"] for row in read_lines(run / "reviews.jsonl")] == ["unsure", "answered"]
    last = MeasuredRun.read(run).reviews["fee/left_out"]
    assert (last.passage, last.note) == ("news#1", "says so")
    assert session.open_positions == [1, 2]


def test_changes_are_taken_back_one_after_the_other(session: ReviewSession, run: Path) -> None:
    session.label(0, "review", "answered", "sure")
    session.label(0, "review", "unsure")
    assert session.undo()["position"] == 0
    assert verdicts(run) == {"fee/left_out": "answered"}
    assert session.item(0)["note"] == "sure"
    assert session.undo()["statuses"] == ["open", "open", "open"]
    assert verdicts(run) == {}
    assert session.undo()["position"] is None


def test_a_note_alone_is_no_verdict(session: ReviewSession, run: Path) -> None:
    assert session.note(2, "ask Ann")["statuses"] == ["open", "open", "open"]
    assert session.item(2)["note"] == "ask Ann"
    assert verdicts(run) == {}
    session.label(2, "review", "not_answered")
    assert MeasuredRun.read(run).reviews["dogs/left_out"].note == "ask Ann"


def test_no_position_beyond_the_cases_is_answered(session: ReviewSession) -> None:
    for ask in (session.item, session.context, session.skip):
        with pytest.raises(IndexError):
            ask(3)
