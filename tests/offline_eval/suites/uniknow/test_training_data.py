"""What each method is trained on, counted by hand."""

from __future__ import annotations

from collections import Counter

from knowgate.calibration.training.scenarios import TrainingExample
from knowgate.offline_eval.suites.uniknow._cases import (
    Case,
    ContextKind,
    Knowledge,
    KnowledgeEstimate,
    PromptSet,
    Question,
)
from knowgate.offline_eval.suites.uniknow.methods import (
    TrainedMethod,
    training_examples,
)

PROMPTS = PromptSet(
    closed_book="{question}",
    with_context="{context}|{question}",
    closed_book_or_unknown="or unknown|{question}",
    with_context_or_unknown="or unknown|{context}|{question}",
)
ANSWERS = {
    ContextKind.ORIGINAL: "gold",
    ContextKind.CONFLICTING: "other",
    ContextKind.RANDOM: None,
    ContextKind.RETRIEVED: None,
}


def question(number: int, knowledge: Knowledge) -> list[Case]:
    """One question with its four contexts."""
    asked = Question(
        id=f"{knowledge.value}{number}",
        question=f"{knowledge.value}{number}?",
        answers=(f"gold {number}", f"the gold {number}"),
        dataset="toy",
        group=f"g{number}",
    )
    contexts = [
        (kind, (f"{kind.value} {{text}} {number}", (f"{says} {number}",) if says else ()))
        for kind, says in ANSWERS.items()
    ]
    estimate = KnowledgeEstimate(knowledge, 0, 10)
    return [Case.of(asked, kind, stated, estimate) for kind, stated in contexts]


CASES = [
    case for number in range(6) for knowledge in Knowledge for case in question(number, knowledge)
]


def _examples(name: str) -> list[TrainingExample]:
    found = training_examples(name, CASES, PROMPTS)
    return [one for one in found if isinstance(one, TrainingExample)]


def counts(method: str) -> Counter[tuple[str, str, str]]:
    """How many examples there are, by knowledge, kind and first word of the reply."""
    return Counter(
        (asked.rstrip("?0123456789"), context.split()[0], example.target.split()[0])
        for example in _examples(method)
        for context, asked in [example.prompt.removeprefix("or unknown|").split("|")]
    )


def test_retrobust_learns_the_gold_answer_from_original_and_irrelevant_contexts() -> None:
    assert counts("retrobust") == {
        ("known", "original", "gold"): 12,
        ("unknown", "original", "gold"): 12,
        ("known", "random", "gold"): 6,
        ("unknown", "random", "gold"): 6,
        ("known", "retrieved", "gold"): 6,
        ("unknown", "retrieved", "gold"): 6,
    }


def test_kaft_learns_the_contexts_answer_where_there_is_one_else_the_gold_answer() -> None:
    assert counts("kaft") == {
        (knowledge, kind.value, ANSWERS[kind] or "gold"): 6
        for knowledge in ("known", "unknown")
        for kind in ContextKind
    }


def test_lm_uniknow_learns_all_four_scenarios_in_equal_parts() -> None:
    assert counts("lm_uniknow") == {
        ("known", "original", "gold"): 6,
        ("known", "conflicting", "other"): 6,
        ("unknown", "original", "gold"): 6,
        ("unknown", "conflicting", "other"): 6,
        ("known", "random", "gold"): 6,
        ("known", "retrieved", "gold"): 6,
        ("unknown", "random", "unknown"): 6,
        ("unknown", "retrieved", "unknown"): 6,
    }


def test_only_so_many_questions_of_each_side_are_taken_and_the_same_for_every_method() -> None:
    taken = {
        method: {
            example.prompt.split("|")[-1]
            for example in training_examples(method, CASES, PROMPTS, per_side=2)
        }
        for method in TrainedMethod
    }

    assert Counter(name.rstrip("?0123456789") for name in taken[TrainedMethod.KAFT]) == {
        "known": 2,
        "unknown": 2,
    }
    assert len({frozenset(names) for names in taken.values()}) == 1


def test_preferences_set_the_wanted_reply_against_the_one_that_tempts() -> None:
    found = Counter(
        (
            prompt.split("|")[-1].rstrip("?0123456789"),
            prompt.split("|")[1].split()[0],
            chosen.split()[0],
            rejected.split()[0],
        )
        for one in training_examples("dpo", CASES, PROMPTS)
        if one.rejected is not None
        for prompt, chosen, rejected in [(one.prompt, one.target, one.rejected)]
    )

    assert found == {
        ("known", "original", "gold", "unknown"): 6,
        ("known", "conflicting", "other", "gold"): 6,
        ("known", "random", "gold", "unknown"): 6,
        ("known", "retrieved", "gold", "unknown"): 6,
        ("unknown", "original", "gold", "unknown"): 6,
        ("unknown", "conflicting", "other", "unknown"): 6,
        ("unknown", "random", "unknown", "other"): 6,
        ("unknown", "retrieved", "unknown", "other"): 6,
    }
