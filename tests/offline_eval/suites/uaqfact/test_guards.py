"""Guards from their policies, in front of a model under test."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard import InputError, LanguageModelError, Policy, Route
from knowgate.guard.files import write_text
from knowgate.guard.signals.confidence import load_estimator
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.graph.layout import write_layout
from knowgate.offline_eval.systems.guards import GuardChoice
from tests.offline_eval.data.graph.layout_questions import small_set
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
