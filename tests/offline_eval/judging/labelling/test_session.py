"""One person's labels: asked, stored, changed, taken back, taken up again."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.judging.labelling import Labels
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from tests.offline_eval.judging.labelling.toy_replies import toy_run


def session_of(run: RepliesRun, name: str = "anna", size: int | None = None) -> LabelSession:
    return LabelSession.annotate(run, name, size=size)


def stored(run: RepliesRun, name: str = "anna") -> list[dict[str, Any]]:
    text = (run.folder / "labels" / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def outcomes(session: LabelSession, position: int) -> dict[str, str | None]:
    return {s["criterion"]: s["outcome"] for s in session.item(position)["steps"]}


def test_factuality_is_asked_only_of_a_reply_that_does_not_abstain(run: RepliesRun) -> None:
    session = session_of(run)
    assert outcomes(session, 0) == {"abstention": None}

    session.label(0, "abstention", "no")
    assert outcomes(session, 0) == {"abstention": "no", "factuality": None}
    session.label(1, "abstention", "yes")
    assert session.state()["statuses"][:3] == ["open", "done", "open"]


def test_a_label_is_on_disk_when_it_is_acknowledged(run: RepliesRun) -> None:
    session = session_of(run)
    session.label(0, "abstention", "no", "hedged")
    row = stored(run)[0]

    assert row.pop("at").endswith("+00:00")
    assert row.pop("reply_id") in run.replies
    assert row == {
        "criterion": "abstention",
        "outcome": "no",
        "annotator": "anna",
        "note": "hedged",
        "skipped": False,
    }


def test_factuality_lapses_when_the_reply_turns_out_to_abstain(run: RepliesRun) -> None:
    session = session_of(run)
    session.label(0, "abstention", "no")
    session.label(0, "factuality", "tier_1")
    session.label(0, "abstention", "yes")

    assert Labels.read(run.folder).votes("factuality") == {}
    assert outcomes(session, 0) == {"abstention": "yes"}


def test_undo_takes_back_one_change_after_the_other(run: RepliesRun) -> None:
    session = session_of(run)
    session.label(0, "abstention", "no", "first thought")
    session.label(0, "factuality", "tier_1")
    session.label(0, "abstention", "yes", "second thought")

    assert session.undo()["position"] == 0
    assert outcomes(session, 0) == {"abstention": "no", "factuality": "tier_1"}
    assert session.item(0)["note"] == "first thought"
    session.undo()
    assert outcomes(session, 0) == {"abstention": "no", "factuality": None}
    session.undo()
    assert outcomes(session, 0) == {"abstention": None}
    assert session.undo()["position"] is None
    assert Labels.read(run.folder).votes("abstention") == {}


def test_a_note_alone_changes_no_label(run: RepliesRun) -> None:
    session = session_of(run)
    session.label(0, "abstention", "yes")
    session.note(0, "look again")
    session.note(1, "odd")
    session.note(1, "odd")

    assert len(stored(run)) == 3
    assert session.state()["statuses"][:2] == ["done", "open"]
    labels = Labels.read(run.folder)
    assert sorted(labels.notes(row["reply_id"])["anna"] for row in stored(run)[1:]) == [
        "look again",
        "odd",
    ]


def test_two_sessions_of_one_person_see_each_other(run: RepliesRun) -> None:
    one, two = session_of(run), session_of(run)
    one.label(0, "abstention", "yes")

    assert outcomes(two, 0) == {"abstention": "yes"}


def test_orders_differ_between_annotators_and_not_what_is_labelled(run: RepliesRun) -> None:
    def order(name: str) -> list[str]:
        session = session_of(run, name)
        return [
            session.item(p)["question"] + session.item(p)["context"]["words"]
            for p in range(len(session))
        ]

    assert order("anna") != order("bob")
    assert sorted(order("anna")) == sorted(order("bob"))
    assert order("anna") == order("anna")


def test_nothing_of_systems_judges_or_others_is_shown(run: RepliesRun) -> None:
    session_of(run, "bob").label(0, "abstention", "yes", "note-of-bob")
    session = session_of(run)
    shown = json.dumps(
        [[session.item(p), session.context(p)] for p in range(len(session))] + [session.state()]
    )

    for secret in (
        "alpha",
        "secret-policy",
        "guard",
        "hidden-judge",
        "judged-by-a-machine",
        "left_out",
        "note-of-bob",
        "bob",
        "careful",
        "basic_rag",
    ):
        assert secret not in shown


@pytest.mark.parametrize("name", ["", "_consensus", "a/b", "..", "a b", "x" * 65, "a\x00"])
def test_a_name_that_cannot_be_a_files_is_refused(run: RepliesRun, name: str) -> None:
    with pytest.raises(InputError, match="annotator's name"):
        session_of(run, name)


def test_a_sample_whose_criteria_wait_for_each_other_is_refused(run: RepliesRun) -> None:
    session_of(run)
    path = run.folder / "labels/_sample.json"
    sample = json.loads(path.read_text())
    sample["criteria"][0]["only_where"] = {"factuality": ["tier_1"]}
    path.write_text(json.dumps(sample))
    with pytest.raises(InputError, match="waits for"):
        Labels.read(run.folder)


def test_a_line_cut_off_by_a_kill_does_not_count_and_harms_nothing(run: RepliesRun) -> None:
    session_of(run).label(0, "abstention", "yes")
    path = run.folder / "labels" / "anna.jsonl"
    with path.open("ab") as stream:
        stream.write(b'{"reply_id": "cut o')
    session = session_of(run)
    session.label(1, "abstention", "no")

    assert [row["outcome"] for row in stored(run)] == ["yes", "no"]
    assert session.state()["statuses"][0] == "done"


def test_many_threads_lose_no_label(run: RepliesRun) -> None:
    session = session_of(run)
    threads = [
        threading.Thread(target=session.label, args=(position, "abstention", "yes"))
        for position in range(len(session))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(Labels.read(run.folder).votes("abstention")) == len(session) == 32


def test_texts_are_shown_without_what_acts_on_them(tmp_path: Path) -> None:
    run = toy_run(
        tmp_path / "run",
        bases={"parks": 1},
        response=lambda *_: "a\x00b\u202ec\r\nd\x1b[31m\u2067",
        citation=None,
    )
    item = session_of(run).item(0)

    assert item["response"] == "a\ufffdbc\nd\ufffd[31m"
    assert item["citation"] == ""
