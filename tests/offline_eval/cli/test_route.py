"""`knowgate route`: a replay decides as the guard does."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Fingerprint, Guard, GuardOptions, Policy, Route
from knowgate.guard.contracts import View
from knowgate.guard.testing import FakeConflictDetector, FakeEstimator, FakeScorer
from tests.offline_eval.cli.commands import Knowgate, Outcome, read_lines, refused, write_lines
from tests.support.paths import ROOT

_ALL = (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN)


class _FailingDetector(FakeConflictDetector):
    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        raise RuntimeError("no idea")


# Passages and memory all say something else: a conflict of every kind.
_ALL_DIFFER = (View("one", (0,)), View("two", (0,)), View("three", (), from_memory=True))


_CONFLICTS: list[tuple[Any, Any]] = [
    (None, "abstain"),
    ("memory", "abstain"),
    ("memory", "follow_context"),
    ("passages", "show_both"),
    ("both", "abstain"),
]


def _policies() -> list[Policy]:
    return [
        Policy(
            scorer=Fingerprint(kind="fake"),
            relevance_threshold=tau_r,
            confidence_threshold=tau_p,
            allowed_routes=routes,
            check_conflict=between is not None and (tau_p is not None or between == "passages"),
            conflict_between=between or "memory",
            on_conflict=on_conflict,
        )
        for tau_r, tau_p, routes, (between, on_conflict) in itertools.product(
            (None, 0.0, 0.5), (None, 0.5, 1.0), (_ALL, _ALL[::2]), _CONFLICTS
        )
    ]  # fmt: skip


def _signals(seed: int, count: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    values = [None, math.nan, math.inf, -math.inf, 0, 1, 0.0, 0.5, 1.0, -0.0]
    return [
        {
            "id": i,
            "relevance": rng.choice([*values, rng.random()]),
            "confidence": rng.choice([*values, rng.random()]),
            "conflict": rng.choice([None, True, False]),
            "nothing_retrieved": rng.random() < 0.1,
        }
        for i in range(count)
    ]


def _guarded(policy: Policy, line: dict[str, Any]) -> dict[str, Any]:
    """What a guard decides that measures these very signals."""

    def number(name: str) -> float:
        return math.nan if line[name] is None else float(line[name])

    confidence = number("confidence")
    guard = Guard(
        policy,
        scorer=FakeScorer(default=number("relevance")),
        estimator=FakeEstimator(
            default=confidence,
            error=None if math.isfinite(confidence) else RuntimeError("no idea"),
        ),
        conflict_detector=(
            _FailingDetector()
            if line["conflict"] is None
            else FakeConflictDetector(views={"Why?": _ALL_DIFFER if line["conflict"] else ()})
        ),
        options=GuardOptions(deadlines={"relevance": None, "confidence": None, "conflict": None}),
        metrics=False,
    )
    decision = guard.decide("Why?", [] if line["nothing_retrieved"] else ["So."])
    return decision.model_dump(mode="json")


def _route(knowgate: Knowgate, folder: Path) -> Outcome:
    return knowgate(
        "route", "--policy", folder / "policy.json", "--input", folder / "in.jsonl",
        "--output", folder / "out.jsonl",
    )  # fmt: skip


@pytest.mark.slow
def test_a_replay_decides_as_the_guard_does(knowgate: Knowgate, tmp_path: Path) -> None:
    routes = set()
    for seed, policy in enumerate(_policies()):
        policy.save(tmp_path / "policy.json")
        lines = _signals(seed, 25)
        write_lines(tmp_path / "in.jsonl", lines)

        assert _route(knowgate, tmp_path).code == 0

        found = read_lines(tmp_path / "out.jsonl")
        assert [line["id"] for line in found] == list(range(25))
        for line, replayed in zip(lines, found, strict=True):
            expected = _guarded(policy, line)
            for name in ("route", "reason", "scenario", "relevance", "confidence", "conflict",
                         "failed_signals"):  # fmt: skip
                assert replayed[name] == expected[name], (policy, line, name)
        routes |= {line["route"] for line in found}
    assert routes == {"follow_context", "answer", "abstain"}


def test_ids_are_passed_on_as_they_came_and_extra_fields_are_tolerated(
    knowgate: Knowgate, workplace: Path
) -> None:
    ids = ["a", 7, None, "\ud800", {"x": [1]}, "ü\u2028"]
    write_lines(
        workplace / "in.jsonl",
        [{"id": i, "relevance": 0.5, "note": math.nan} for i in ids] + [{"relevance": 1}],
    )

    outcome = _route(knowgate, workplace)

    found = read_lines(workplace / "out.jsonl")
    assert (outcome.code, outcome.err) == (0, "")
    assert [line["id"] for line in found[:-1]] == ids
    assert "id" not in found[-1]


def test_without_passages_relevance_need_not_be_given(knowgate: Knowgate, workplace: Path) -> None:
    write_lines(workplace / "in.jsonl", [{"nothing_retrieved": True}])

    _route(knowgate, workplace)

    found = read_lines(workplace / "out.jsonl")[0]
    assert (found["route"], found["reason"]) == ("abstain", "nothing_retrieved")


def test_no_lines_give_no_lines(knowgate: Knowgate, workplace: Path) -> None:
    (workplace / "in.jsonl").touch()

    outcome = _route(knowgate, workplace)

    assert outcome.code == 0
    assert "0 lines routed" in outcome.out
    assert (workplace / "out.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{}", "'relevance' is missing"),
        ('{"relevance": "0.5"}', "'relevance' must be a number or null"),
        ('{"relevance": true}', "'relevance' must be a number or null"),
        ('{"relevance": 1.01}', "'relevance' is not within [0, 1]"),
        ('{"relevance": -1}', "'relevance' is not within [0, 1]"),
        ('{"relevance": 1' + "0" * 400 + "}", "'relevance' is not within [0, 1]"),
        ('{"relevance": 0.5, "confidence": 7}', "'confidence' is not within [0, 1]"),
        ('{"relevance": 0.5, "conflict": 0}', "'conflict' must be a bool or null"),
        ('{"relevance": 0.5, "nothing_retrieved": null}', "'nothing_retrieved' must be a bool"),
        ('{"relevance": 0.5, "id": {"a": NaN}}', "'id' holds NaN"),
        ("3", "expected a JSON object"),
        ("nope", "broken JSON"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(
    knowgate: Knowgate, workplace: Path, line: str, words: str
) -> None:
    content = '{"relevance": 0.5}\n\n' + line + "\n"
    (workplace / "in.jsonl").write_text(content, encoding="utf-8")

    refused(_route(knowgate, workplace), "in.jsonl:3: ", words)

    assert not (workplace / "out.jsonl").exists()
    assert (workplace / "in.jsonl").read_text(encoding="utf-8") == content


# A limit on the size of a file stands for the full disk, in a process of its own.
_FULL_DISK = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
runpy.run_module("knowgate", run_name="__main__")
"""


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_what_was_there_stays(workplace: Path) -> None:
    write_lines(workplace / "in.jsonl", [{"relevance": 0.5}] * 400)
    out = workplace / "out.jsonl"
    out.write_text("mine\n", encoding="utf-8")
    before = set(workplace.iterdir())

    done = subprocess.run(
        [
            sys.executable, "-c", _FULL_DISK, "route", "--policy", workplace / "policy.json",
            "--input", workplace / "in.jsonl", "--output", out,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    refused(Outcome(done.returncode, done.stdout, done.stderr), "File too large")
    assert out.read_text(encoding="utf-8") == "mine\n"
    assert set(workplace.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_to_and_not_replaced(knowgate: Knowgate, workplace: Path) -> None:
    # A pipe of the test's own: no device of the machine is put at risk.
    out = workplace / "out.jsonl"
    os.mkfifo(out)
    reader = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_lines(workplace / "in.jsonl", [{"relevance": 0.5}])

        outcome = _route(knowgate, workplace)

        assert outcome.code == 0
        assert out.is_fifo()
        assert json.loads(os.read(reader, 65536))["relevance"] == 0.5
    finally:
        os.close(reader)


def test_a_line_holds_what_signals_can_tell_and_nothing_else(
    tmp_path: Path, knowgate: Knowgate
) -> None:
    Policy(scorer=Fingerprint(kind="fake"), relevance_threshold=0.5).save(tmp_path / "policy.json")
    write_lines(tmp_path / "signals.jsonl", [{"relevance": 0.7}])

    knowgate(
        "route", "--policy", tmp_path / "policy.json", "--input", tmp_path / "signals.jsonl",
        "--output", tmp_path / "decisions.jsonl",
    )  # fmt: skip

    [line] = read_lines(tmp_path / "decisions.jsonl")
    assert list(line) == [
        "route", "reason", "scenario", "relevance", "raw_relevance", "confidence", "conflict",
        "closed_book_answer", "failed_signals", "mode",
    ]  # fmt: skip
