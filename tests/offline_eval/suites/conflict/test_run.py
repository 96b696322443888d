"""Running the suite: resumed, replayed, guarded, on the embedded model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from knowgate.guard import Decision, LanguageModelError, Reason, Route
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.suites.conflict._rows import CLOSED_BOOK, REMOVES
from knowgate.offline_eval.suites.conflict._scoring import ConflictRun
from knowgate.offline_eval.suites.conflict._suite import ConflictSettings
from knowgate.offline_eval.suites.conflict.beliefs import conflict_prompts
from knowgate.offline_eval.suites.conflict.evidence import PassageJudge
from knowgate.offline_eval.suites.conflict.items import EvidenceKind, Task
from knowgate.offline_eval.suites.parts import MODEL_SYSTEM

from .questions import TOWNS, ScoringModel, read_conflict_run, run_conflict, small_set

ITEMS = small_set(8)
HPC, LPC, NC = EvidenceKind.HPC, EvidenceKind.LPC, EvidenceKind.NC


def accuracy(run: ConflictRun) -> dict[tuple[Task, EvidenceKind], float | None]:
    found = run.cells.items()
    return {(task, kind): one["accuracy"].value for task, of in found for kind, one in of.items()}


def test_a_model_that_follows_its_context_is_found_out(tmp_path: Path) -> None:
    run = read_conflict_run(run_conflict(ScoringModel(), ITEMS, tmp_path / "run"))
    assert len(run.rows) == len(run.planned_ids) == 8 * (5 * 4 + 2)
    found = accuracy(run)
    assert found[Task.CK, HPC] == found[Task.CK, NC] == found[Task.PK, NC] == 1.0
    assert found[Task.PK, HPC] == 0.0
    told, removed = list(run.suppressions[HPC].values())[:2]
    assert (told["score"].value, removed["score"].value) == (0.0, 1.0)
    assert {row.system for row in run.rows} == {MODEL_SYSTEM, CLOSED_BOOK, REMOVES}


def test_prompts_hold_what_their_task_promises(tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(default="A")
    run_conflict(lm, ITEMS[:1], tmp_path / "run")
    by_word = {
        word: [prompt for prompt in lm.prompts if word in prompt]
        for word in ("word for word", "Ignore the passage", "Give both views", "Passage 2:")
    }
    assert [len(found) for found in by_word.values()] == [4, 4, 4, 4]
    assert all("(D)" in prompt for prompt in by_word["Give both views"])
    assert all(prompt.count("Ann Rill runs Rill") >= 1 for prompt in by_word["Passage 2:"])
    alone = [prompt for prompt in lm.prompts if "assage" not in prompt]
    assert len(alone) == 2  # closed book, and with the passage removed


def test_either_passage_stands_first_equally_often(tmp_path: Path) -> None:
    lm = ScriptedLanguageModel(default="A")
    settings = ConflictSettings(tasks=(Task.RAG,), kinds=(NC, HPC))
    run_conflict(lm, ITEMS, tmp_path / "run", settings=settings)
    firsts = [
        prompt.find(f"Ann {town} runs") < prompt.find(f"Bo {town} runs")
        for prompt in lm.prompts
        for town in TOWNS
        if f"Bo {town} runs" in prompt
    ]
    assert (len(firsts), sum(firsts)) == (8, 4)


class Remover:
    """Removes what names Bo, abstains over teapots, follows the rest."""

    def decide(self, question: str, passages: Sequence[str]) -> Decision:
        if "Rill" in question:
            raise LanguageModelError("down")
        if "teapot" in passages[0]:
            return Decision(route=Route.ABSTAIN, reason=Reason.INSUFFICIENT_CONTEXT)
        if "Bo" in passages[0]:
            return Decision(route=Route.ANSWER, reason=Reason.CONFIDENT_MEMORY)
        return Decision(route=Route.FOLLOW_CONTEXT, reason=Reason.SUFFICIENT_CONTEXT)


def test_a_guard_removes_the_passage_where_it_decides_so(tmp_path: Path) -> None:
    lm = ScoringModel()
    guards = {"remover": Remover()}
    run = read_conflict_run(run_conflict(lm, ITEMS, tmp_path / "run", guards=guards))
    alone = ScoringModel()
    run_conflict(alone, ITEMS, tmp_path / "alone")
    assert len(lm.prompts) == len(alone.prompts)  # no call for the guard
    assert len(run.rows) == len(run.planned_ids)
    found = run.suppressions
    assert found[HPC]["remover"]["accuracy"].value == 1.0
    assert found[HPC]["remover"]["accuracy"].n == 7  # one failed
    assert found[LPC]["remover"]["accuracy"].value == 0.0
    assert found[HPC][MODEL_SYSTEM]["accuracy"].value == 0.0


def test_free_replies_are_read_by_a_judge_where_there_is_one(tmp_path: Path) -> None:
    answering = ScriptedLanguageModel(default="Answer: the usual two")
    checks = {
        "<yields>": "<yields>yes</yields>",
        "<plausibility>": "<plausibility>3</plausibility>",
    }
    settings = ConflictSettings(answers="free", kinds=(NC, HPC), tasks=(Task.PCK, Task.KF))

    def read_by(name: str, reply: str) -> ConflictRun:
        lm = ScriptedLanguageModel(checks, default=reply)
        judges = (PassageJudge(name, lm, conflict_prompts()),)
        folder = tmp_path / name
        return read_conflict_run(
            run_conflict(answering, ITEMS, folder, settings=settings, judges=judges)
        )

    read = read_by("judge", "It names her. <given>C, A</given>").rows
    assert {row.letters for row in read if row.task is Task.PCK} == {("A", "C")}
    assert {row.letters for row in read if row.task is Task.KF} == {None}
    failed = read_by("silent", "hm").rows
    errors = {row.error.type for row in failed if row.task is Task.PCK and row.error}
    assert errors == {"NoVerdictError"}
