"""The report of a run of UAQFact."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from knowgate.guard import Decision, Reason, Route
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.graph import UaqData, write_layout
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.uaqfact._asking import TASK3_FORMS
from tests.offline_eval.data.graph.layout_questions import small_set
from tests.offline_eval.suites.uaqfact.runs import run_uaqfact
from tests.support.report_page import Page

HOSTILE = "<script>alert(1)</script> | **x** \u202e"


class Closed:
    """A guard that always abstains."""

    def decide(self, question: str, passages: object) -> Decision:
        return Decision(route=Route.ABSTAIN, reason=Reason.INSUFFICIENT_CONTEXT)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    data = small_set()
    hostile = tuple(replace(item, question=f"{HOSTILE} {item.question}") for item in data.items)
    folder = write_layout(
        UaqData(hostile, data.choices, data.examples, data.clue_examples), tmp_path / "set"
    )
    return run_uaqfact(
        ScriptedLanguageModel(default=f"Ann Li {HOSTILE}"),
        folder,
        tmp_path / "run",
        forms=TASK3_FORMS,
        guards={f"closed {HOSTILE}": Closed()},
    )


@pytest.mark.slow
def test_the_numbers_stand_in_the_json(run: Path) -> None:
    paths = write_report(run)
    found = json.loads(paths.json.read_text())
    assert found["suite"] == "uaqfact"
    assert found["r_ua"]["value"] == 0.0
    # The reply names Ann Li, who is right but for the dilemma.
    assert found["accuracy"]["value"] == pytest.approx(2 / 3)
    guarded = [line for line in found["lines"] if line["system"].startswith("closed")]
    assert {line["r_ua"]["value"] for line in guarded if line["type"] == "all"} == {1.0}


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_hostile_text_stays_text(run: Path) -> None:
    paths = write_report(run)
    page = Page(paths.html.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert not page.handlers
    assert len(page.ids) == len(set(page.ids))
    assert not [ref for ref in page.references if not ref.startswith("#")]
    assert "<script>" not in paths.markdown.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_the_same_run_gives_the_same_bytes(run: Path, tmp_path: Path) -> None:
    first, second = (write_report(run, out_dir=tmp_path / name) for name in "ab")
    for name in ("html", "markdown", "json"):
        assert getattr(first, name).read_bytes() == getattr(second, name).read_bytes()


@pytest.mark.slow
def test_a_gate_can_ask_for_its_numbers(run: Path) -> None:
    gates = write_report(run, gates=["accuracy<0.9", "r_ua<0"]).gates
    assert [gate.failed for gate in gates] == [True, False]


def test_an_unfinished_run_says_so(run: Path) -> None:
    path = run / "rows.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    assert "not finished" in write_report(run).markdown.read_text(encoding="utf-8")
