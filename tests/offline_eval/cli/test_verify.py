"""`knowgate verify`: a result for each reply, and a threshold with a promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.guard import Guard, GuardOptions, Policy
from knowgate.guard.fingerprint import Fingerprint
from knowgate.guard.testing import FakeScorer
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines
from tests.offline_eval.suites.ookb.replies_run import toys, write_replies_run

PASSAGE = "Claims are paid within five days."


def lines(number: int) -> list[dict[str, object]]:
    """As many supported replies as unsupported ones."""
    return [
        {
            "id": index,
            "question": f"When, {index}?",
            "passages": [PASSAGE],
            "reply": f"Claims are paid within {5 if index % 2 else 6} days.",
            "supported": bool(index % 2),
        }
        for index in range(number)
    ]


def test_each_reply_gets_its_sentences(knowgate: Knowgate, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", [*lines(2), {"passages": [], "reply": "Hello!"}])
    found = knowgate("verify", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "o.jsonl")
    assert found.code == 0
    bad, good, nothing = read_lines(tmp_path / "o.jsonl")
    assert (bad["supported"], good["supported"], nothing["supported"]) == (False, True, True)
    assert good == {
        "id": 1,
        "support": 1.0,
        "supported": True,
        "sentences": [
            {
                "text": "Claims are paid within 5 days.",
                "support": 1.0,
                "passage": 0,
                "start": 0,
                "end": len(PASSAGE),
                "missing": [],
            }
        ],
    }
    assert bad["sentences"][0]["missing"] == ["number 6 day"]
    assert "nothing is promised" in found.out


def test_a_threshold_is_certified_into_the_policy(knowgate: Knowgate, tmp_path: Path) -> None:
    scorer = FakeScorer(default=0.9)
    Policy(scorer=scorer.fingerprint, relevance_threshold=0.5).save(tmp_path / "policy.json")
    write_lines(tmp_path / "in.jsonl", lines(80))
    found = knowgate(
        "verify", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl",
        "--policy", tmp_path / "policy.json",
        "--certify", f"risk=0.1,delta=0.1,out={tmp_path / 'checked.json'}", "--json",
    )  # fmt: skip
    assert found.code == 0
    figures = json.loads(found.out)
    assert (figures["certified"], figures["unsupported_delivered"]) == (True, 0)
    policy = Policy.load(tmp_path / "checked.json")
    assert policy.support is not None
    assert (policy.support.threshold, policy.support.delivered) == (1.0, 40)
    options = GuardOptions(on_unsupported="flag")
    guard = Guard(policy, scorer=scorer, options=options, metrics=False)
    verdict = guard.check_reply("Claims are paid within 5 days.", [PASSAGE])
    assert (verdict.supported, verdict.calibrated) == (True, True)

    other = policy.support.model_copy(update={"check": Fingerprint(kind="judged")})
    policy.model_copy(update={"support": other}).save(tmp_path / "other.json")
    line = ["verify", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl"]
    line += ["--policy", tmp_path / "other.json"]
    refused(knowgate(*line), "certify a threshold for this")
    assert knowgate(*line, "--certify", "risk=0.1").code == 0


def test_what_cannot_be_certified_is_no_success(knowgate: Knowgate, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", lines(6))
    found = knowgate(
        "verify", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl",
        "--certify", "risk=0.1",
    )  # fmt: skip
    assert found.code == 3
    assert not any(line["supported"] for line in read_lines(tmp_path / "out.jsonl"))


@pytest.mark.parametrize(
    "line",
    ['{"reply": "x"}', '{"passages": "x", "reply": "y"}', '{"passages": [1], "reply": "y"}', "[]"],
)
def test_a_broken_line_is_named(knowgate: Knowgate, tmp_path: Path, line: str) -> None:
    (tmp_path / "in.jsonl").write_text(line, encoding="utf-8")
    found = knowgate("verify", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "o.jsonl")
    refused(found, "in.jsonl:1")
    assert not (tmp_path / "o.jsonl").exists()


def test_verdicts_are_needed_to_certify(knowgate: Knowgate, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", [{"passages": [PASSAGE], "reply": PASSAGE}])
    found = knowgate(
        "verify", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "o.jsonl",
        "--certify", "risk=0.1",
    )  # fmt: skip
    refused(found, "no reply has a verdict")


def test_the_verdicts_of_a_judged_run_count(knowgate: Knowgate, tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", toys("113y?"))
    found = knowgate("verify", "--input", run, "--output", tmp_path / "o.jsonl", "--json")
    figures = json.loads(found.out)
    # One abstained; one was not judged.
    assert (figures["replies"], figures["labelled"], figures["unsupported_delivered"]) == (4, 3, 1)
    assert all(one["id"].startswith("s/") for one in read_lines(tmp_path / "o.jsonl"))
    (tmp_path / "empty").mkdir()
    refused(knowgate("verify", "--input", tmp_path / "empty", "--output", tmp_path / "p"), "empty")
