"""The decision log: every decision is a line, and no disk costs a decision."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from knowgate.guard import DecisionLog, Guard, GuardMetrics, Mode, Policy, Route
from knowgate.guard.testing import FakeScorer
from tests.support.guards import guard_with
from tests.support.paths import ROOT

SECRET = "Xylophone-4711"


def guarded(log: DecisionLog, **changes: Any) -> Guard:
    scorer = FakeScorer({"good": 0.9}, default=0.1)
    return guard_with(scorer=scorer, observers=[log], **changes)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """All lines; each is whole."""
    texts = [path.read_text("utf-8") for path in sorted(folder.glob("*.jsonl"))]
    assert all(text.endswith("\n") for text in texts)
    return [json.loads(line) for text in texts for line in text.splitlines()]


async def test_all_four_forms_write_a_line_for_each_decision(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    guard = guarded(log, mode=Mode.SHADOW)

    taken = [guard.decide("one", ["good"]), await guard.adecide("two", ["bad"])]
    taken += guard.decide_batch(["three"], [["good", ""]])
    taken += await guard.adecide_batch(["four", " "], [[], ["good"]])

    lines = lines_of(tmp_path)
    assert [(line["route"], line["reason"], line["mode"]) for line in lines] == [
        (one.route, one.reason, "shadow") for one in taken
    ]
    assert [line["relevance"] for line in lines] == [one.relevance for one in taken]
    names = [log.question_id(text) for text in ("one", "two", "three", "four")]
    assert [line["question_id"] for line in lines] == [*names, None]
    assert [line["passages"] for line in lines] == [1, 1, 2, 0, None]
    assert all(line["time"].endswith("+00:00") and line["seconds"] > 0 for line in lines)
    assert (log.written, log.lost) == (5, 0)


def test_a_line_holds_no_text_of_users_unless_asked(tmp_path: Path) -> None:
    for folder, text in (("without", False), ("with", True)):
        guarded(DecisionLog(tmp_path / folder, text=text)).decide(SECRET, [f"bad {SECRET}"])

    written = [path.read_text("utf-8") for path in (tmp_path / "without").iterdir()]
    assert not any(SECRET in text for text in written)
    (line,) = lines_of(tmp_path / "with")
    assert line["text"]["question"] == SECRET
    assert line["text"]["passages"] == [f"bad {SECRET}"]


def test_ids_of_questions_can_be_keyed_or_those_of_requests(tmp_path: Path) -> None:
    plain, keyed = DecisionLog(tmp_path), DecisionLog(tmp_path, key=b"k" * 100)
    own = DecisionLog(tmp_path / "own", identify=lambda request: f"r-{len(request.passages)}")
    guarded(own).decide("one", ["good"])

    assert plain.question_id("one") == DecisionLog(tmp_path).question_id("one")
    assert plain.question_id("one") != keyed.question_id("one")
    assert lines_of(tmp_path / "own")[0]["question_id"] == "r-1"


def test_the_policy_that_decides_is_stored_beside_the_lines(tmp_path: Path) -> None:
    guard = guarded(DecisionLog(tmp_path))
    guard.decide("one", ["good"])

    (line,) = lines_of(tmp_path)
    path = tmp_path / f"policy-{line['policy']}.json"
    assert Policy.load(path) == guard.policy
    text = guard.policy.to_json().encode()
    assert line["policy"] == hashlib.sha256(text).hexdigest()[:12]


def test_a_full_file_is_followed_by_another_and_the_oldest_go(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, max_bytes=1, max_files=3)
    guard = guarded(log)
    for number in range(7):
        guard.decide(f"question {number}", ["good"])

    found = [line["question_id"] for line in lines_of(tmp_path)]
    assert found == [log.question_id(f"question {number}") for number in (4, 5, 6)]
    assert log.written == 7


def test_a_file_that_somebody_removed_is_followed_by_another(tmp_path: Path) -> None:
    guard = guarded(DecisionLog(tmp_path / "log"))
    guard.decide("one", ["good"])
    for path in (tmp_path / "log").iterdir():
        path.unlink()
    (tmp_path / "log").rmdir()
    guard.decide("two", ["good"])

    assert len(lines_of(tmp_path / "log")) == 1
    assert len(list((tmp_path / "log").glob("policy-*.json"))) == 1


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, max_bytes=4_000)
    guard = guarded(log)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: guard.decide(f"q {number}", ["good"]), range(200)))

    assert len({line["question_id"] for line in lines_of(tmp_path)}) == 200
    assert (log.written, log.lost) == (200, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_writes_a_file_of_its_own(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from knowgate.guard import DecisionLog, Guard, Policy\n"
        "from knowgate.guard.testing import FakeScorer\n"
        "scorer = FakeScorer(default=0.9)\n"
        "log = DecisionLog(sys.argv[1])\n"
        "policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)\n"
        "guard = Guard(policy, scorer=scorer, metrics=False, observers=[log])\n"
        "guard.decide('before', ['x'])\n"
        "child = os.fork()\n"
        "guard.decide('child' if child == 0 else 'parent', ['x'])\n"
        "if child == 0: os._exit(0 if log.written == 1 else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment)

    files = {path: len(path.read_text().splitlines()) for path in tmp_path.glob("*.jsonl")}
    assert sorted(files.values()) == [1, 2]
    assert len(lines_of(tmp_path)) == 3


def broken_write(*_: object) -> int:
    raise OSError(28, "No space left on device")


def half_write(real: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    return lambda file, raw: real(file, raw[: len(raw) // 2])


@pytest.mark.parametrize("fault", ["full", "half", "open"])
def test_a_disk_that_fails_costs_no_decision_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    log, registry = DecisionLog(tmp_path), CollectorRegistry()
    metrics = GuardMetrics.on(registry)
    scorer = FakeScorer(default=0.9)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    guard = Guard(policy, scorer=scorer, observers=[log], metrics=metrics)
    guard.decide("before", ["good"])
    log.close()

    with monkeypatch.context() as broken:
        name = "open" if fault == "open" else "write"
        fake: Any = half_write(os.write) if fault == "half" else broken_write
        broken.setattr(f"knowgate.guard._observers.os.{name}", fake)
        during = [guard.decide(f"q {number}", ["good"]) for number in range(3)]
    guard.decide("after", ["good"])
    guard.decide("last", ["good"])

    assert [one.route for one in during] == 3 * [Route.FOLLOW_CONTEXT]
    assert (log.written, log.lost) == (3, 3)
    assert b'knowgate_observer_errors_total{guard="default"} 3.0' in generate_latest(registry)
    files = sorted(tmp_path.glob("*.jsonl"))
    whole = [
        json.loads(line)
        for path in files
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]
    assert [line.get("lost") for line in whole] == [None, 3, None]


def test_an_id_that_cannot_be_made_costs_no_decision(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, identify=lambda request: str(1 // (len(request.passages) - 1)))

    assert guarded(log).decide("one", ["good"]).route is Route.FOLLOW_CONTEXT
    assert (log.written, log.lost) == (0, 1)
