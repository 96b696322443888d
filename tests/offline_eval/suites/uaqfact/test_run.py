"""Running the suite: every form, resumed, replayed, guarded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import Decision, LanguageModelError, Reason, Route
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
from knowgate.offline_eval.run.table import TableSpec
from knowgate.offline_eval.suites.parts import MODEL_SYSTEM
from knowgate.offline_eval.suites.uaqfact._asking import (
    TASK3_FORMS,
    UaqRow,
    clue_facts,
    fact_retriever,
)
from knowgate.offline_eval.suites.uaqfact._scoring import score_choices, score_run
from tests.offline_eval.data.graph.layout_questions import small_set
from tests.offline_eval.suites.uaqfact.runs import read_uaqfact_run, run_uaqfact

ALL_FORMS: dict[str, Any] = {"forms": TASK3_FORMS}


class ScoringModel(ScriptedLanguageModel):
    """Says `##None##`, and finds the second option the likeliest."""

    def score_options(self, prompts: Sequence[str], options: Sequence[str]) -> NDArray[np.float64]:
        return np.tile(np.arange(len(options)) == 1, (len(prompts), 1)).astype(np.float64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_layout(small_set(), tmp_path / "set")


def rows(run: Path) -> list[UaqRow]:
    return TableSpec("rows", UaqRow, "row_id").read(run)


@pytest.mark.slow
def test_every_question_is_put_in_every_form(folder: Path, tmp_path: Path) -> None:
    lm = ScoringModel(default="##None##")
    run = run_uaqfact(lm, folder, tmp_path / "run", **ALL_FORMS)
    found = rows(run)
    assert len(found) == 6 + 3 + 3 * 6 == read_uaqfact_run(run).manifest.rows
    assert {row.form for row in found} == {"question", "choice", *TASK3_FORMS}
    assert all(row.response == "##None##" for row in found if row.form != "choice")
    assert all(row.right for row in found if row.form == "choice")
    line = score_run(read_uaqfact_run(run))[0]
    assert line["r_ua"].value == line["r_ab"].value == 1.0
    assert line["kpr"].value == 1.0
    assert line["krr"].value == 0.5


def test_prompts_hold_what_their_form_promises(folder: Path, tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(default="A")
    run_uaqfact(lm, folder, tmp_path / "run", **ALL_FORMS)
    joined = "\n=====\n".join(lm.prompts)
    assert "Q: Who inter?\nA: ##None##" in joined  # an example
    assert "(B) 1991" in joined
    assert "For the second: Who is mayor? Cy, Di." in joined
    assert "- When did it begin? 1990" in joined


def test_a_model_without_likelihoods_is_asked_for_a_letter(folder: Path, tmp_path: Path) -> None:
    lm = ScriptedLanguageModel({"(A)": "The answer is (B)."}, default="Ann Li")
    run = run_uaqfact(lm, folder, tmp_path / "run", tasks=(2,))
    assert [row.letter for row in rows(run)] == ["B"] * 3
    assert score_choices(read_uaqfact_run(run))[0]["accuracy"].value == 1.0


class Suspicious:
    """A guard that abstains from questions whose first fact names Ann Li."""

    def decide(self, question: str, passages: Sequence[str]) -> Decision:
        if question == "Who time?":
            raise LanguageModelError("down")
        if "Ann Li" in passages[0]:
            return Decision(route=Route.ABSTAIN, reason=Reason.INSUFFICIENT_CONTEXT)
        return Decision(route=Route.FOLLOW_CONTEXT, reason=Reason.SUFFICIENT_CONTEXT)


def test_a_guard_declines_before_the_model_or_lets_its_reply_through(
    folder: Path, tmp_path: Path
) -> None:
    lm = ScriptedLanguageModel(default="Ann Li")
    guards = {"wary": Suspicious()}
    run = run_uaqfact(lm, folder, tmp_path / "run", guards=guards)
    found = {row.row_id: row for row in rows(run)}
    inter = found["wary/clue/en/inter/ua/inter_ua_1"]
    assert (inter.response, inter.route) == ("##None##", Route.ABSTAIN)
    dilemma = found["wary/clue/en/dilemma/ab/dilemma_ab_1"]
    assert (dilemma.response, dilemma.route) == ("Ann Li", Route.FOLLOW_CONTEXT)
    assert found["wary/clue/en/time/ab/time_ab_1"].error is not None
    alone = ScriptedLanguageModel(default="Ann Li")
    run_uaqfact(alone, folder, tmp_path / "alone")
    assert lm.generated == alone.generated  # none for the guard
    assert {line["system"] for line in score_run(read_uaqfact_run(run))} == {MODEL_SYSTEM, "wary"}


def test_a_limit_keeps_twins_and_their_facts(shared_data: Path, tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(default="A")
    settings: dict[str, Any] = {"limit": 3, "languages": ("en",)}
    run = run_uaqfact(lm, shared_data / "uaqfact", tmp_path / "run", **settings)
    found = rows(run)
    assert sum(row.form == "question" for row in found) == 18
    assert 9 <= sum(row.form == "choice" for row in found) <= 12
    assert score_run(read_uaqfact_run(run))[0]["kpr"].n == 9


class Remembering:
    """A guard that always answers from memory."""

    def decide(self, question: str, passages: Sequence[str]) -> Decision:
        return Decision(route=Route.ANSWER, reason=Reason.CONFIDENT_MEMORY)


def test_an_answer_from_memory_is_what_was_said_without_facts(folder: Path, tmp_path: Path) -> None:
    lm = ScriptedLanguageModel({"Facts:": "from facts"}, default="from memory")
    settings: dict[str, Any] = {"tasks": (1, 3), "forms": ("facts",)}
    guards = {"sure": Remembering()}
    run = run_uaqfact(lm, folder, tmp_path / "run", **settings, guards=guards)
    said = {(row.system, row.form): row.response for row in rows(run)}
    assert said[MODEL_SYSTEM, "facts"] == "from facts"
    assert said["sure", "facts"] == "from memory"


def test_the_facts_behind_a_question_are_mostly_found(shared_data: Path) -> None:
    items = UaqData.read(shared_data / "uaqfact").items
    some = [*items[:70], *items[-70:]]
    together = list(map(fact_retriever(items, 3), some))
    assert all(len(facts) == 3 for facts in together)
    found = sum(
        bool(set(facts) & set(clue_facts(item))) for item, facts in zip(some, together, strict=True)
    )
    assert found > 0.8 * len(some)


class TextScoringModel(ScriptedLanguageModel):
    """Finds the option likeliest per character that holds the year 1991, however long it is."""

    def score_options(self, prompts: Sequence[str], options: Sequence[str]) -> NDArray[np.float64]:
        assert all("(A)" not in prompt for prompt in prompts)
        row = [len(text) * (-0.1 if "1991" in text else -0.5) for text in options]
        return np.array([row] * len(prompts))


def test_a_model_without_letters_chooses_by_the_text(folder: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"tasks": (2,), "choose_by": "text"}
    run = run_uaqfact(TextScoringModel(), folder, tmp_path / "run", **settings)
    assert [row.letter for row in rows(run)] == ["B"] * 3
