"""The report of a run of UAQFact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from knowgate.guard import Decision, Reason, Route
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
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
@pytest.mark.usefixtures("whole_plots")
def test_hostile_text_stays_text(run: Path) -> None:
    paths = write_report(run)
    page = Page(paths.html.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert not page.handlers
    assert len(page.ids) == len(set(page.ids))
    assert not [ref for ref in page.references if not ref.startswith("#")]
    assert "<script>" not in paths.markdown.read_text(encoding="utf-8")
