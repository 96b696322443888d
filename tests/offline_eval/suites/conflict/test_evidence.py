"""Evidence: made from data, template or editor, and checked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.suites.conflict._rows import (
    Check,
    EvidenceRow,
    answering_sentences,
    answers_named,
    names_answer,
)
from knowgate.offline_eval.suites.conflict.beliefs import conflict_prompts
from knowgate.offline_eval.suites.conflict.evidence import (
    PassageJudge,
    disagree,
    likelihood_rank,
    make_evidence,
    mean_verdict,
    validate,
)
from knowgate.offline_eval.suites.conflict.items import ConflictItem, EvidenceKind

from .questions import ScoringModel, item

NC, HPC, HPCE, LPC = EvidenceKind
EDITOR = {
    "Rewrite the passage below": "Sure. <passage>Bo Rill runs it.</passage>",
    "nobody would believe": "<answer>a teapot</answer>\n<passage>A teapot runs it.</passage>",
    "argue": "<rationale>Records show it. Others err.</rationale>",
}


def made(
    lm: ScriptedLanguageModel | None = None, one: ConflictItem | None = None
) -> dict[EvidenceKind, EvidenceRow]:
    believed = replace(one or item(), given=0)
    rows = make_evidence([believed], conflict_prompts(), tuple(EvidenceKind), lm)
    return {row.kind: row for row in rows}


def bare() -> ConflictItem:
    """Only the believed answer has a passage, and nothing is implausible."""
    full = item(absurd=False)
    return replace(full, answers=(full.answers[0], replace(full.answers[1], passages=())))


def test_what_the_data_have_is_taken_as_it_is() -> None:
    found = made()
    assert [found[kind].made_by for kind in EvidenceKind] == ["data", "data", "template", "data"]
    assert found[NC].answer == "Ann Rill"
    assert found[HPC].answer == found[HPCE].answer == "Bo Rill"
    assert found[LPC].answer == "teapot 0"
    assert found[HPCE].passage.startswith(found[HPC].passage + "\n")


def test_another_belief_turns_the_sides() -> None:
    rows = make_evidence([replace(item(), given=1)], conflict_prompts(), tuple(EvidenceKind))
    assert [row.answer for row in rows] == ["Bo Rill", "Ann Rill", "Ann Rill", "teapot 0"]


def test_an_editor_writes_what_is_missing() -> None:
    found = made(ScriptedLanguageModel(EDITOR), bare())
    assert found[HPC].passage == "Bo Rill runs it."
    assert (found[HPC].answer, found[HPC].made_by) == ("Bo Rill", "editor")
    assert (found[LPC].answer, found[LPC].passage) == ("a teapot", "A teapot runs it.")
    assert found[HPCE].passage == "Bo Rill runs it.\nRecords show it. Others err."


@pytest.mark.parametrize("reply", ["no tags", "<passage></passage>", "<answer>x</answer>", "<"])
def test_an_editors_useless_reply_is_a_typed_failure(reply: str) -> None:
    found = made(ScriptedLanguageModel(default=reply), bare())
    for kind in (HPC, LPC):
        error = found[kind].error
        assert error is not None
        assert error.type == "LanguageModelError"
    assert found[HPCE].error is not None


@given(st.text())
def test_any_editors_reply_gives_a_row(reply: str) -> None:
    found = made(ScriptedLanguageModel(default=reply), bare())
    assert all(bool(row.passage) != (row.error is not None) for row in found.values())


@pytest.mark.parametrize("answer", ["Ann Rill", "annie rill.", "The Bo Rill"])
def test_an_editors_implausible_answer_must_be_a_new_one(answer: str) -> None:
    script = EDITOR | {"nobody would believe": f"<answer>{answer}</answer><passage>It.</passage>"}
    error = made(ScriptedLanguageModel(script), bare())[LPC].error
    assert error is not None
    assert "was taken" in error.detail


def judge(name: str, yields: str, plausible: str) -> PassageJudge:
    script = {
        "<yields>": f"Because. <yields>{yields}</yields>",
        "<plausibility>": f"Hm. <plausibility>{plausible}</plausibility>",
    }
    return PassageJudge(name, ScriptedLanguageModel(script), conflict_prompts())


def validated(*judges: PassageJudge, **settings: object) -> dict[EvidenceKind, EvidenceRow]:
    one = item()
    rows = make_evidence([replace(one, given=0)], conflict_prompts(), tuple(EvidenceKind))
    found = validate(rows, {one.key: one}, conflict_prompts(), judges, **settings)  # type: ignore[arg-type]
    return {row.kind: row for row in found}


def test_by_words_alone_nothing_is_refused() -> None:
    found = validated()
    assert all(row.accepted for row in found.values())
    assert [check.judge for check in found[NC].checks] == ["words"]
    assert found[HPC].plausibility is None


def test_two_judges_decide_on_plausibility() -> None:
    found = validated(judge("a", "yes", "4"), judge("b", "yes", "3"))
    assert found[HPC].accepted
    assert found[HPC].plausibility == pytest.approx(0.625)  # (3.5 - 1) / 4
    assert found[HPC].plausibility_from == "judges"
    assert found[LPC].reason == "too plausible"
    assert found[NC].plausibility is None  # what is believed is not rated


def test_disagreements_are_kept_and_not_used() -> None:
    found = validated(judge("a", "yes", "5"), judge("b", "no", "1"))
    assert found[NC].reason == "checks disagree on the answer"
    assert disagree(found[NC].checks)
    assert [c.outcome for c in found[HPC].checks if c.criterion == "plausibility"] == ["5", "1"]


def test_a_judge_without_a_verdict_costs_one_verdict() -> None:
    found = validated(judge("a", "perhaps", "9"), judge("b", "yes", "4"))
    assert found[HPC].accepted
    errors = [check.error.type for check in found[HPC].checks if check.error is not None]
    assert errors == ["NoVerdictError", "NoVerdictError"]
    alone = validated(judge("a", "perhaps", "9"))
    assert alone[NC].reason == "no judge has a verdict on yields"


class Entailment:
    """Finds that whatever names Bo follows."""

    fingerprint = "names"

    def entails(self, premise: str, hypothesis: str) -> float:
        return 0.9 if "Bo" in premise and "Bo" in hypothesis else 0.1


def test_entailment_refuses_a_passage_without_its_answer() -> None:
    found = validated(entailment=Entailment())
    assert found[HPC].accepted
    assert not found[NC].accepted


def test_a_scoring_model_ranks_answers_among_others_of_their_kind() -> None:
    found = validated(lm=ScoringModel())
    assert found[NC].plausibility == 1.0
    assert found[HPC].plausibility == 0.5  # as likely as both distractors
    assert found[LPC].plausibility == 0.0
    assert found[HPC].plausibility_from == "rank"


def test_ranks_are_the_share_below() -> None:
    assert likelihood_rank(-2.0, [-3.0, -1.0]) == 0.5
    assert likelihood_rank(-2.0, [-2.0]) == 0.5
    assert likelihood_rank(-0.5, [-3.0, -1.0]) == 1.0
    assert likelihood_rank(-0.5, []) is None
    assert mean_verdict([]) is None
    assert mean_verdict([Check(judge="a", criterion="plausibility", outcome="1")]) == 1.0


def test_an_answer_is_named_by_whole_words_and_in_other_figures() -> None:
    assert names_answer("It has 6,922 people", ["6922"])
    assert not names_answer("In 18401 sheep", ["1840"])
    assert not names_answer("anything", [""])


def test_the_longest_name_is_the_one_that_is_given() -> None:
    answers = [["New York"], ["New York City", "NYC"], ["York"]]
    assert answers_named("New York City it is", answers) == (1,)
    assert answers_named("York, and not NYC", answers) == (1, 2)
    assert answers_named("nothing", answers) == ()
    assert answers_named("Robert", [["Bo", "Robert"], ["Robert"]]) == (0, 1)
    assert answers_named("他在北京出生。", [["北京"], ["上海"]]) == (0,)
    assert answers_named("Yorkshire", answers) == ()


def test_a_sentence_answers_that_names_or_nearly_repeats_it() -> None:
    passage = "Rill is a town. Ann Li runs Rill. Bread is good there."
    assert answering_sentences(passage, ["Ann Li"]) == ("Ann Li runs Rill.",)
    long = "The members of the band could not arrest anybody."
    text = "It rained. The members of this band could never arrest anybody. Bread is good."
    assert answering_sentences(text, [long]) == (
        "The members of this band could never arrest anybody.",
    )
    assert answering_sentences("It rained all day.", [long]) == ()
