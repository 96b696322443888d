"""Runs of the suite: what is asked and left out, failures, and a chat model on real text."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import InputError
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.run.manifest import Manifest
from knowgate.offline_eval.suites.uniknow._suite import Parts
from knowgate.offline_eval.testbed.check import microworld_model_path
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords
from tests.offline_eval.suites.uniknow.small_run import small_run


@pytest.fixture(scope="module")
def lm() -> HuggingFaceLM:
    return HuggingFaceLM(microworld_model_path(), max_new_tokens=16, device="cpu")


def test_training_without_anything_to_train_on_is_refused_before_any_row(
    tmp_path: Path, lm: HuggingFaceLM
) -> None:
    with pytest.raises(InputError, match="kaft: training needs questions"):
        small_run(tmp_path / "run", lm, limit=2, methods=("naive", "kaft"))

    assert not (tmp_path / "run" / "rows.jsonl").exists()


def test_settings_of_training_do_not_bind_a_run_that_trains_nothing(tmp_path: Path) -> None:
    run = small_run(tmp_path, ScriptedLanguageModel(default="Rome"), methods=("naive",), limit=2)
    again = ScriptedLanguageModel(default="Rome")

    small_run(run, again, methods=("naive",), limit=2, training_steps=3, learning_rate=0.1)

    assert again.calls == 0
    assert not {"training_steps", "learning_rate"} & set(Manifest.read_raw(run)["settings"])


class _Tuned(LexicalScorer):
    def tuned_on(self, question: str) -> bool:
        return True


def test_a_scorer_that_was_tuned_on_these_questions_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was tuned on 24 of these questions"):
        small_run(
            tmp_path / "run",
            ScriptedLanguageModel(default="x"),
            parts=Parts(scorer=_Tuned(), encoder=BagOfWords()),
            methods=("naive", "guard_naive"),
        )
    assert not (tmp_path / "run").exists()
