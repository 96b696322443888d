"""The guard that looks at the premise alone, in front of a model that never declines."""

from __future__ import annotations

from pathlib import Path

from knowgate.guard import Reason
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.uaqfact import (
    Answer,
    Answerability,
    Clue,
    QuestionType,
    UaqData,
    UaqItem,
    write_layout,
)
from knowgate.offline_eval.suites.uaqfact._scoring import score_run
from knowgate.offline_eval.systems import GuardChoice
from tests.offline_eval.suites.uaqfact.runs import read_uaqfact_run, run_uaqfact

LEADER = Clue("Who leads Rill?", ("Bo Rask",))


def asked(kind: Answerability, mother: str) -> UaqItem:
    answers = (Answer("Q1", mother),) if kind is Answerability.ANSWERABLE else ()
    return UaqItem(
        f"inter_0_{kind.value}",
        "en",
        QuestionType.INTER,
        kind,
        "Who leads Rill and is also the mother of Ann Lund?",
        answers,
        clues=(LEADER, Clue("The mother of Ann Lund is?", (mother,))),
    )


def test_it_declines_what_has_no_answer_and_nothing_else(tmp_path: Path) -> None:
    questions = (
        asked(Answerability.UNANSWERABLE, "Mary Lund"),
        asked(Answerability.ANSWERABLE, "Bo Rask"),
    )
    folder = write_layout(UaqData(questions), tmp_path / "set")
    run = run_uaqfact(
        ScriptedLanguageModel(default="Bo Rask"),
        folder,
        tmp_path / "run",
        tasks=(1, 3),
        guards=GuardChoice.load_guards(["premise"], None).guards,
    )

    read = read_uaqfact_run(run)
    rates = {
        (line.system, line.form): (line.metrics.r_ua.value, line.metrics.r_ab.value)
        for line in score_run(read)
    }
    assert rates["model", "clue"] == (0.0, 0.0)
    assert rates["premise", "clue"] == (1.0, 0.0)
    [declined] = [row for row in read.rows if row.reason == Reason.FALSE_PREMISE]
    assert "ua" in declined.key


def test_it_follows_every_context_whose_premise_it_cannot_fault() -> None:
    guard = GuardChoice.load_guards(["premise"], None).guards["premise"]
    decision = guard.decide("完全不相关的问题？", ["Nothing of use."])

    assert decision.reason is Reason.SUFFICIENT_CONTEXT
    assert decision.kept == (0,)
