"""Methods over a scripted model: prompts, abstentions, failures."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from knowgate.guard import InputError, LanguageModelError
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.suites.uniknow._cases import (
    Case,
    Context,
    ContextKind,
    Knowledge,
    KnowledgeEstimate,
    PromptSet,
    Question,
    Reply,
    UniKnowRow,
)
from knowgate.offline_eval.suites.uniknow.methods import choose_methods, untrained

PROMPTS = PromptSet(
    closed_book="CB {question}",
    with_context="WC {context} | {question}",
    closed_book_or_unknown="CBU {question}",
    with_context_or_unknown="WCU {context} | {question}",
)


def _case(
    kind: ContextKind = ContextKind.CONFLICTING,
    *,
    name: str = "q",
    knowledge: Knowledge = Knowledge.KNOWN,
    answers: tuple[str, ...] = ("Rome",),
    untrue: tuple[str, ...] = (),
) -> Case:
    question = Question(name, f"Where {name}?", ("Paris",), "toy", name)
    context = Context((f"text {name}",), answers, untrue)
    return Case.of(question, kind, context, KnowledgeEstimate(knowledge, 0, 10))


class _Contrasting(ScriptedLanguageModel):
    """Notes the pairs that it is asked to weigh."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[str, str, str]] = []

    def generate_contrastive(
        self, with_context: Sequence[str], without_context: Sequence[str], method: str = "coiecd"
    ) -> list[str]:
        if any("odd" in prompt for prompt in with_context):
            raise LanguageModelError("the prompt is odd")
        pairs = zip(with_context, without_context, strict=True)
        self.pairs += [(method, *pair) for pair in pairs]
        return ["Rome"] * len(with_context)


@pytest.mark.parametrize(("name", "start"), [("naive", "WC "), ("prompting", "WCU ")])
def test_each_prompting_method_asks_with_its_own_prompt(name: str, start: str) -> None:
    lm = ScriptedLanguageModel(default="Rome")
    method = untrained(name, lm, PROMPTS)

    [reply] = method([_case()])

    assert lm.prompts == [f"{start}text q | Where q?"]
    assert reply == Reply("Rome", abstained=False)


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("cad", ("cad", "WC text q | Where q?", "CB Where q?")),
        ("coiecd", ("coiecd", "WC text q | Where q?", "CB Where q?")),
        ("coiecd_prompt", ("coiecd", "WCU text q | Where q?", "CBU Where q?")),
    ],
)
def test_each_contrastive_method_weighs_its_own_pair(name: str, pair: tuple[str, ...]) -> None:
    lm = _Contrasting()

    untrained(name, lm, PROMPTS)([_case()])

    assert lm.pairs == [pair]


def test_a_contrastive_failure_costs_its_own_case_only() -> None:
    cases = [_case(name="first"), _case(name="odd"), _case(name="last")]

    replies = untrained("coiecd", _Contrasting(), PROMPTS)(cases)

    assert [reply.text for reply in replies] == ["Rome", "", "Rome"]
    assert replies[1].error == "LanguageModelError: the prompt is odd"


@pytest.mark.parametrize(
    ("said", "abstained"),
    [("unknown", True), ("I am not sure.", True), ("Rome", False), ("Unknownville", True)],
)
def test_the_abstention_words_of_the_paper_count(said: str, abstained: bool) -> None:
    method = untrained("prompting", ScriptedLanguageModel(default=said), PROMPTS)

    [reply] = method([_case()])

    assert reply.abstained is abstained


def test_an_expected_answer_that_holds_such_a_word_is_an_answer() -> None:
    method = untrained("naive", ScriptedLanguageModel(default="The Unknown Soldier"), PROMPTS)

    [reply] = method([_case(answers=("Unknown Soldier",))])

    assert not reply.abstained
    assert UniKnowRow.of("naive", _case(answers=("Unknown Soldier",)), reply).right


@pytest.mark.parametrize(
    ("case", "text", "marks"),
    [
        (_case(), "rome.", {"right"}),
        (_case(), "Paris", {"parametric"}),
        (_case(), "Oslo", set()),
        (_case(ContextKind.RANDOM, answers=()), "Paris", {"right"}),
        (_case(ContextKind.UNTRUE, answers=(), untrue=("1 AD",)), "1 AD", {"misled"}),
    ],
)
def test_rows_say_what_a_reply_is_worth(case: Case, text: str, marks: set[str]) -> None:
    row = UniKnowRow.of("naive", case, Reply(text, abstained=False))

    assert {name for name in ("right", "parametric", "misled") if getattr(row, name)} == marks


def test_ablations_come_last_and_need_a_model_that_can_be_trained() -> None:
    names, _ = choose_methods(["naive", "lm_uniknow"], None, ablations=True)

    assert names[:3] == ("naive", "lm_uniknow", "lm_uniknow@abstention=0")
    assert len(names) == 10
    with pytest.raises(InputError, match="cannot be trained"):
        choose_methods(["naive"], ScriptedLanguageModel(), ablations=True)
