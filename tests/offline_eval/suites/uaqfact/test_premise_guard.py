"""The guard that looks at the premise alone, in front of a model that never declines."""

from __future__ import annotations

from pathlib import Path

from knowgate.guard import Reason
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.graph.items import Answerability, UaqItem
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
from knowgate.offline_eval.suites.uaqfact._scoring import score_run
from knowgate.offline_eval.systems.guards import GuardChoice
from tests.offline_eval.data.graph.layout_questions import AB, UA, item
from tests.offline_eval.suites.uaqfact.runs import read_uaqfact_run, run_uaqfact


def asked(kind: Answerability, mother: str) -> UaqItem:
    return item(
        f"inter_0_{kind.value}",
        kind,
        question="Who leads Rill and is also the mother of Ann Lund?",
        answer=mother,
        steps=(("Who leads Rill?", "Bo Rask"), ("The mother of Ann Lund is?", mother)),
    )


def test_it_declines_what_has_no_answer_and_nothing_else(tmp_path: Path) -> None:
    questions = (
        asked(UA, "Mary Lund"),
        asked(AB, "Bo Rask"),
    )
    folder = write_layout(UaqData(questions), tmp_path / "set")
    run = run_uaqfact(
        ScriptedLanguageModel(default="Bo Rask"),
        folder,
        tmp_path / "run",
        tasks=(1, 3),
        guards={name: one for name, (one, _) in GuardChoice.load_guards(["premise"], None).items()},
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
    guard = GuardChoice.load_guards(["premise"], None)["premise"][0]
    decision = guard.decide("完全不相关的问题？", ["Nothing of use."])

    assert decision.reason is Reason.SUFFICIENT_CONTEXT
    assert decision.kept == (0,)
