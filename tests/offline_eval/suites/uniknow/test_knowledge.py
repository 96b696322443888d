"""What a model knows: the stopping rule, waves, failures, the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from knowgate.guard import Generation, LanguageModelError
from knowgate.guard.contracts import PartialGenerationsError
from knowgate.offline_eval.suites.uniknow._cases import Knowledge, PromptSet, Question
from knowgate.offline_eval.suites.uniknow._knowledge import KnowledgeStore, estimate_knowledge
from knowgate.offline_eval.suites.uniknow.methods import UniKnowSettings

PROMPTS = PromptSet("Q: {question}", "{context} Q: {question}", "U: {question}", "{context} U")


class _PatternLM:
    """Its k-th answer to a question is right where the question's pattern says so."""

    def __init__(self, patterns: Mapping[str, str], fails: Mapping[str, Exception] | None = None):
        self._patterns, self._fails = dict(patterns), dict(fails or {})
        self.drawn: dict[str, list[int]] = {name: [] for name in patterns}
        self.asked: list[list[str]] = []

    fingerprint = "pattern"

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        assert seed is not None
        assert temperature == 1.0
        names = [prompt.removeprefix("Q: ") for prompt in prompts]
        self.asked.append(names)
        for name in names:
            if name in self._fails:
                raise self._fails[name]
        for name in names:
            self.drawn[name] += range(seed, seed + n)
        return [
            [
                Generation("right" if self._patterns[name][k] == "1" else "wrong")
                for k in range(seed, seed + n)
            ]
            for name in names
        ]

    async def agenerate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        return self.generate(prompts, n=n, temperature=temperature, seed=seed)


def _questions(names: Sequence[str]) -> list[Question]:
    return [Question(name, name, ("Right.",), "toy", name) for name in names]


def _by_ten(pattern: str) -> Knowledge:
    right = pattern.count("1")
    if right >= 7:
        return Knowledge.KNOWN
    return Knowledge.UNDEFINED if right else Knowledge.UNKNOWN


def _settled_at(pattern: str) -> int:
    """Answers after which no continuation can change the verdict, counted the slow way."""
    for drawn in range(1, 11):
        verdicts = {
            _by_ten(pattern[:drawn] + "".join(rest)) for rest in product("01", repeat=10 - drawn)
        }
        if len(verdicts) == 1:
            return drawn
    raise AssertionError


def test_stopping_early_gives_the_verdict_of_all_ten_for_every_pattern() -> None:
    patterns = ["".join(bits) for bits in product("01", repeat=10)]
    lm = _PatternLM({pattern: pattern for pattern in patterns})

    found = estimate_knowledge(lm, _questions(patterns), PROMPTS)

    assert {name: one.knowledge for name, one in found.items()} == {p: _by_ten(p) for p in patterns}


def test_no_answer_is_drawn_that_no_outcome_needs() -> None:
    patterns = ["".join(bits) for bits in product("01", repeat=10)][::7]
    lm = _PatternLM({pattern: pattern for pattern in patterns})

    found = estimate_knowledge(lm, _questions(patterns), PROMPTS)

    for pattern in patterns:
        assert found[pattern].samples_drawn == _settled_at(pattern)
        assert found[pattern].samples_right == pattern[: found[pattern].samples_drawn].count("1")


def test_a_question_that_cannot_be_asked_is_undefined_and_the_others_go_on() -> None:
    fails = {"odd": LanguageModelError("too long")}
    lm = _PatternLM({"odd": "1" * 10, "known": "1" * 10, "unknown": "0" * 10}, fails)

    found = estimate_knowledge(lm, _questions(list(lm.drawn)), PROMPTS)

    assert found["odd"].knowledge is Knowledge.UNDEFINED
    assert found["odd"].knowledge_error == "LanguageModelError: too long"
    assert found["known"].knowledge is Knowledge.KNOWN
    assert found["unknown"].knowledge is Knowledge.UNKNOWN
    assert found["known"].knowledge_error is None


def test_what_arrived_of_a_call_that_failed_in_part_is_kept() -> None:
    class _HalfDown(_PatternLM):
        def generate(
            self,
            prompts: Sequence[str],
            *,
            n: int = 1,
            temperature: float = 0.0,
            seed: int | None = None,
        ) -> list[list[Generation]]:
            rows = super().generate(prompts, n=n, temperature=temperature, seed=seed)
            cause = LanguageModelError("the provider is down")
            rows[0] = rows[0][:1]
            raise PartialGenerationsError("down", rows, [cause, *[None] * (len(rows) - 1)])

    lm = _HalfDown({"first": "1" * 10, "second": "1" * 10})

    found = estimate_knowledge(lm, _questions(["first", "second"]), PROMPTS)

    assert found["first"].knowledge_error == "LanguageModelError: the provider is down"
    assert found["second"].samples_right >= 5
    # A model that fails in part has tried often enough itself.
    assert sum("first" in names for names in lm.asked) == 1


def test_stored_estimates_are_not_asked_again(tmp_path: Path) -> None:
    patterns = ["1" * 10, "0" * 10, "1000000000"]
    questions = _questions(patterns)
    path = tmp_path / "knowledge.jsonl"
    first = estimate_knowledge(
        _PatternLM({p: p for p in patterns}), questions, PROMPTS, store=KnowledgeStore(path)
    )
    lm = _PatternLM({p: p for p in patterns})

    again = estimate_knowledge(lm, questions, PROMPTS, store=KnowledgeStore(path))

    assert again == first
    assert lm.asked == []


def test_another_seed_prompt_or_answer_is_asked_anew(tmp_path: Path) -> None:
    store = KnowledgeStore(tmp_path / "knowledge.jsonl")
    [question] = _questions(["known"])
    pattern = {"known": "1" * 20}
    estimate_knowledge(_PatternLM(pattern), [question], PROMPTS, store=store)
    other_answer = Question("known", "known", ("Left",), "toy", "known")
    by_seed, by_answer = _PatternLM(pattern), _PatternLM(pattern)

    estimate_knowledge(by_seed, [question], PROMPTS, settings=UniKnowSettings(seed=1), store=store)
    found = estimate_knowledge(by_answer, [other_answer], PROMPTS, store=store)

    assert by_seed.asked
    assert by_answer.asked
    assert found["known"].knowledge is Knowledge.UNKNOWN


def test_a_failure_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.jsonl"
    questions = _questions(["odd"])
    broken = _PatternLM({"odd": "1" * 10}, {"odd": LanguageModelError("down")})
    estimate_knowledge(broken, questions, PROMPTS, store=KnowledgeStore(path))

    found = estimate_knowledge(
        _PatternLM({"odd": "1" * 10}), questions, PROMPTS, store=KnowledgeStore(path)
    )

    assert found["odd"].knowledge is Knowledge.KNOWN
