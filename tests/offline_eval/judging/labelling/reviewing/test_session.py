"""Cases in the order of review, and verdicts that are stored, replaced and taken back."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard.errors import InputError
from knowgate.offline_eval.judging.labelling._review_cases import (
    ReviewCase,
    ReviewPassage,
    _place,
    review_cases,
)
from knowgate.offline_eval.judging.labelling.review_session import ReviewSession
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run.measured_run import MeasuredRun, Review
from tests.offline_eval.cli.commands import read_lines


def verdicts(run: Path) -> dict[str, str]:
    return {name: str(one.verdict) for name, one in MeasuredRun.read(run).reviews.items()}


def test_the_probably_answered_case_comes_first_then_the_highest_relevance(
    session: ReviewSession,
) -> None:
    assert [case.case_id for case in session.cases] == [
        "fee/left_out",
        "tour/left_out",
        "dogs/left_out",
    ]
    assert [case.probable for case in session.cases] == [True, False, False]


def test_the_passage_that_probably_answers_stands_first(session: ReviewSession) -> None:
    assert [one.passage_id for one in session.cases[0].passages] == ["news#1", "kids#1"]
    assert [one["probable"] for one in session.context(0)] == [True, False]
    assert session.context(0)[0]["name"] == "news#1 · news.html"
    assert [one["probable"] for one in session.context(1)] == [False, False]


relevances = st.none() | st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(st.tuples(relevances, st.booleans()), max_size=12), st.randoms())
def test_any_cases_have_one_order(
    drawn: list[tuple[float | None, bool]], shuffle: random.Random
) -> None:
    cases = [
        ReviewCase(
            str(at), "q", "a", relevance, None, None,
            (ReviewPassage("p", "t", "", 0.1, 0.9 if probable else 0.1),),
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


def test_verdicts_of_another_process_are_seen(session: ReviewSession, run: Path) -> None:
    other = ReviewSession(run, session.cases)
    other.decide(1, Review.Verdict.NOT_ANSWERED)

    assert session.open_positions == [0, 2]
    assert session.state()["statuses"] == ["open", "done", "open"]


def test_changes_are_taken_back_one_after_the_other(session: ReviewSession, run: Path) -> None:
    session.label(0, "review", "answered", "sure")
    session.label(0, "review", "unsure")
    assert session.undo()["position"] == 0
    assert verdicts(run) == {"fee/left_out": "answered"}
    assert session.item(0)["note"] == "sure"
    assert session.undo()["statuses"] == ["open", "open", "open"]
    assert verdicts(run) == {}
    assert session.undo()["position"] is None


def test_a_skipped_case_stays_open_for_the_next_session(session: ReviewSession, run: Path) -> None:
    assert session.skip(1)["statuses"] == ["open", "skipped", "open"]
    assert session.item(1)["steps"][0]["skipped"]
    assert ReviewSession(run, session.cases).open_positions == [0, 1, 2]
    assert session.label(1, "review", "unsure")["statuses"][1] == "done"


def test_a_note_alone_is_no_verdict(session: ReviewSession, run: Path) -> None:
    assert session.note(2, "ask Ann")["statuses"] == ["open", "open", "open"]
    assert session.item(2)["note"] == "ask Ann"
    assert verdicts(run) == {}
    session.label(2, "review", "not_answered")
    assert MeasuredRun.read(run).reviews["dogs/left_out"].note == "ask Ann"


@pytest.mark.parametrize(("criterion", "outcome"), [("review", "perhaps"), ("tone", "answered")])
def test_what_is_not_asked_is_rejected(
    session: ReviewSession, run: Path, criterion: str, outcome: str
) -> None:
    with pytest.raises(LabelSession.NotAskedError):
        session.label(0, criterion, outcome)
    assert not (run / "reviews.jsonl").exists()


def test_no_position_beyond_the_cases_is_answered(session: ReviewSession) -> None:
    for ask in (session.item, session.context, session.skip):
        with pytest.raises(IndexError):
            ask(3)


def test_a_half_written_verdict_is_dropped_and_the_next_one_is_whole(
    session: ReviewSession, run: Path
) -> None:
    session.decide(0, Review.Verdict.ANSWERED)
    path = run / "reviews.jsonl"
    path.write_bytes(path.read_bytes() + b'{"case_id": "tour/left_o')
    again = ReviewSession(run, session.cases)
    assert again.open_positions == [1, 2]
    again.decide(1, Review.Verdict.UNSURE)
    assert verdicts(run) == {"fee/left_out": "answered", "tour/left_out": "unsure"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"case_id": "fee/in_kb", "verdict": "answered"}', "no left-out case"),
        ('{"case_id": "fee/left_out", "verdict": "maybe"}', "verdict"),
        ('{"case_id": "fee/left_out", "verdict": "answered", "at": "yesterday"}', "at"),
        ('{"case_id": "fee/left_out", "verdict": "answered", "passage": "x"}', "not retrieved"),
    ],
)  # fmt: skip
def test_a_damaged_table_is_told_with_its_line(run: Path, line: str, words: str) -> None:
    (run / "reviews.jsonl").write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=words) as told:
        MeasuredRun.read(run)
    assert f"{run / 'reviews.jsonl'}:2" in str(told.value)


def test_a_run_without_left_out_cases_is_rejected(run: Path) -> None:
    rows = [row for row in read_lines(run / "rows.jsonl") if row["kind"] == "in_kb"]
    (run / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(InputError, match="no measured case with its source left out"):
        review_cases(MeasuredRun.read(run, unfinished=True))
