"""The report of a run of the conflict suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from knowgate.guard import Decision, LanguageModelError, Reason, Route
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.report.document import Document
from knowgate.offline_eval.suites import read_suite_run, write_report
from knowgate.offline_eval.suites.conflict._suite import ConflictSettings
from tests.offline_eval.suites.conflict.questions import ScoringModel, run_conflict, small_set
from tests.support.report_page import Page

HOSTILE = "<script>alert(1)</script> | **x** \u202e"


class Remover:
    """A guard that always answers from memory."""

    def decide(self, question: str, passages: Sequence[str]) -> Decision:
        return Decision(route=Route.ANSWER, reason=Reason.CONFIDENT_MEMORY)


def hostile_set() -> list[object]:
    return [
        replace(
            item,
            question=f"{HOSTILE} {item.question}",
            answers=tuple(
                replace(answer, passages=tuple(f"{HOSTILE} {p}" for p in answer.passages))
                for answer in item.answers
            ),
            distractors=(f"Cy {HOSTILE}", "Di"),
        )
        for item in small_set(4)
    ]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_conflict(
        ScriptedLanguageModel(default=f"{HOSTILE}\nAnswer: (A)"),
        hostile_set(),  # type: ignore[arg-type]
        tmp_path / "run",
        guards={f"own {HOSTILE}": Remover()},
        quirks=(f"odd {HOSTILE}",),
    )


def conflict_report(out: Path) -> Document:
    run = read_suite_run(out)
    return run.suite.report(run.suite.score(run))


def _page_text(out: Path) -> str:
    return Page(write_report(out).html.read_text(encoding="utf-8")).text


def _markdown(out: Path) -> str:
    return write_report(out).markdown.read_text(encoding="utf-8")


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
    assert "\u202e" not in paths.html.read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_a_guard_decided_is_told_apart_from_removing_always(tmp_path: Path) -> None:
    guards = {"mine": Remover()}
    out = run_conflict(ScoringModel(), small_set(8), tmp_path / "run", guards=guards)
    report = conflict_report(out)
    text = _page_text(out)
    for said in (text, _markdown(out)):
        assert "The guard mine removes the passage in 8 of 8 cases and abstains in 0" in said
        assert "not what any guard decided" in said
        assert "What the guards decided" in said
    counts = {"follow_context": 0, "answer": 8, "abstain": 0}
    assert report.values["guard_routes"]["mine"]["HPC"] == counts


def test_a_guards_copies_of_rows_count_once(tmp_path: Path) -> None:
    class Keeper:
        def decide(self, question: str, passages: Sequence[str]) -> Decision:
            return Decision(route=Route.FOLLOW_CONTEXT, reason=Reason.SUFFICIENT_CONTEXT)

    guards = {"keeper": Keeper()}
    lm = ScriptedLanguageModel(error=LanguageModelError("down"))
    settings = ConflictSettings(tasks=("PK",), kinds=("NC", "HPC"))
    out = run_conflict(lm, small_set(2), tmp_path / "run", guards=guards, settings=settings)
    found = conflict_report(out).values
    assert found["rows"] == 2 * (2 + 2 + 2)
    assert found["failures"] == {"LanguageModelError": 2 * (2 + 2)}
