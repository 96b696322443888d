"""`knowgate eval ookb` with systems under test."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from knowgate.guard import Policy
from knowgate.offline_eval.run import (
    RepliesRun,
)
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines
from tests.support.commands import command

CHAT = "python:tests.offline_eval.cli.scripted_models:chat"
CHAIN = "python:tests.offline_eval.cli.scripted_models:chain"


@pytest.mark.slow
def test_models_prompts_and_guards_are_compared_and_judged(
    knowgate: Knowgate, workplace: Path
) -> None:
    out = workplace / "replies"

    outcome = knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAT,
        "--prompt", "basic", "--prompt", "opinion", "--guard", "off",
        "--guard", workplace / "run", "--limit", 4, "--judge", "detector", "--out", out,
    )  # fmt: skip

    assert outcome.code == 0, outcome.err
    assert "32 replies" in outcome.out
    assert "next: knowgate report" in outcome.out
    found = RepliesRun.read(out)
    assert [system.guard for system in found.systems.values()] == ["off", "run", "off", "run"]
    assert len(found.replies) == len(found.judgements) == 4 * 8
    own = [row for row in found.replies.values() if row.route == "abstain"]
    assert own
    for row in own:
        assert found.judgements[f"{row.reply_id}/abstention/detector"].outcome == "yes"


@pytest.mark.slow
def test_the_same_command_again_asks_nothing(knowgate: Knowgate, workplace: Path) -> None:
    arguments = (
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAT, "--limit", 3,
        "--judge", "none", "--out", workplace / "replies",
    )  # fmt: skip
    knowgate(*arguments)
    before = {path.name: path.read_bytes() for path in (workplace / "replies").iterdir()}

    outcome = knowgate(*arguments)

    assert "6 replies (6 were there before)" in outcome.out
    assert {path.name: path.read_bytes() for path in (workplace / "replies").iterdir()} == before


def test_a_dry_run_tells_the_cost_and_writes_nothing(knowgate: Knowgate, workplace: Path) -> None:
    before = sorted(path.name for path in workplace.iterdir())

    outcome = knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAT,
        "--model", "openai:x", "--retrieval", "direct", "--retrieval", "hyde", "--guard", "off",
        "--guard", workplace / "policy.json", "--dry-run", "--out", workplace / "replies",
    )  # fmt: skip

    assert outcome.code == 0, outcome.err
    lines = {line.split()[0]: line.split()[1:] for line in outcome.out.split("\n") if line}
    assert lines[f"{CHAT}·direct·basic"][:2] == ["120", "120"]
    # The first model writes the hypothetical answers, once for all systems.
    assert lines[f"{CHAT}·hyde·basic"][:2] == ["120", "240"]
    assert lines["openai:x·hyde·basic"][:2] == ["120", "120"]
    assert lines["openai:x·hyde·basic·guard-policy"][:3] == ["120", "≤", "120"]
    assert "together at most 1080 calls" in outcome.out
    assert "nothing was asked or written" in outcome.out
    assert sorted(path.name for path in workplace.iterdir()) == before


@pytest.mark.slow
def test_logs_are_replayed_with_and_without_a_guard(knowgate: Knowgate, workplace: Path) -> None:
    (workplace / "m_runs").mkdir()
    log = write_lines(
        workplace / "m_runs" / "kb_DIRECT_basic.jsonl",
        [
            {"id": "0-ü", "response": "At ten.", "abstained": "no", "factuality": "tier_3"},
            {"id": "1-ü", "response": "I do not know.", "abstained": "yes", "factuality": "NA"},
        ],
    )

    outcome = knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--replay", log,
        "--guard", "off", "--guard", workplace / "run", "--judge", "detector",
        "--out", workplace / "replies",
    )  # fmt: skip

    assert outcome.code == 0, outcome.err
    assert "4 replies" in outcome.out
    assert "calls" not in outcome.out
    report = knowgate("report", workplace / "replies", "--format", "json")
    assert report.code == 0, report.err
    counts = json.loads((workplace / "replies" / "report.json").read_text(encoding="utf-8"))
    assert [
        (system["replies"]["n"], system["replies"]["abstained"], system["replies"]["tier_3"])
        for system in counts["systems"]
    ] == [(2, 1, 1), (2, 2, 0)]


@pytest.mark.slow
def test_failures_are_told_and_asked_again_on_demand(knowgate: Knowgate, workplace: Path) -> None:
    arguments = (
        "eval", "ookb", "--questions", workplace / "kb.jsonl",
        "--model", CHAT.replace(":chat", ":failing"), "--limit", 10, "--judge", "none",
        "--out", workplace / "replies", "--calls",
    )  # fmt: skip

    def failed() -> int:
        rows = RepliesRun.read(workplace / "replies").replies.values()
        return sum(row.error is not None for row in rows)

    outcome = knowgate(*arguments, "attempts=1")
    first = failed()
    assert first > 0
    assert outcome.code == 1
    assert f"{first} of 20 replies failed" in outcome.err
    assert "--retry-failed" in outcome.err
    assert knowgate(*arguments, "attempts=1").code == 1

    assert knowgate(*arguments, "attempts=12", "--retry-failed").code == 0
    assert failed() == 0


@pytest.mark.slow
def test_a_run_of_replies_cannot_be_calibrated_on(knowgate: Knowgate, workplace: Path) -> None:
    knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAT, "--limit", 2,
        "--judge", "none", "--out", workplace / "replies",
    )  # fmt: skip

    outcome = knowgate("calibrate", "--run", workplace / "replies", "--out", workplace / "new.json")

    refused(outcome, "holds replies, not relevance signals", "--scorer")
    assert not (workplace / "new.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--model, --replay", "`knowgate measure`"]),
        (["--guard", "off"], ["--model, --replay"]),
        (["--dry-run"], ["--model, --replay"]),
        (["--model", "nonsense"], ["no such model", "nonsense"]),
        (["--model", CHAT, "--model", CHAT], ["named twice"]),
        (["--model", CHAT, "--prompt", "polite"], ["polite", "basic, conservative, opinion"]),
        (["--model", CHAT, "--retrieval", "magic"], ["magic", "basic_rag"]),
        (["--model", CHAT, "--cases", "left_out,lost"], ["lost", "synthetic"]),
        (["--model", CHAT, "--guard", "missing.json"], ["missing.json"]),
        (["--model", CHAT, "--judge", "solomon"], ["solomon"]),
        (["--model", CHAT, "--aggregator", "max"], ["No such option"]),
        (["--model", CHAT, "--calls", "workers=3"], ["engine=ray"]),
        (["--replay", "missing.jsonl"], ["missing.jsonl"]),
        (["--replay", "missing.jsonl", "--prompt", "basic"], ["--prompt", "what the logs say"]),
    ],
)
def test_what_cannot_be_used_is_one_line_and_nothing_is_written(
    knowgate: Knowgate, workplace: Path, arguments: list[str], words: list[str]
) -> None:
    outcome = knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", *arguments,
        "--out", workplace / "replies",
    )  # fmt: skip

    refused(outcome, *words)
    assert not (workplace / "replies").exists()


def test_a_policy_of_another_scorer_is_refused(knowgate: Knowgate, workplace: Path) -> None:
    policy = Policy.load(workplace / "policy.json")
    other = policy.scorer.model_copy(update={"settings": {"k1": 9.0}})
    policy.model_copy(update={"scorer": other}).save(workplace / "other.json")

    outcome = knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAT,
        "--guard", workplace / "other.json", "--out", workplace / "replies",
    )  # fmt: skip

    refused(outcome, "scorer")
    assert not (workplace / "replies").exists()


@pytest.mark.slow
def test_a_chain_is_asked_without_prompts(knowgate: Knowgate, workplace: Path) -> None:
    knowgate(
        "eval", "ookb", "--questions", workplace / "kb.jsonl", "--model", CHAIN,
        "--prompt", "basic", "--prompt", "opinion", "--limit", 2, "--judge", "none",
        "--out", workplace / "replies",
    )  # fmt: skip

    rows = read_lines(workplace / "replies" / "replies.jsonl")
    assert {row["response"] for row in rows} == {'["context", "documents", "question"]'}
    assert {row["system_id"] for row in rows} == {f"{CHAIN}·basic_rag"}


@pytest.mark.slow
def test_interrupted_it_leaves_whole_rows_and_goes_on(workplace: Path) -> None:
    (workplace / "slow.py").write_text(
        "from tests.offline_eval.systems.asked import reader\n"
        "def chat():\n    return reader(seconds=0.2)\n",
        encoding="utf-8",
    )
    rows = workplace / "replies" / "replies.jsonl"
    with command(
        "eval", "ookb", "--questions", "kb.jsonl", "--model", "python:slow:chat",
        "--retrieval", "direct", "--calls", "concurrency=2", "--judge", "none", "--out", "replies",
        cwd=workplace,
    ) as process:  # fmt: skip
        process.wait_until(lambda: rows.exists() and rows.stat().st_size > 1_000)
        process.signal(signal.SIGINT)

        assert process.wait() == 130, process.err
        assert "Traceback" not in process.err
    done = len(RepliesRun.read(workplace / "replies").replies)
    assert 0 < done < 120
