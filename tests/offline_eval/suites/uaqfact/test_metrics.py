"""Rates, KPR and KRR against values worked out by hand and published ones; the report."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knowgate.guard import Decision, Reason, Route
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.uaqfact._asking import TASK3_FORMS
from knowgate.offline_eval.suites.uaqfact._scoring import (
    ScoredReply,
    krr_values,
    passed_questions,
    refusal_metrics,
)
from tests.offline_eval.data.graph.layout_questions import small_set
from tests.offline_eval.suites.uaqfact.runs import run_uaqfact
from tests.support.report_page import Page


def reply(number: int, *, unanswerable: bool, refused: bool, correct: bool = False) -> ScoredReply:
    kind = "ua" if unanswerable else "ab"
    return ScoredReply(
        key=f"{kind}{number}",
        cluster=str(number),
        unanswerable=unanswerable,
        refused=refused,
        correct=None if unanswerable else correct,
    )


REPLIES = [
    *(reply(n, unanswerable=True, refused=n < 6) for n in range(10)),
    *(reply(n, unanswerable=False, refused=n < 2, correct=n >= 5) for n in range(10)),
]


def test_rates_are_worked_out_by_hand() -> None:
    found = refusal_metrics(REPLIES)
    assert (found["r_ua"].value, found["r_ab"].value, found["accuracy"].value) == (0.6, 0.2, 0.5)
    assert found["r_delta"].value == pytest.approx(0.4)
    assert found["kpr"].value is None
    assert found["krr"].value is None


def test_reflected_knowledge_is_worked_out_by_hand() -> None:
    passed = {f"ua{n}": n < 8 for n in range(10)}
    found = refusal_metrics(REPLIES, passed)
    assert found["kpr"].value == 0.8
    assert found["krr"].value == pytest.approx(1 / (1 + math.exp(-0.4 / 0.8)))
    low, high = found["krr"].low, found["krr"].high
    assert low is not None
    assert high is not None
    assert low < 0.622 < high


@pytest.mark.parametrize(
    ("r_delta", "kpr", "krr"),
    # Llama3-8B, Qwen2.5-7B and GPT-4, English, as published.
    [(20.89, 73.11, 57.10), (30.07, 70.57, 60.49), (63.26, 81.80, 68.42)],
)
def test_published_rows_are_reproduced(r_delta: float, kpr: float, krr: float) -> None:
    found = krr_values(np.array([r_delta]), np.array([kpr]))
    assert 100 * found[0] == pytest.approx(krr, abs=0.005)


def test_without_any_known_fact_there_is_no_krr() -> None:
    assert np.isnan(krr_values(np.array([0.2]), np.array([0.0]))).all()
    assert refusal_metrics(REPLIES, {"ua1": False})["krr"].value is None


def test_a_question_passes_when_all_its_facts_are_known() -> None:
    right = {"a": True, "b": True, "c": False}
    links = {"one": ["a", "b"], "two": ["a", "c"], "three": ["a", "not asked"], "four": []}
    assert passed_questions(right, links) == {"one": True, "two": False}


def test_twins_are_resampled_together() -> None:
    twice = [*REPLIES, *(_copied(one) for one in REPLIES)]
    once, doubled = refusal_metrics(REPLIES), refusal_metrics(twice)
    assert doubled["r_delta"].n == once["r_delta"].n == 10
    assert (doubled["r_delta"].low, doubled["r_delta"].high) == pytest.approx(
        (once["r_delta"].low, once["r_delta"].high)
    )


def _copied(one: ScoredReply) -> ScoredReply:
    return replace(one, key=one.key + "'")


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
