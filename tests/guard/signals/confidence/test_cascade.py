"""The cascade: settled cheaply at both ends, sampled in between, one greedy answer."""

from __future__ import annotations

import math
from typing import Any

import pytest

from knowgate.guard import LanguageModelError
from knowgate.guard.signals.confidence import SampledConsistency, Sampling
from knowgate.guard.signals.confidence._cascade import Cascade
from knowgate.guard.signals.confidence._single_answers import PTrue, Verbalized
from knowgate.guard.testing import ScriptedLanguageModel
from tests.support.fakes import FailingLanguageModel

SCRIPT = {"sure": "Ada", "unsure": "Bob", "middle": "Cleo"}
LOGPROBS = {"Ada": math.log(0.95), "Bob": math.log(0.05), "Cleo": math.log(0.5)}


def scripted(**changes: Any) -> ScriptedLanguageModel:
    # "unsure" holds "sure", so the longer fragment has to come first.
    script = {name: SCRIPT[name] for name in ("unsure", "sure", "middle")}
    kind = FailingLanguageModel if "fails_after" in changes else ScriptedLanguageModel
    return kind(script, **({"logprobs": LOGPROBS} | changes))


@pytest.mark.parametrize(("question", "value"), [("sure?", 0.95), ("unsure?", 0.05)])
def test_the_clear_cases_cost_one_call(question: str, value: float) -> None:
    lm = scripted()
    found = Cascade(lm).estimate(question)
    assert found.value == pytest.approx(value)
    assert (found.calls, found.samples_drawn, found.samples_saved) == (1, 0, 10)
    assert lm.generated == 1


def test_in_between_samples_decide_and_the_greedy_answer_is_drawn_once() -> None:
    lm = scripted()
    found = Cascade(lm).estimate("middle?")
    # Six matches in a row stop the Bayesian rule; their share is held below the accepted ones.
    assert (found.value, found.answer, found.samples_drawn) == (0.9, "Cleo", 6)
    assert found.calls == lm.generated == 7


async def test_all_forms_of_asking_agree() -> None:
    questions = ["sure?", "unsure?", "middle?"]
    estimator = Cascade(scripted())
    single = [estimator.estimate(question) for question in questions]
    assert estimator.estimate_many(questions) == single
    assert await estimator.aestimate_many(questions) == single


def test_values_are_in_one_order_whatever_the_bands() -> None:
    found = Cascade(scripted(), accept=0.6, reject=0.3).estimate_many(["sure?", "unsure?"])
    assert found[0].value == pytest.approx(1 - 0.1 * 0.05 / 0.4)
    assert found[1].value == pytest.approx(0.1 * 0.05 / 0.3)


def test_without_bands_every_question_is_sampled() -> None:
    estimator = Cascade(scripted(), accept=None, reject=None)
    assert all(row.samples_drawn or row.value for row in estimator.estimate_many(["unsure?"]))
    assert estimator.estimate("unsure?").samples_drawn > 0


def test_a_threshold_reaches_the_costly_estimator() -> None:
    lm = scripted()
    costly = SampledConsistency(lm, shortcut=None)
    estimator = Cascade(lm, costly=costly)
    assert estimator.deciding_at(0.7) is estimator
    assert estimator.deciding_at(0.5).estimate("middle?").samples_drawn == 5
    assert estimator.deciding_at(0.5).fingerprint != estimator.fingerprint


def test_what_it_needs_and_costs_is_that_of_its_parts() -> None:
    lm = scripted()
    assert Cascade(lm).cost.most_calls == 11
    spoken = Cascade(
        lm, cheap=Verbalized(lm), costly=PTrue(lm, method="samples", sampling=Sampling(n=3))
    )
    assert spoken.cost.most_calls == 1 + 1 + 3


def test_a_costly_failure_is_the_questions_own() -> None:
    lm = scripted(fails_after=2)
    found = Cascade(lm).estimate_many(["sure?", "middle?"], on_error="return")
    assert isinstance(found[1], LanguageModelError)
    assert not isinstance(found[0], LanguageModelError)
