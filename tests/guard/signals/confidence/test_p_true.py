"""P(True): does the model take its own answer for right?"""

from __future__ import annotations

import math

import pytest

from knowgate.guard import LanguageModelError
from knowgate.guard._model_steps import says_yes, share_of_yes
from knowgate.guard.signals.confidence import Sampling
from knowgate.guard.signals.confidence._self_reported import PTrue
from knowgate.guard.testing import ScriptedLanguageModel
from tests.support.local_models import ScoringLM


def test_the_options_share_is_taken_over_all_spellings() -> None:
    scores = {" yes": math.log(0.2), "Yes": math.log(0.1), " no": math.log(0.1)}
    lm = ScoringLM(scores, default="Ada")
    found = PTrue(lm).estimate("who?")
    assert found.value == pytest.approx(0.3 / 0.4)
    assert (found.calls, lm.generated) == (1, 1)
    assert "who?" in lm.scored[0]
    assert "Ada" in lm.scored[0]


def test_improbable_options_neither_overflow_nor_vanish() -> None:
    assert share_of_yes([-2000.0], [-2000.0]) == 0.5
    assert share_of_yes([-5000.0], [-1.0]) == 0.0
    assert share_of_yes([-1.0], [-math.inf]) == 1.0
    with pytest.raises(LanguageModelError, match="neither yes nor no"):
        share_of_yes([-math.inf], [-math.inf])


@pytest.mark.parametrize(("reply", "expected"), [("Yes.", 0.8), ("no", 0.2)])
def test_a_reply_counts_by_its_first_token(reply: str, expected: float) -> None:
    lm = ScriptedLanguageModel(
        {"Proposed answer": reply}, default="Ada", logprobs={reply: math.log(0.8)}
    )
    found = PTrue(lm).estimate("who?")
    assert found.value == pytest.approx(expected)
    assert found.calls == 2


def test_without_log_probabilities_replies_are_sampled() -> None:
    lm = ScriptedLanguageModel({"Proposed answer": ["yes", "no", "perhaps"]}, default="Ada")
    found = PTrue(lm, sampling=Sampling(n=60, seed=3)).estimate("who?")
    assert 0.25 < found.value < 0.75
    assert (found.calls, lm.generated) == (62, 62)
    assert (
        PTrue(lm, method="samples", sampling=Sampling(n=60, seed=3)).estimate("who?").value
        == found.value
    )


def test_a_reply_that_says_neither_is_an_error_and_no_number() -> None:
    lm = ScriptedLanguageModel({"Proposed answer": "perhaps"}, default="Ada")
    with pytest.raises(LanguageModelError, match="neither yes nor no"):
        PTrue(lm).estimate("who?")


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (" **Yes**, it is", True),
        ("true", True),
        ("No", False),
        ("not right", False),
        ("不是", False),
        ("是的", True),
        ("Nobody", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_replies_are_read_by_whole_words(reply: str, verdict: bool | None) -> None:
    assert says_yes(reply) is verdict


def test_a_refusal_is_not_asked_about() -> None:
    lm = ScriptedLanguageModel(default="I don't know")
    assert PTrue(lm).estimate("who?").value == 0.0
    assert lm.generated == 1


def test_verdicts_that_arrived_before_the_model_failed_are_used() -> None:
    lm = ScriptedLanguageModel(default="yes", fails_after=4)

    found = PTrue(lm, method="samples", sampling=Sampling(n=5)).estimate("who?")

    assert (found.value, found.partial, found.calls) == (1.0, True, 4)
