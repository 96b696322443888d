"""Consensus, disagreements, agreement and export of several people's labels."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from knowgate.offline_eval.judging.chance_agreement import cohens_kappa
from knowgate.offline_eval.judging.labelling import Agreement, Labels
from knowgate.offline_eval.judging.labelling._criteria import HumanLabel, open_sample
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun


def human_labels(annotator: str, words: str, reply: str = "r{}") -> tuple[HumanLabel, ...]:
    """What somebody said of replies.

    Args:
        annotator: who said it.
        words: one per reply, `yes` or `no` (it abstains), `-` (not labelled), or a digit, the
            tier of a reply that does not abstain.
        reply: pattern of the reply's id, with its number.
    """
    found = []
    for number, word in enumerate(words.split()):
        values = [("abstention", word)] if word != "-" else []
        if word.isdigit():
            values = [("abstention", "no"), ("factuality", f"tier_{word}")]
        found += [
            HumanLabel(
                reply_id=reply.format(number),
                criterion=criterion,
                outcome=outcome,
                annotator=annotator,
            )
            for criterion, outcome in values
        ]
    return tuple(found)


def said(**votes: str) -> Labels:
    """Labels from words such as `anna="yes no - yes"`, one word per reply r0, r1, …; a
    digit is a tier of a reply that does not abstain."""
    given = {annotator: human_labels(annotator, words) for annotator, words in votes.items()}
    return Labels(sample=None, given=given)


def test_more_than_half_make_a_consensus_and_a_tie_makes_none() -> None:
    labels = said(a="yes yes no yes", b="yes no no -", c="no - no -", d="yes - yes -")

    assert labels.consensus("abstention") == {"r0": "yes", "r2": "no", "r3": "yes"}
    assert labels.disagreements("abstention") == ("r0", "r1", "r2")


def test_what_has_no_majority_is_unsettled_unless_it_is_not_asked() -> None:
    # r0: the tiers differ; r1: they do where two of three say that it abstains; r2: settled
    # by a majority; r3: whether it abstains is open, and so is all else.
    labels = said(a="1 1 1 yes", b="2 yes 1 1", c="- yes 2 -")

    assert labels.unsettled("abstention") == ("r3",)
    assert labels.unsettled("factuality") == ("r0",)


def test_factuality_has_no_consensus_where_people_agree_on_abstention() -> None:
    labels = said(a="yes 2 1 yes", b="yes 2 3 1", c="1 yes 3 -")

    # r0: two of three say that it abstains. r3: nobody knows yet whether it does.
    assert labels.consensus("abstention") == {"r0": "yes", "r1": "no", "r2": "no"}
    assert labels.consensus("factuality") == {"r1": "tier_2", "r2": "tier_3"}


def test_what_was_settled_counts_first() -> None:
    labels = said(a="yes yes", b="2 yes")
    settled = (
        HumanLabel(reply_id="r0", criterion="abstention", outcome="no", annotator="c"),
        HumanLabel(reply_id="r1", criterion="abstention", outcome="no", annotator="c"),
    )
    labels = Labels(sample=None, given=labels.given, settled=settled)

    assert labels.consensus("abstention") == {"r0": "no", "r1": "no"}
    assert labels.consensus("factuality") == {"r0": "tier_2"}


def test_agreement_uses_what_each_measure_can_use() -> None:
    labels = said(a="yes no yes no - yes", b="yes no no no yes -", c="yes yes no - yes no")
    found = Agreement.of(labels, "abstention")

    assert found.annotators == ("a", "b", "c")
    assert (found.replies, found.by_two, found.by_all, found.disagreements) == (6, 6, 3, 3)
    assert {pair: value.n for pair, value in found.cohen.items()} == {
        ("a", "b"): 4,
        ("a", "c"): 4,
        ("b", "c"): 4,
    }
    assert found.cohen["a", "b"] == cohens_kappa(
        ["yes", "no", "yes", "no"], ["yes", "no", "no", "no"]
    )
    assert (found.fleiss.n, found.alpha.n) == (3, 6)
    assert found.ordinal_alpha is None


def disagreeing(run: RepliesRun) -> tuple[LabelSession, LabelSession]:
    """Anna and Bob label six replies: three alike, one apart on the tier, two on abstention."""
    sample = open_sample(run, size=6)
    sessions = LabelSession.annotate(run, "anna"), LabelSession.annotate(run, "bob")
    ids = sorted(reply.reply_id for reply in sample.replies)
    words = {"anna": "yes yes yes 1 yes yes", "bob": "yes yes yes 2 3 1"}
    for session in sessions:
        by_reply = dict(zip(ids, words[session.annotator].split(), strict=True))
        for position in range(len(session)):
            word = by_reply[session._names[position]]
            if word.isdigit():
                session.label(position, "abstention", "no", f"thought of {session.annotator}")
                session.label(position, "factuality", f"tier_{word}")
            else:
                session.label(position, "abstention", word)
    return sessions


def test_annotators_stay_unnamed(run: RepliesRun) -> None:
    disagreeing(run)
    hidden = [LabelSession.consensus(run, "carol").item(p)["opinions"] for p in range(3)]

    assert {o["annotator"] for opinions in hidden for o in opinions} == {
        "Annotator A",
        "Annotator B",
    }
    assert any("thought of" in o["note"] for opinions in hidden for o in opinions)


def test_settling_makes_the_consensus(run: RepliesRun) -> None:
    disagreeing(run)
    assert len(Labels.read(run.folder).consensus("abstention")) == 4
    session = LabelSession.consensus(run, "carol")
    for position in range(len(session)):
        step = session.item(position)["steps"][0]
        session.label(
            position, step["criterion"], "no" if step["criterion"] == "abstention" else "tier_2"
        )
    labels = Labels.read(run.folder)

    assert session.state()["statuses"] == ["done"] * 3
    assert sorted(labels.consensus("abstention").values()) == ["no"] * 3 + ["yes"] * 3
    # Bob's tiers stand where only he gave one.
    assert sorted(labels.consensus("factuality").values()) == ["tier_1", "tier_2", "tier_3"]
    assert labels.annotators == ("anna", "bob")
    rows = (run.folder / "labels" / "_consensus.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(row)["annotator"] for row in rows} == {"carol"}


def test_settling_does_not_change_agreement_and_can_go_on_later(run: RepliesRun) -> None:
    disagreeing(run)
    before = Agreement.of(Labels.read(run.folder), "abstention").to_dict()
    session = LabelSession.consensus(run, "carol")
    session.label(
        0,
        session.item(0)["steps"][0]["criterion"],
        "no" if session.item(0)["steps"][0]["criterion"] == "abstention" else "tier_1",
    )

    assert Agreement.of(Labels.read(run.folder), "abstention").to_dict() == before
    again = LabelSession.consensus(run, "dora")
    assert len(again) == 3
    assert again.state()["statuses"].count("done") == 1


def test_a_reply_settled_as_an_answer_is_asked_for_its_tier_where_nobody_gave_one(
    run: RepliesRun,
) -> None:
    anna, bob = (LabelSession.annotate(run, name, size=4) for name in ("anna", "bob"))
    target = anna._names[0]
    anna.label(0, "abstention", "yes")
    place = next(p for p in range(4) if bob._names[p] == target)
    bob.label(place, "abstention", "no")
    bob.skip(place)
    # The tier is something that annotators are asked: somebody gave one elsewhere.
    session = LabelSession.consensus(run, "carol")
    session.label(0, "abstention", "no")

    assert [step["criterion"] for step in session.item(0)["steps"]] == ["abstention", "factuality"]


def test_replies_to_one_question_are_no_independent_evidence(run: RepliesRun) -> None:
    for name in ("anna", "bob"):
        session = LabelSession.annotate(run, name)
        for position in range(len(session)):
            session.label(position, "abstention", "yes" if position % 2 else "no")
    labels = Labels.read(run.folder)
    by_reply = Agreement.of(labels, "abstention")
    by_question = Agreement.of(labels, "abstention", run=run)

    # Two systems answered each of sixteen questions.
    assert (by_reply.alpha.n, by_question.alpha.n) == (32, 16)
    assert by_question.alpha.value == pytest.approx(by_reply.alpha.value)


def test_csv_holds_one_column_per_annotator_and_the_consensus(
    run: RepliesRun, tmp_path: Path
) -> None:
    disagreeing(run)
    path = tmp_path / "labels.csv"
    assert Labels.read(run.folder).export(run, path) == 6
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))

    assert list(rows[0]) == [
        "reply_id", "question", "expected", "response", "inclusion_probability",
        "abstention: anna", "abstention: bob", "abstention (consensus)",
        "factuality: anna", "factuality: bob", "factuality (consensus)",
        "note: anna", "note: bob",
    ]  # fmt: skip
    assert sorted(row["abstention (consensus)"] for row in rows) == ["", "", "no"] + ["yes"] * 3
    assert {row["note: bob"] for row in rows} == {"", "thought of bob"}
