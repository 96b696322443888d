"""Every scenario leaves what it left when the golden artefacts were stored."""

from __future__ import annotations

import pytest

from tests.golden.golden import MOST_SHOWN, Scenario, check
from tests.golden.scenarios import SCENARIOS


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.slow else [])
        for one in SCENARIOS
    ],
)
def test_a_scenario_leaves_what_it_left(scenario: Scenario) -> None:
    found = check(scenario)

    assert not found, "\n".join([*found[:MOST_SHOWN], f"{len(found)} differences"])
