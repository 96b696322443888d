"""Guards from their policies, and the one that looks at the premise alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard import InputError, LanguageModelError, Policy, Reason, Route
from knowgate.guard.files import write_text
from knowgate.guard.signals.confidence import load_estimator
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.graph.items import Answerability, UaqItem
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
from knowgate.offline_eval.suites.uaqfact._scoring import score_run
from knowgate.offline_eval.systems.guards import GuardChoice
from tests.offline_eval.data.graph.layout_questions import AB, UA, item, small_set
from tests.offline_eval.suites.uaqfact.runs import read_uaqfact_run, run_uaqfact


def saved(path: Path, policy: Policy) -> Path:
    write_text(path, policy.model_dump_json())
    return path


@pytest.fixture
def lexical(tmp_path: Path) -> Path:
    policy = Policy(scorer=load_scorer("lexical").fingerprint, relevance_threshold=0.99)
    return saved(tmp_path / "policy.json", policy)


def from_memory(path: Path, lm: ScriptedLanguageModel) -> Path:
    policy = Policy(
        scorer=load_scorer("lexical").fingerprint,
        estimator=load_estimator("sampled_consistency", lm).fingerprint,
        relevance_threshold=0.99,
        confidence_threshold=0.5,
        allowed_routes=(Route.ANSWER, Route.ABSTAIN),
    )
    return saved(path, policy)


def test_a_policy_may_ask_how_sure_the_model_under_test_is(tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(default="Ann Li")
    path = from_memory(tmp_path / "sure.json", lm)
    guard = GuardChoice.load_guards([path], lm)["sure"][0]
    assert guard.decide("Who is it?", ["Nothing."]).route is Route.ANSWER
    with pytest.raises(InputError, match="log cannot be asked"):
        GuardChoice.load_guards([path], None)


def test_a_signal_that_fails_is_a_failure_and_no_abstention(tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(error=LanguageModelError("down"))
    path = from_memory(tmp_path / "sure.json", lm)
    folder = write_layout(small_set(), tmp_path / "set")
    run = run_uaqfact(
        lm,
        folder,
        tmp_path / "run",
        tasks=(3,),
        guards={name: one for name, (one, _) in GuardChoice.load_guards([path], lm).items()},
    )
    guarded = [row for row in read_uaqfact_run(run).rows if row.system == "sure"]
    assert guarded
    assert all(row.error is not None and row.response is None for row in guarded)


def asked(kind: Answerability, mother: str) -> UaqItem:
    return item(
        f"inter_0_{kind.value}",
        kind,
        question="Who leads Rill and is also the mother of Ann Lund?",
        answer=mother,
        steps=(("Who leads Rill?", "Bo Rask"), ("The mother of Ann Lund is?", mother)),
    )


def test_it_declines_what_has_no_answer_and_nothing_else(tmp_path: Path) -> None:
    questions = (asked(UA, "Mary Lund"), asked(AB, "Bo Rask"))
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
        (line["system"], line["form"]): (line["r_ua"].value, line["r_ab"].value)
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
