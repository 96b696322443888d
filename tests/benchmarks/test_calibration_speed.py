"""`benchmarks/calibration_speed.py`, which is a script and no package."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowgate.guard import Fingerprint, Policy, Route
from tests.support.paths import BENCHMARKS

MODULES = ("calibration_speed", "overhead")


@pytest.fixture(scope="module")
def speed() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("calibration_speed")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in MODULES:
            sys.modules.pop(name, None)


def test_both_sides_are_judged_by_the_routes_of_a_policy(speed: Any) -> None:
    policy = Policy(
        scorer=Fingerprint(kind="none"),
        relevance_threshold=0.6,
        confidence_threshold=0.3,
        allowed_routes=tuple(Route),
    )
    drawn = speed.population(300, 1)

    found = speed.outcome(drawn, 0.6, 0.3)

    right = {Route.FOLLOW_CONTEXT: 2, Route.ANSWER: 3}
    routes = [policy.route(relevance, confidence) for relevance, confidence, *_ in drawn]
    expected = [
        np.nan if route is Route.ABSTAIN else row[right[route]]
        for route, row in zip(routes, drawn, strict=True)
    ]
    assert set(routes) == set(Route)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:No predict parameters")
def test_every_side_is_timed_and_the_ratios_are_written(
    speed: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out.json"
    given = ["--questions", "200", "--rounds", "1", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["calibration_speed", *given])

    speed.main()

    found = json.loads(out.read_text())
    assert "200 questions, 441 pairs" in capsys.readouterr().out
    assert [side["name"].split(",")[0] for side in found["sides"]] == ["knowgate"] * 2 + [
        "MAPIE"
    ] * 2
    assert all(side["seconds"] > 0 for side in found["sides"])
    assert all(side["wrong"] is None or side["wrong"] <= 0.12 for side in found["sides"])
    assert found["learned_ratio"] > 0
    assert found["grid_ratio"] > 0
