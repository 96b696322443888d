"""Runs of the suite: what is asked and left out, failures, and a chat model on real text."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.adapters.langchain import ChatLimits, ChatModelLM
from knowgate.guard import InputError
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.run.manifest import Manifest
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.parts import RunOptions, System
from knowgate.offline_eval.suites.uniknow._suite import Parts, UniKnowSettings, UniKnowSuite
from knowgate.offline_eval.testbed.check import microworld_model_path
from tests.adapters.langchain.fakes import TalkingModel
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords
from tests.offline_eval.suites.uniknow.small_run import small_run, stored_run


@pytest.fixture(scope="module")
def lm() -> HuggingFaceLM:
    return HuggingFaceLM(microworld_model_path(), max_new_tokens=16, device="cpu")


def test_training_without_anything_to_train_on_is_refused_before_any_row(
    tmp_path: Path, lm: HuggingFaceLM
) -> None:
    with pytest.raises(InputError, match="kaft: training needs questions"):
        small_run(tmp_path / "run", lm, limit=2, methods=("naive", "kaft"))

    assert not (tmp_path / "run" / "rows.jsonl").exists()


def test_kinds_beyond_the_paper_are_asked_too(tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(default="Rome")
    run = stored_run(small_run(tmp_path / "run", lm, methods=("naive",), limit=6, beyond=True))

    assert {row.context_kind for row in run.rows} == {
        "original",
        "conflicting",
        "random",
        "retrieved",
        "one_of_k",
        "two_in_conflict",
        "none_of_k",
        "untrue",
    }


# -- failures ----------------------------------------------------------------------------


def test_a_model_that_fails_leaves_rows_with_errors_and_the_run_ends(tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(default="Rome", fails_after=400)

    run = stored_run(small_run(tmp_path / "run", lm, methods=("all",), limit=40))

    assert run.finished
    errors = [row.error for row in run.rows if row.error]
    assert errors
    assert set(errors) <= {
        "LanguageModelError: the script ends here",
        "SignalError: confidence could not be measured",
    }
    assert not any(row.right for row in run.rows if row.error)


def test_failed_rows_are_asked_again_on_request(tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(default="Rome", fails_after=400)
    run = small_run(tmp_path / "run", lm, methods=("naive", "prompting"), limit=40)
    before = stored_run(run).rows
    assert any(row.error for row in before)

    lm = ScriptedLanguageModel(default="Rome")
    small_run(run, lm, RunOptions(retry_failed=True), methods=("naive", "prompting"), limit=40)

    after = stored_run(run).rows
    assert sorted(row.case_id for row in after) == sorted(row.case_id for row in before)
    assert not any(row.error for row in after)


def test_settings_of_training_do_not_bind_a_run_that_trains_nothing(tmp_path: Path) -> None:
    run = small_run(tmp_path, ScriptedLanguageModel(default="Rome"), methods=("naive",), limit=2)
    again = ScriptedLanguageModel(default="Rome")

    small_run(run, again, methods=("naive",), limit=2, training_steps=3, learning_rate=0.1)

    assert again.calls == 0
    assert not {"training_steps", "learning_rate"} & set(Manifest.read_raw(run)["settings"])


# -- a chat model on real text -----------------------------------------------------------


class _Reader:
    """Replies with the last capitalised word before the question; now and then it is down."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, prompt: str) -> AIMessage | str:
        self.calls += 1
        if self.calls % 9 == 0:
            raise ConnectionError("reset by peer")
        if "Context:" not in prompt:
            return "Denver" if len(prompt) % 2 else f"guess {self.calls % 7}"
        words = [word.strip(".,()") for word in prompt.partition("Question:")[0].split()]
        return next((word for word in reversed(words) if word[:1].isupper()), "unknown")


def test_a_chat_model_runs_on_xquad_with_failures_and_resume(
    shared_data: Path, tmp_path: Path
) -> None:
    source = shared_data / "xquad" / "xquad.en.even.json"

    def go(reader: _Reader, out: Path) -> Path:
        chat = ChatModelLM(
            TalkingModel(speak=reader), limits=ChatLimits(max_attempts=1, max_concurrency=1)
        )
        return run_suite(
            UniKnowSuite(Parts(scorer=LexicalScorer(), encoder=BagOfWords())),
            UniKnowSettings(data=str(source), limit=24),
            out,
            [System("model", chat)],
        ).folder

    reader = _Reader()
    run = go(reader, tmp_path / "run")
    asked = reader.calls
    whole = (run / "rows.jsonl").read_bytes()
    found = stored_run(run)

    assert found.manifest.methods == ("naive", "prompting", "guard_naive")
    assert set(Manifest.read_raw(run)["left_out"]) >= {"coiecd", "kaft", "guard_coiecd"}
    assert found.finished
    assert {row.error is None for row in found.rows} == {True, False}

    lines = whole.splitlines(keepends=True)
    kept = len(lines) // 2
    (run / "rows.jsonl").write_bytes(b"".join(lines[:kept]) + lines[kept][:30])
    resumed = _Reader()
    go(resumed, tmp_path / "run")

    # What stands in rows or signals is not asked again; prompting's second half is.
    assert (run / "rows.jsonl").read_bytes().startswith(b"".join(lines[:kept]))
    assert len((run / "rows.jsonl").read_bytes().splitlines()) == len(lines)
    assert resumed.calls < asked / 4


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
