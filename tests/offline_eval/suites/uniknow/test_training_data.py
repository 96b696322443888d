"""What each method is trained on, counted by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from knowgate.calibration.training.scenarios import TrainingExample
from knowgate.offline_eval.suites.uniknow._cases import (
    PAPER_KINDS,
    Case,
    Context,
    ContextKind,
    Knowledge,
    KnowledgeEstimate,
    PromptSet,
    Question,
)
from knowgate.offline_eval.suites.uniknow.methods import (
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
    """One question with the paper's four contexts and one beyond it."""
    asked = Question(
        id=f"{knowledge.value}{number}",
        question=f"{knowledge.value}{number}?",
        answers=(f"gold {number}", f"the gold {number}"),
        dataset="toy",
        group=f"g{number}",
    )
    contexts = [
        (kind, Context((f"{kind.value} {{text}} {number}",), (f"{says} {number}",) if says else ()))
        for kind, says in ANSWERS.items()
    ]
    contexts.append((ContextKind.NONE_OF_K, Context(("a", "b"))))
    estimate = KnowledgeEstimate(knowledge, 0, 10)
    return [Case.of(asked, kind, context, estimate) for kind, context in contexts]


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
        for kind in PAPER_KINDS
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


@pytest.mark.parametrize(("share", "abstentions"), [(0.0, 0), (0.5, 24), (0.75, 36)])
def test_the_share_of_abstentions_is_as_asked_and_the_number_of_examples_stays(
    share: float, abstentions: int
) -> None:
    found = counts(f"lm_uniknow@abstention={share}")

    assert sum(found.values()) == 48
    assert sum(n for (_, _, reply), n in found.items() if reply == "unknown") == abstentions
    # The other three scenarios share the rest equally, up to rounding.
    known = sum(n for (who, kind, _), n in found.items() if (who, kind[0]) == ("known", "r"))
    assert known == (48 - abstentions) // 3


def test_contexts_left_out_are_replaced_by_more_of_the_same_part() -> None:
    found = counts("lm_uniknow@without=retrieved")

    assert sum(found.values()) == 48
    assert found["unknown", "random", "unknown"] == 12
    assert not any(kind == "retrieved" for _, kind, _ in found)
    without_both = counts("lm_uniknow@without=retrieved+conflicting")
    assert {kind for _, kind, _ in without_both} == {"original", "random"}
    assert sum(without_both.values()) == 48


def test_repetitions_are_as_even_as_they_can_be() -> None:
    examples = _examples("lm_uniknow@abstention=0.4")

    times = Counter(one.prompt for one in examples if one.target == "unknown")
    assert sum(times.values()) == 18
    assert set(times.values()) == {1, 2}


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
