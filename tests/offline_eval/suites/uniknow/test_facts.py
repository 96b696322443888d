"""The bundled list of facts: its content, its wordings, its contexts, and how it is asked."""

from __future__ import annotations

from collections import Counter

from knowgate.guard import Generation
from knowgate.offline_eval.data.answers.matching import holds_answer
from knowgate.offline_eval.suites.uniknow._bundled import FACTS, FACTS_FILE, listed_facts
from knowgate.offline_eval.suites.uniknow._cases import ContextKind, Knowledge
from knowgate.offline_eval.suites.uniknow._contexts import build_contexts
from knowgate.offline_eval.suites.uniknow._knowledge import estimate_knowledge
from knowgate.offline_eval.suites.uniknow._questions import read_dataset
from knowgate.offline_eval.suites.uniknow._settings import UniKnowSettings
from knowgate.offline_eval.suites.uniknow.plan import Plan, make_plan
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords

SOURCES = {"written", "nq_open", "uaqfact"}


def test_the_list_holds_enough_facts_of_every_source() -> None:
    facts = listed_facts()
    counts = Counter(fact.source for fact in facts.values())

    assert len(facts) >= 400
    assert set(counts) == SOURCES
    assert counts["nq_open"] >= 100
    assert counts["uaqfact"] >= 75
    assert FACTS_FILE.stat().st_size < 300_000
    assert "CC BY-SA 3.0" in FACTS_FILE.read_text(encoding="utf-8")


def test_the_wordings_that_select_are_not_asked_in_the_evaluation() -> None:
    asked = {question.id: question for question in read_dataset(FACTS, seed=3).questions}

    for fact in listed_facts().values():
        question = asked[fact.id]
        assert question.question in fact.questions[::2]
        assert question.selecting == fact.questions[1::2]
        assert set(fact.questions[::2]).isdisjoint(fact.questions[1::2])
        assert all(text[0].isupper() and text.endswith("?") for text in fact.questions), fact.id


def test_every_passage_states_the_answer_and_no_question_gives_it_away() -> None:
    for fact in listed_facts().values():
        assert holds_answer(fact.text, fact.answers[:1]), fact.id
        assert len(fact.text.split()) <= 45
        assert fact.others
        if fact.source == "written":
            assert not any(holds_answer(text, fact.answers) for text in fact.questions), fact.id


def test_contexts_hold_the_answers_that_they_are_said_to_hold() -> None:
    dataset = read_dataset(FACTS, limit=20, seed=1)

    found, problems = build_contexts(dataset, encoder=BagOfWords(), kinds=tuple(ContextKind))

    assert not problems
    for question in dataset.questions:
        contexts = found[question.id]
        assert holds_answer(contexts[ContextKind.ORIGINAL].passages[0], question.answers)
        (text,), answers, _ = contexts[ContextKind.CONFLICTING]
        assert holds_answer(text, answers)
        for kind in (ContextKind.CONFLICTING, ContextKind.RANDOM, ContextKind.RETRIEVED):
            assert not holds_answer(contexts[kind].passages[0], question.answers)


class _Answering:
    """Answers the wordings that select, and notes how each was asked."""

    fingerprint = "answering"

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def generate(
        self, prompts: list[str], *, n: int = 1, temperature: float = 0.0, seed: int | None = None
    ) -> list[list[Generation]]:
        assert seed is not None
        for prompt in prompts:
            wording = prompt.split("Question: ")[-1].removesuffix("\nAnswer:")
            self.asked += [(wording, seed + k, 1) for k in range(n)]
        return [[Generation(" Paris")] * n for _ in prompts]


def test_the_wordings_take_turns_and_no_answer_is_drawn_twice() -> None:
    dataset = read_dataset(FACTS)
    france, germany = (
        next(one for one in dataset.questions if one.id == f"capital.{name}")
        for name in ("france", "germany")
    )
    lm = _Answering()

    found = estimate_knowledge(lm, [france, germany], dataset.prompts)  # type: ignore[arg-type]

    assert found[france.id].knowledge is Knowledge.KNOWN
    assert found[germany.id].knowledge is Knowledge.UNKNOWN
    assert len(set(lm.asked)) == len(lm.asked) == 7 + 10
    of_germany = Counter(wording for wording, *_ in lm.asked if "Germany" in wording)
    assert of_germany == dict.fromkeys(germany.selecting, 5)


def test_questions_of_undefined_knowledge_can_be_left_out() -> None:
    kept, left_out = (
        {case.knowledge for case in _plan_of_thirty(None, defined_only=only).evaluation}
        for only in (False, True)
    )

    assert kept == {Knowledge.KNOWN, Knowledge.UNKNOWN, Knowledge.UNDEFINED}
    assert left_out == {Knowledge.KNOWN, Knowledge.UNKNOWN}


def _plan_of_thirty(most: int | None, *, defined_only: bool) -> Plan:
    """Plan a run over thirty facts, a third of them known and a third undefined."""
    dataset = read_dataset(FACTS, limit=30, seed=2)
    built = build_contexts(dataset, encoder=BagOfWords())
    sides = (Knowledge.KNOWN, Knowledge.UNKNOWN, Knowledge.UNDEFINED)
    estimate = estimate_knowledge(_Answering(), dataset.questions[:1], dataset.prompts)  # type: ignore[arg-type]
    one = next(iter(estimate.values()))
    estimates = {
        question.id: one._replace(knowledge=sides[number % 3])
        for number, question in enumerate(dataset.questions)
    }
    settings = UniKnowSettings(questions_per_side=most, defined_only=defined_only)
    return make_plan(dataset, built, estimates, settings)
