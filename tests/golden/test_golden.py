"""Every scenario leaves what it left when the golden artefacts were stored."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.golden.golden import MOST_SHOWN, Scenario, check, differences, renamed
from tests.golden.renamed import Rename
from tests.golden.scenarios import SCENARIOS


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.slow else [])
        for one in SCENARIOS
    ],
)
def test_a_scenario_leaves_what_it_left(scenario: Scenario) -> None:
    if scenario.name == "uniknow" and version("transformers").startswith("4."):
        pytest.skip("keys hold the rules of a tokenizer as transformers 5 writes them")
    found = check(scenario)

    assert not found, "\n".join([*found[:MOST_SHOWN], f"{len(found)} differences"])


def test_numbers_may_differ_by_the_tolerance_and_by_no_more() -> None:
    expected = {"files": {"a.json": {"rate": 0.5, "n": [1, 2], "ok": True}}}

    assert not list(differences(expected, {"files": {"a.json": {**_NEAR, "ok": True}}}))
    assert list(differences(expected, {"files": {"a.json": {**_NEAR, "rate": 0.51, "ok": 1}}})) == [
        "/files/a.json/rate: 0.51 in place of 0.5",
        "/files/a.json/ok: 1 in place of true",
    ]


def test_a_line_may_be_typed_differently_but_must_end_alike() -> None:
    step = {"line": "report run", "code": 0}

    found = differences({"steps": [step]}, {"steps": [{"line": "show run", "code": 2}]})

    assert list(found) == ["/steps/0/code: 2 in place of 0"]


def test_what_was_renamed_is_expected_under_its_new_name() -> None:
    expected = {
        "steps": [],
        "files": {"run/a.json": {"old": "knowgate.guard.x", "gone": 1}, "b.json": {"old": 2}},
    }
    table = (
        Rename("key", "old", "new", within="run/*"),
        Rename("key", "gone", None),
        Rename("text", "knowgate.guard.", "knowgate.core."),
        Rename("file", "run/a.json", "run/c.json"),
        Rename("file", "b.json", None, scenario="other"),
    )

    assert renamed(expected, "any", table)["files"] == {
        "run/c.json": {"new": "knowgate.core.x"},
        "b.json": {"old": 2},
    }


_NEAR = {"rate": 0.5 + 1e-8, "n": [1.0, 2]}
