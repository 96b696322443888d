"""A confidence in words: read where it can be, refused where not."""

from __future__ import annotations

import pytest

from knowgate.guard import LanguageModelError
from knowgate.guard.signals.confidence._self_reported import Verbalized, spoken_confidence
from knowgate.guard.testing import ScriptedLanguageModel


def test_numbers_and_words_in_two_languages_are_read() -> None:
    for reply, expected in [
        ("80%", 0.8),
        ("80％", 0.8),
        ("0.8", 0.8),
        (".85", 0.85),
        ("1.0", 1.0),
        ("80", 0.8),
        ("1", 0.01),
        ("100", 1.0),
        ("0", 0.0),
        ("80/100", 0.8),
        ("8 out of 10", 0.8),
        ("about 70-80%", 0.75),
        ("I am 80 percent sure", 0.8),
        ("Confidence: 85", 0.85),
        ("The answer is 1987. Confidence: 85", 0.85),
        ("90\nQuestion: how many are 7?", 0.9),
        ("very sure", 0.9),
        ("I'm not very sure", 0.35),
        ("I am not sure.", 0.3),
        ("very unlikely", 0.05),
        ("八成", 0.8),
        ("八成五", 0.85),
        ("九成把握", 0.9),
        ("百分之八十", 0.8),
        ("百分之八十五", 0.85),
        ("百分之85", 0.85),
        ("百分百", 1.0),
        ("不太确定", 0.35),
        ("完全确定", 0.98),
    ]:
        assert spoken_confidence(reply) == pytest.approx(expected)


@pytest.mark.parametrize(
    "reply", ["", "hello", "1987", "-5", "-5%", "110%", "12 and 30", "1,000", "3/7", "成功"]
)
def test_what_says_nothing_is_not_guessed(reply: str) -> None:
    assert spoken_confidence(reply) is None


async def test_the_model_is_asked_for_answer_and_number() -> None:
    lm = ScriptedLanguageModel({"How sure": "85%"}, default="Ada")
    estimator = Verbalized(lm)
    found = estimator.estimate("who?")
    assert (found.value, found.answer, found.calls) == (0.85, "Ada", 2)
    assert await estimator.aestimate("who?") == found
    assert "Ada" in lm.prompts[1]


def test_an_unreadable_reply_is_an_error_and_no_sentinel() -> None:
    lm = ScriptedLanguageModel({"How sure": "hm"}, default="Ada")
    with pytest.raises(LanguageModelError, match="no confidence can be read"):
        Verbalized(lm).estimate("who?")
