"""`knowgate shadow-report`: what enforcing would have changed, from a log of decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Decision, DecisionLog, Guard, Policy, Reason, Route
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.policies import shadow_report
from tests.calibration.monitoring.populations import calibrated_policy
from tests.offline_eval.cli.commands import Knowgate, refused, write_lines
from tests.support.guards import guard_with

ASKED = {"good": ["good"], "bad": ["bad"], "none": []}
TIMES = {"good": 6, "bad": 3, "none": 1}


def guarded(log: DecisionLog, policy: Policy | None = None, **changes: Any) -> Guard:
    return guard_with(
        policy or calibrated_policy(20),
        scorer=FakeScorer({"good": 0.9, "broken": float("nan")}, default=0.1),
        observers=[log],
        **{"mode": "shadow", **changes},
    )


def ask(guard: Guard) -> None:
    """Six questions whose passages suffice, three whose do not, one without passages."""
    for kind, times in TIMES.items():
        for number in range(times):
            guard.decide(f"{kind} question {number}", ASKED[kind])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a certified guard in shadow mode."""
    ask(guarded(DecisionLog(tmp_path / "log")))
    return tmp_path / "log"


def test_shares_are_told_by_reason_route_and_change(knowgate: Knowgate, log: Path) -> None:
    outcome = knowgate("shadow-report", log)
    found = json.loads(knowgate("shadow-report", log, "--json").out)

    assert outcome.code == 0
    assert "replaced 40\xa0% (95\xa0% interval 17\xa0% to 69\xa0%)" in outcome.out
    assert (found["decisions"], found["questions"], found["certified"]) == (10, 10, True)
    assert found["problems"] == []
    values = {
        name: {key: round(share["value"], 3) for key, share in found[name].items()}
        for name in ("routes", "reasons", "changes")
    }
    assert values == {
        "routes": {"follow_context": 0.6, "answer": 0.0, "abstain": 0.4},
        "reasons": {"neither_knows": 0.3, "nothing_retrieved": 0.1},
        "changes": {
            "abstained": 0.4, "from_memory": 0.0, "fewer_passages": 0.0, "unchanged": 0.6,
        },
    }  # fmt: skip
    assert sum(period["decisions"] for period in found["periods"]) == 10


def test_labels_give_leak_false_abstention_and_wrong_replies(knowgate: Knowgate, log: Path) -> None:
    lines = [
        {"question": f"good question {number}", "answerable": number > 0, "right": number > 1}
        for number in range(4)
    ]
    lines += [
        {"question_id": DecisionLog.plain_question_id("bad question 0"), "answerable": True},
        {"question": "bad question 1", "answerable": False, "right": False},
        {"question": "bad question 2", "right": True},
        {"question": "never asked", "right": True},
        {"question": "none question 0", "right": True},
        {"question": "none question 0", "right": False},
    ]
    labels = write_lines(log / "labels.jsonl", lines)

    outcome = knowgate("shadow-report", log, "--labels", labels, "--json")

    assert outcome.code == 0
    found = json.loads(outcome.out)["labels"]
    assert (found["questions"], found["contradictory"], found["unmatched"]) == (7, 1, 1)
    assert {name: found[name]["value"] for name in found if isinstance(found[name], dict)} == {
        "leak": 0.5,
        "false_abstention": 0.25,
        "wrong_now": 0.5,
        "wrong_then": 0.5,
        "wrong_caught": pytest.approx(1 / 3),
        "right_lost": pytest.approx(1 / 3),
    }
    assert "Leak: 50\xa0%" in knowgate("shadow-report", log, "--labels", labels).out


def test_a_question_that_is_asked_again_and_again_counts_about_once(tmp_path: Path) -> None:
    guard = guarded(DecisionLog(tmp_path))
    for _ in range(50):
        guard.decide("the same", ["bad"])
    guard.decide("another", ["good"])

    found = shadow_report([tmp_path]).values

    assert found["abstention"]["value"] == pytest.approx(50 / 51)
    assert found["abstention"]["n"] == 1
    assert found["abstention"]["low"] < 0.3


def test_failures_are_told_and_no_success(knowgate: Knowgate, log: Path) -> None:
    guard = guarded(DecisionLog(log))
    guard.decide("one more", ["broken"])
    guard.count(Decision(route=Route.ABSTAIN, reason=Reason.RETRIEVAL_FAILED, mode=guard.mode))

    outcome = knowgate("shadow-report", log, "--json")

    assert outcome.code == 1
    assert "In more than 5 % of the decisions" in outcome.err
    found = json.loads(outcome.out)
    assert found["failed"]["value"] == pytest.approx(2 / 12)
    assert {"retrieval_failed", "relevance_failed"} <= set(found["reasons"])


def test_lost_and_cut_lines_are_told_and_no_success(knowgate: Knowgate, log: Path) -> None:
    (path,) = log.glob("decisions-*.jsonl")
    lines = path.read_text().splitlines()
    lines[3] = json.dumps({**json.loads(lines[3]), "lost": 7})
    path.write_text("\n".join([*lines, lines[0][:40]]))

    outcome = knowgate("shadow-report", log, "--json")

    assert outcome.code == 1
    assert "7 decisions could not be written" in outcome.err
    assert "is cut off" in outcome.err
    found = json.loads(outcome.out)
    assert (found["decisions"], found["lost"], found["cut_off_files"]) == (10, 7, 1)


def test_a_gate_fails_the_command(knowgate: Knowgate, log: Path) -> None:
    out = log / "report"
    gate = ("--fail-if", "abstention>30%", "--out", out)

    assert knowgate("shadow-report", log, *gate).code == 1
    assert knowgate("shadow-report", log, "--fail-if", "abstention>50%", "--out", out).code == 0
    refused(knowgate("shadow-report", log, *gate[:2]), "--fail-if", "add --out")
