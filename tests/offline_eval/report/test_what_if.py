"""Other thresholds in the page: computed as the guard decides, in Python and in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Fingerprint, Guarantee, Policy, Route
from knowgate.offline_eval.report.document import Document, Section
from knowgate.offline_eval.report.text import percent
from knowgate.offline_eval.report.what_if import (
    WhatIf,
    WhatIfCase,
    cost_of,
    share,
    threshold_text,
)
from knowgate.offline_eval.report.writing import ReportWriter
from tests.support.browser import chromium, page_of
from tests.support.report_page import Page

EVIL = (
    "</script><script>alert(1)</script><!--<script> <img src=x onerror=alert(1)> \u202e\u2028\ud800"
)


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


def drawn(rng: random.Random) -> WhatIf:
    """Random cases of every kind, under a random policy."""

    def signal() -> float | None:
        return rng.choice([None, 0.0, 1.0, rng.random(), round(rng.random(), 1)])

    def replied() -> Any:
        return rng.choice(["right", "wrong", "abstained"])

    two = rng.random() < 0.7
    cases = tuple(
        case(
            signal(),
            rng.random() < 0.5,
            name=str(number),
            confidence=signal() if two else None,
            memory_right=two and rng.random() < 0.3,
            conflict=rng.choice([None, True, False]),
            nothing_retrieved=rng.random() < 0.1,
            missed=not two and rng.random() < 0.1,
            weight=rng.choice([1.0, 0.3, 2.7]),
            context_reply=replied(),
            memory_reply=replied(),
        )
        for number in range(rng.randrange(1, 40))
    )
    checks = rng.random() < 0.5
    rule = policy(
        signal(),
        signal(),
        check_conflict=checks,
        conflict_between=rng.choice(["memory", "passages", "both"]) if checks else "memory",
        on_conflict=rng.choice(["abstain", "follow_context", "show_both"]),
        allowed_routes=rng.choice(
            [tuple(Route), (Route.FOLLOW_CONTEXT, Route.ABSTAIN), (Route.ANSWER, Route.ABSTAIN)]
        ),
    )
    stored = rng.random() < 0.5
    return WhatIf(cases, rule, "Drawn cases", leave_one_out=not two, replies=stored)


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
    sections = (Section("What if the threshold were another?", (block,)),)
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


def test_without_scripts_it_is_a_table_that_marks_the_certified_point(tmp_path: Path) -> None:
    path = write(one_sided(), tmp_path)

    assert "details" in Page(path.read_text(encoding="utf-8")).tags
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


def test_the_page_allows_its_own_script_alone(tmp_path: Path) -> None:
    html = write(one_sided(), tmp_path).read_text(encoding="utf-8")

    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode("utf-8")).digest()).decode()
    assert len(scripts) == 1
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'\">" in html
    assert not Page(html).handlers
    assert not re.search(r"url\((?!#)|@import|https?:|\.innerHTML|eval\(", html)


def test_texts_cannot_end_the_data_or_become_markup(tmp_path: Path) -> None:
    block = replace(
        one_sided(), cases=(case(0.9, True, name=EVIL, question=EVIL), case(0.1, False))
    )
    html = write(block, tmp_path).read_text(encoding="utf-8")

    (found,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert html.count("<script") == 2
    assert not set("<>&\u2028\u202e") & set(found)
    assert "<script>alert(1)</script>" in json.loads(found)["names"][0]
    assert "img" not in Page(html).tags


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.slow
def test_the_page_computes_what_python_computes_at_every_threshold(
    browser: Any, tmp_path: Path
) -> None:
    rng = random.Random(22)
    blocks = [drawn(rng) for _ in range(25)]
    asked = []
    for block in blocks:
        pairs = [
            (relevance, confidence)
            for relevance in block.stops("relevance") or [block.policy.relevance_threshold]
            for confidence in block.stops("confidence") or [block.policy.confidence_threshold]
        ]
        asked.append((block, pairs, rng.sample(pairs, min(40, len(pairs)))))
    with page_of(browser) as page:
        page.goto(write(two_sided(), tmp_path).as_uri())
        found = page.evaluate(
            """runs => runs.map(([data, pairs]) => pairs.map(pair => {
                const found = whatIf.measure(data, ...pair);
                return [found, whatIf.cost(found, 7, 2, null), whatIf.cost(found, 7, 2, 0.3)];
            }))""",
            [[json.loads(block.data), pairs] for block, _, pairs in asked],
        )
        shares = [part / whole for whole in range(1, 60) for part in range(whole + 1)]
        shares += [0.0004, 0.0025, 0.0075, 0.9999]
        texts = page.evaluate("shares => shares.map(whatIf.percent)", shares)
        thresholds = page.evaluate(
            "values => values.map(whatIf.thresholdText)", [*shares, -3.5, 12.25, 1 / 32, None]
        )

    for (block, _, pairs), points in zip(asked, found, strict=True):
        for pair, (measures, cost, cost_of_share) in zip(pairs, points, strict=True):
            wanted = block.at(*pair)
            assert measures == {name: list(one) for name, one in wanted.items()}
            assert cost == cost_of(wanted, 7, 2)
            assert cost_of_share == cost_of(wanted, 7, 2, 0.3)
    assert texts == [percent(one) for one in shares]
    assert thresholds == [threshold_text(value) for value in [*shares, -3.5, 12.25, 1 / 32, None]]
