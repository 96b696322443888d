"""Token probability: three statistics of one greedy answer."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest

from knowgate.guard import InputError, LanguageModelError
from knowgate.guard.signals.confidence._token_probability import TokenProbability, token_probability
from knowgate.guard.testing import ScriptedLanguageModel


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [("sequence", 0.5 * 0.8 * 0.9), ("mean", (0.5 * 0.8 * 0.9) ** (1 / 3)), ("minimum", 0.5)],
)
def test_the_statistics_are_product_geometric_mean_and_least(
    statistic: Any, expected: float
) -> None:
    logprobs = [math.log(p) for p in (0.8, 0.5, 0.9)]
    assert token_probability(logprobs, statistic) == pytest.approx(expected, rel=1e-12)


def test_rounding_above_one_stays_a_probability_and_minus_infinity_is_zero() -> None:
    assert token_probability([1e-7, 1e-7]) == 1.0
    assert token_probability([-math.inf, -0.1]) == 0.0
    assert token_probability([-1e6]) == 0.0


async def test_the_estimator_asks_once_and_counts_it() -> None:
    lm = ScriptedLanguageModel(default=" Ada ", logprobs={" Ada ": math.log(0.25)})
    estimator = TokenProbability(lm)
    found = estimator.estimate("who?")
    assert (found.answer, found.calls, found.samples_drawn) == ("Ada", 1, 0)
    assert found.value == pytest.approx(0.25)
    assert await estimator.aestimate("who?") == found
    assert estimator.estimate_many(["who?", "who else?"]) == [found, found]
    assert estimator.cost.most_calls == 1


def test_a_model_without_log_probabilities_is_named_as_the_cause() -> None:
    estimator = TokenProbability(ScriptedLanguageModel(default="Ada"))
    with pytest.raises(LanguageModelError, match="no token log-probabilities"):
        estimator.estimate("who?")


def test_a_refusal_has_no_confidence_even_without_log_probabilities() -> None:
    found = TokenProbability(ScriptedLanguageModel(default="I don't know")).estimate("who?")
    assert (found.value, found.calls) == (0.0, 1)


def test_every_statistic_has_a_fingerprint_of_its_own() -> None:
    from knowgate.guard.signals.confidence._token_probability import Statistic

    lm = ScriptedLanguageModel()
    prints = {
        TokenProbability(lm, statistic=name).fingerprint.model_dump_json()
        for name in get_args(Statistic)
    }
    assert len(prints) == 3
    with pytest.raises(InputError, match="statistic"):
        TokenProbability(lm, statistic="median")  # type: ignore[arg-type]
