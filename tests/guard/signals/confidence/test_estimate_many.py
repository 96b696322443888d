"""Many questions at once: as one by one, in few calls, and none loses the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from knowgate.guard import Confidence, Fingerprint, Generation, LanguageModel, LanguageModelError
from knowgate.guard._model_steps import Draw, Evaluate, Steps
from knowgate.guard.contracts import Cost, PartialGenerationsError
from knowgate.guard.errors import LanguageModelTimeoutError, PromptTooLongError
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import SampledConsistency, Sampling, StepwiseEstimator
from knowgate.guard.signals.confidence._cascade import Cascade
from knowgate.guard.signals.confidence._entropy import SemanticEntropy
from knowgate.guard.signals.confidence._single_answers import PTrue, TokenProbability, Verbalized
from knowgate.guard.testing import ScriptedLanguageModel

PROMPT = Prompt("short", "Question: {question}?")
SCRIPT = {
    "sure": ["Ada"],
    "likely": ["Ada"] * 8 + ["Grace", "Joan"],
    "torn": ["Ada", "Grace"],
    "lost": ["Ada", "Grace", "Joan", "Mary", "Edith", "Dorothy"],
    "asked": ["Joan"] * 3 + ["Ada"],
}
REPLIES = {"one word: yes or no": ["yes", "no"], "How sure are you": ["70"]}
QUESTIONS = [f"{kind} {number}" for number in range(9) for kind in [*SCRIPT, "unknown"]]


class Recording(ScriptedLanguageModel):
    """Notes (prompts, n) of every call."""

    def __init__(self, **settings: Any) -> None:
        script = REPLIES | SCRIPT
        said = {answer for answers in script.values() for answer in answers}
        logprobs = {answer: -0.1 * len(answer) for answer in said} | {"I don't know": -0.2}
        super().__init__(script, logprobs=logprobs, **settings)
        self.shapes: list[tuple[int, int]] = []

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        self.shapes.append((len(prompts), n))
        return super().generate(prompts, n=n, temperature=temperature, seed=seed)


ESTIMATORS: dict[str, Callable[[LanguageModel], StepwiseEstimator]] = {
    "sampled_consistency": lambda lm: SampledConsistency(lm, prompt=PROMPT),
    "all_samples": lambda lm: SampledConsistency(lm, prompt=PROMPT, stopping="none"),
    "bayesian": lambda lm: SampledConsistency(lm, prompt=PROMPT, stopping="bayesian"),
    "token_probability": lambda lm: TokenProbability(lm, prompt=PROMPT),
    "p_true": PTrue,
    "semantic_entropy": lambda lm: SemanticEntropy(lm, prompt=PROMPT),
    "verbalized": Verbalized,
    "cascade": lambda lm: Cascade(lm, prompt=PROMPT),
}


@pytest.mark.parametrize("name", ESTIMATORS)
async def test_sync_async_and_many_agree(name: str) -> None:
    singly = [ESTIMATORS[name](Recording()).estimate(question) for question in QUESTIONS]
    model = Recording()
    estimator = ESTIMATORS[name](model)

    assert estimator.estimate_many(QUESTIONS) == singly
    assert [await estimator.aestimate(question) for question in QUESTIONS] == singly
    assert await estimator.aestimate_many(QUESTIONS, batch_size=7) == singly
    assert estimator.estimate_many(QUESTIONS, batch_size=1) == singly


def test_equal_requests_go_into_one_call_of_bounded_size() -> None:
    model = Recording()

    SampledConsistency(model, prompt=PROMPT, stopping="none").estimate_many(
        QUESTIONS, batch_size=20
    )

    # 54 greedy answers; the nine refusals are not sampled.
    assert model.shapes == [(20, 1), (20, 1), (14, 1), (20, 10), (20, 10), (5, 10)]


def test_the_same_question_twice_is_asked_once_and_has_one_answer() -> None:
    model = Recording()
    estimator = SampledConsistency(model, prompt=PROMPT)

    found = estimator.estimate_many(["torn 1", "torn 1", "torn 1"])

    assert found[0] == found[1] == found[2] == estimator.estimate("torn 1")
    assert {prompts for prompts, _ in model.shapes} == {1}


def test_without_a_seed_the_same_question_is_sampled_for_each() -> None:
    model = Recording()

    SampledConsistency(model, prompt=PROMPT, sampling=Sampling(seed=None)).estimate_many(
        ["lost", "lost"]
    )

    assert model.shapes[0] == (1, 1)
    assert model.shapes[1] == (2, 4)


# -- failures --------------------------------------------------------------------------


class Choosy(Recording):
    """Fails as a whole where a prompt holds one of the words."""

    def __init__(self, **failures: Exception) -> None:
        super().__init__()
        self._failures = failures
        self.asked: list[str] = []

    def generate(self, prompts: Sequence[str], **settings: Any) -> list[list[Generation]]:
        self.asked.extend(prompts)
        for word, failure in self._failures.items():
            if any(word in prompt for prompt in prompts):
                raise failure
        return super().generate(prompts, **settings)


async def test_a_failing_question_does_not_lose_the_others() -> None:
    good = SampledConsistency(Recording(), prompt=PROMPT)
    model = Choosy(
        **{"likely 3": PromptTooLongError("too long"), "torn 5": LanguageModelError("no")}
    )
    estimator = SampledConsistency(model, prompt=PROMPT)

    found = estimator.estimate_many(QUESTIONS, on_error="return")

    assert found == await estimator.aestimate_many(QUESTIONS, on_error="return")
    for question, one in zip(QUESTIONS, found, strict=True):
        if question == "likely 3":
            assert isinstance(one, PromptTooLongError)
        elif question == "torn 5":
            assert isinstance(one, LanguageModelError)
        else:
            assert one == good.estimate(question)


async def test_the_first_error_is_raised_unless_asked_otherwise() -> None:
    estimator = SampledConsistency(Choosy(sure=LanguageModelError("no")), prompt=PROMPT)

    with pytest.raises(LanguageModelError, match="no"):
        estimator.estimate_many(QUESTIONS)
    with pytest.raises(LanguageModelError, match="no"):
        await estimator.aestimate_many(QUESTIONS)


def test_a_model_that_hangs_costs_two_deadlines_and_not_one_for_every_question() -> None:
    model = Choosy(Question=LanguageModelTimeoutError("late"))

    found = SampledConsistency(model, prompt=PROMPT).estimate_many(
        QUESTIONS[:30], on_error="return"
    )

    assert all(isinstance(one, LanguageModelTimeoutError) for one in found)
    assert len(model.asked) == 30 + 2


def test_what_arrived_of_a_joint_call_is_used_and_only_the_rest_fails() -> None:
    class Broken(Recording):
        """Loses the prompts about `lost` altogether, and those about `torn` half-way."""

        def generate(self, prompts: Sequence[str], **settings: Any) -> list[list[Generation]]:
            rows = super().generate(prompts, **settings)
            if settings["temperature"] == 0:
                return rows
            lost = LanguageModelError("lost")
            kept = [
                row[:0] if "lost" in prompt else row[:3] if "torn" in prompt else row
                for prompt, row in zip(prompts, rows, strict=True)
            ]
            errors = [
                None if len(short) == len(row) else lost
                for short, row in zip(kept, rows, strict=True)
            ]
            raise PartialGenerationsError("lost", kept, errors)

    model = Broken()
    found = SampledConsistency(model, prompt=PROMPT, stopping="none").estimate_many(
        QUESTIONS[:5], on_error="return"
    )

    assert len(model.shapes) == 2  # nothing is asked again
    sure, likely, torn, lost, asked = found
    assert isinstance(lost, LanguageModelError)
    assert not isinstance(lost, PartialGenerationsError)
    assert isinstance(torn, Confidence)
    assert (torn.samples_drawn, torn.partial) == (3, True)
    for whole in (sure, likely, asked):
        assert isinstance(whole, Confidence)
        assert (whole.samples_drawn, whole.partial) == (10, False)


@pytest.mark.parametrize("rows", [[], [[Generation("a")]] * 3])
def test_too_many_or_too_few_answers_are_an_error(rows: list[list[Generation]]) -> None:
    class Miscounting(Recording):
        def generate(self, prompts: Sequence[str], **settings: Any) -> list[list[Generation]]:
            return rows

    found = SampledConsistency(Miscounting()).estimate_many(["a", "b"], on_error="return")

    assert all(isinstance(one, LanguageModelError) for one in found)


def test_an_error_of_another_kind_is_nobodys_answer() -> None:
    class Buggy(Recording):
        def generate(self, prompts: Sequence[str], **settings: Any) -> list[list[Generation]]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        SampledConsistency(Buggy()).estimate_many(["a", "b"], on_error="return")


# -- every kind of request ----------------------------------------------------------------


class Everything(StepwiseEstimator):
    """Asks for one thing of each kind."""

    @property
    def cost(self) -> Cost:
        return Cost(greedy_calls=1, forward_passes=2)

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="everything")

    def _steps(self, question: str) -> Steps[Confidence]:
        [greedy] = yield Draw(question)
        scores = yield Evaluate(question, "score_options", (" yes", " no"))
        state = yield Evaluate(question, "hidden_states", -1)
        shift = yield lambda: len(question)
        value = math.exp(scores[0]) / (math.exp(scores[0]) + math.exp(scores[1]))
        return Confidence(value, f"{greedy.text} {state.sum():.0f} {shift}", calls=1)


class Scoring(Recording):
    """Scores and states that follow from a prompt's length."""

    def score_options(self, prompts: Sequence[str], options: Sequence[str]) -> Any:
        self.shapes.append((len(prompts), -1))
        return np.array([[-len(p) / 10, -len(o)] for p in prompts for o in options[:1]])

    def hidden_states(self, prompts: Sequence[str], layer: int) -> Any:
        self.shapes.append((len(prompts), -2))
        return np.array([[len(p), layer] for p in prompts], dtype=np.float32)


async def test_scores_states_and_local_work_are_put_together_too() -> None:
    model = Scoring()
    estimator = Everything(model)
    questions = ["sure", "likely", "torn one"]

    found = estimator.estimate_many(questions)

    assert model.shapes == [(3, 1), (3, -1), (3, -2)]
    assert found == await estimator.aestimate_many(questions)
    assert found == [estimator.estimate(question) for question in questions]
    assert found[2].answer == "Ada 7 8"
