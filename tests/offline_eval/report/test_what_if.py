"""Other thresholds: computed as the guard decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Fingerprint, Guarantee, Policy, Route
from knowgate.offline_eval.report.document import Document
from knowgate.offline_eval.report.what_if import (
    WhatIf,
    WhatIfCase,
    cost_of,
    share,
    what_if_section,
)
from knowgate.offline_eval.report.writing import ReportWriter


def policy(relevance: float | None, confidence: float | None = None, **more: object) -> Policy:
    """A policy whose point counts as certified, without the counts behind it."""
    guarantee = Guarantee.model_construct(
        statement="x", risk=0.1, delta=0.1, certified=True, loss="x", n=1, errors=0
    )
    made = Policy(scorer=Fingerprint(kind="lexical"), relevance_threshold=0.5)
    changes = {
        "relevance_threshold": relevance,
        "confidence_threshold": confidence,
        "allowed_routes": tuple(Route),
        **more,
    }
    return made.model_copy(update={"guarantee": guarantee, **changes})


def case(relevance: float | None, right: bool, **more: Any) -> WhatIfCase:
    return WhatIfCase(relevance, more.pop("confidence", None), right, **more)


def one_sided() -> WhatIf:
    """Four pairs: at the certified 0.5 one leaks and one is falsely abstained from."""
    scores = [(0.9, 0.2), (0.8, 0.6), (0.4, 0.1), (0.7, 0.3)]
    cases = [
        case(score, kind == "in_kb")
        for number, pair in enumerate(scores)
        for kind, score in zip(("in_kb", "left_out"), pair, strict=True)
    ]
    return WhatIf(tuple(cases), policy(0.5), "Held-out test questions", leave_one_out=True)


def two_sided() -> WhatIf:
    """Two thresholds."""
    cases = [
        case(0.9, True, confidence=0.2),
        case(0.3, False, confidence=0.8, memory_right=True),
        case(0.6, False, confidence=0.1),
        case(0.2, True, confidence=0.6),
    ]
    return WhatIf(tuple(cases), policy(0.5, 0.7), "Held-out questions", leave_one_out=False)


def with_replies() -> WhatIf:
    """Four cases with stored replies: at 0.5 two pass, of which one reply is wrong."""
    cases = [
        case(0.9, True, context_reply="right"),
        case(0.4, True, context_reply="abstained"),
        case(0.6, False, context_reply="wrong"),
        case(0.2, False, context_reply="wrong"),
    ]
    return WhatIf(tuple(cases), policy(0.5), "All replies", leave_one_out=True, replies=True)


def write(block: WhatIf, folder: Path) -> Path:
    """The page of a report with this section alone."""
    sections = (what_if_section("What if the threshold were another?", block),)
    document = Document("toy", "Toy report", "toy", ["A line."], [], sections, {})
    return ReportWriter(folder).write(document).html


# ---------------------------------------------------------------- without a browser


def test_a_point_is_counted_as_the_guard_decides() -> None:
    block = one_sided()

    own = block.at(0.5, None)
    assert (own["leak"][0], own["leak"][1]) == (1, 4)
    assert (own["false_abstention"][0], own["false_abstention"][1]) == (1, 4)
    assert share(own["coverage"]) == 0.5
    assert cost_of(own, 10, 1, 0.5) == pytest.approx(0.5 * 0.25 * 10 + 0.5 * 0.25)
    nothing = block.at(None, None)
    assert share(nothing["coverage"]) == 0.0
    assert share(nothing["false_abstention"]) == 1.0
    assert share(nothing["wrong"]) is None


def test_a_missed_retrieval_counts_in_coverage_alone() -> None:
    cases = (case(0.9, False, missed=True), case(0.8, True))
    found = replace(one_sided(), cases=cases).at(0.5, None)

    assert share(found["coverage"]) == 1.0
    assert share(found["leak"]) is None
    assert cost_of(found, 10, 1, 0.5) is None


def test_stored_replies_tell_what_is_wrong_and_what_abstains() -> None:
    block = with_replies()

    own, lax = block.at(0.5, None), block.at(0.2, None)
    assert (own["wrong_missing"][0], own["wrong_there"][0]) == (1, 0)
    assert (own["false_abstention"][0], own["false_abstention"][1]) == (1, 2)
    # Let through, q1 is answered by an abstention: false all the same.
    assert (lax["wrong_missing"][0], lax["false_abstention"][0]) == (2, 1)
    assert cost_of(lax, 10, 1, 0.5) == pytest.approx(0.5 * 10 + 0.5 * 0.5)
    assert cost_of(lax, 10, 1) == pytest.approx((2 * 10 + 1) / 4)


def test_it_is_a_table_that_marks_the_certified_point(tmp_path: Path) -> None:
    path = write(one_sided(), tmp_path)

    text = path.with_suffix(".md").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert text.count("| certified |") == 1
    assert "| 0.5000 ◀ | 25 % | 25 % | 50 % | 137.5 | certified |" in text
    assert "| nothing passes | 0 % | 100 % | 0 % | 50.0 | not certified |" in text


def test_a_policy_without_certificate_is_never_called_certified(tmp_path: Path) -> None:
    rule = policy(0.5)
    assert rule.guarantee is not None
    uncertified = rule.guarantee.model_copy(update={"certified": False})
    blocks = [
        replace(one_sided(), policy=rule.model_copy(update={"guarantee": None})),
        replace(
            one_sided(),
            policy=rule.model_copy(update={"guarantee": uncertified, "relevance_threshold": None}),
        ),
    ]
    for block in blocks:
        text = write(block, tmp_path).with_suffix(".md").read_text(encoding="utf-8")
        assert "| certified |" not in text
        assert "No threshold shown here is certified" in text
