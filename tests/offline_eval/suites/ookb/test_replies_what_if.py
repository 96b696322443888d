"""Other thresholds for runs of replies: only what the stored rows determine is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Fingerprint, Policy, Route
from knowgate.offline_eval.report.document import Section
from knowgate.offline_eval.report.what_if import WhatIf
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplySystem
from knowgate.offline_eval.suites.ookb._replies_summary import RepliesSummary
from knowgate.offline_eval.suites.ookb._replies_what_if import replies_what_if
from knowgate.offline_eval.suites.ookb.replies import Evidence

from .replies_run import Toy, write_replies_run, write_rows

LEXICAL = Fingerprint(kind="lexical")
BARE = ReplySystem(system_id="bare", model="m", prompt="basic", retrieval="basic_rag")
CLOSED = BARE.model_copy(update={"system_id": "closed", "retrieval": "direct"})
GUARDED = BARE.model_copy(update={"system_id": "guarded", "guard": "gate", "guard_sha256": "0"})
FOLLOWS = Policy(scorer=LEXICAL, relevance_threshold=0.5)
BOTH = FOLLOWS.model_copy(update={"confidence_threshold": 0.6, "allowed_routes": tuple(Route)})

# Name, kind, relevance, confidence, verdicts without a guard, with it, and from memory.
CASES: list[tuple[str, CaseKind, float, float | None, str, str, str]] = [
    ("q0", CaseKind.IN_KB, 0.9, None, "1", "1", "1"),
    ("q1", CaseKind.IN_KB, 0.4, 0.2, "1", "yes", "3"),
    ("q2", CaseKind.LEFT_OUT, 0.6, None, "3", "3", "3"),
    ("q3", CaseKind.LEFT_OUT, 0.3, 0.7, "yes", "yes", "1"),
    ("q4", CaseKind.LEFT_OUT, 0.1, 0.1, "3", "yes", "3"),
]


def written(
    folder: Path,
    policy: Policy | None = FOLLOWS,
    systems: tuple[ReplySystem, ...] = (BARE, GUARDED),
    **changed: Mapping[str, Any],
) -> Path:
    """A run of `CASES`; `changed` are fields of guarded rows by name of the question."""
    toys = [
        Toy(name, {"bare": bare, "guarded": own, "closed": memory}, kind)
        for name, kind, _, _, bare, own, memory in CASES
    ]
    write_replies_run(folder, toys, systems)
    signals = {name: (relevance, confidence) for name, _, relevance, confidence, *_ in CASES}
    path = folder / "replies.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        question = row["case_id"].partition("/")[0]
        if row["system_id"] == "closed":
            row["context"] = {"kind": "none", "passages": []}
        if row["system_id"] == "guarded":
            relevance, confidence = signals[question]
            passes = relevance >= 0.5
            asks = policy is not None and policy.may_answer and not passes
            row.update(
                relevance=relevance,
                confidence=confidence if asks else None,
                route="follow_context" if passes else "abstain",
                reason="sufficient_context" if passes else "insufficient_context",
            )
            if asks and (confidence or 0.0) >= 0.6:
                row.update(route="answer", reason="confident_memory")
            row.update(changed.get(question, {}))
    path.unlink()
    write_rows(path, rows)
    if policy is not None:
        stored = {"guard": "gate", "policy": json.loads(policy.to_json())}
        write_rows(folder / "policies.jsonl", [stored])
    return folder


def block_of(folder: Path) -> Any:
    section = replies_what_if(Evidence(folder), {"guarded": "guard gate"})
    assert section is not None
    (part,) = section.blocks
    assert isinstance(part, Section)
    (found,) = part.blocks
    return found


def test_a_reply_at_another_threshold_is_that_of_the_system_without_a_guard(tmp_path: Path) -> None:
    block = block_of(written(tmp_path))

    assert isinstance(block, WhatIf)
    assert block.replies
    own, lax = block.at(0.5, None), block.at(0.1, None)
    assert (own.leak.part, own.leak.whole) == (1, 3)
    assert (own.wrong_missing.part, own.false_abstention.part) == (1, 1)
    # q3 is let through, and the model itself abstains.
    assert (lax.leak.part, lax.wrong_missing.part, lax.false_abstention.part) == (3, 2, 0)


def test_at_the_policys_point_the_figures_are_those_of_the_report(tmp_path: Path) -> None:
    folder = written(tmp_path)
    numbers = RepliesSummary(folder).systems[1].shape()
    assert numbers is not None

    block = block_of(folder)
    own = block.at(0.5, None)
    assert own.wrong_missing.value == numbers.out_of_kb.wrong_answer_rate.value
    assert own.wrong_there.value == numbers.in_kb.wrong_answer_rate.value
    assert own.false_abstention.value == numbers.in_kb.abstention_rate.value


def test_from_memory_only_thresholds_whose_signals_were_measured_can_be_tried(
    tmp_path: Path,
) -> None:
    block = block_of(written(tmp_path, BOTH, (BARE, CLOSED, GUARDED)))

    assert isinstance(block, WhatIf)
    assert block.replies
    assert block.stops("relevance") == [0.1, 0.3, 0.4, 0.5]
    assert block.stops("confidence") == [0.1, 0.2, 0.6, 0.7, None]
    assert block.at(0.5, 0.1).wrong_missing.part == 2  # q2 as before, q4 from memory
    assert any("confidence was not measured" in line for line in block.intro)


@pytest.mark.parametrize(
    ("policy", "systems", "why"),
    [
        (FOLLOWS, (GUARDED,), "same system without a guard"),
        (BOTH, (BARE, GUARDED), "without passages"),
        (FOLLOWS.model_copy(update={"kept_margin": 0.1}), (BARE, GUARDED), "removes passages"),
    ],
    ids=["no_twin", "no_memory", "removes"],
)
def test_without_the_replies_only_what_the_guard_does_is_shown(
    tmp_path: Path, policy: Policy, systems: tuple[ReplySystem, ...], why: str
) -> None:
    block = block_of(written(tmp_path, policy, systems))

    assert isinstance(block, WhatIf)
    assert not block.replies
    assert "wrong_missing" not in block.measures
    assert block.at(0.1, None).leak.value == 1.0
    assert any(why in line for line in block.intro)


def test_a_veto_holds_at_every_threshold(tmp_path: Path) -> None:
    block = block_of(written(tmp_path, q0={"route": "abstain", "reason": "false_premise"}))

    assert isinstance(block, WhatIf)
    assert block.at(0.1, None).coverage.part == 4
