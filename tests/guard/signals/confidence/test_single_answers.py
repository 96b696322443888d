"""Estimators of one answer: a confidence in words, P(True), token probability and the probe."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from knowgate.guard import FingerprintMismatchError, InputError, LanguageModelError
from knowgate.guard._model_steps import says_yes, share_of_yes
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import Sampling
from knowgate.guard.signals.confidence._single_answers import (
    PTrue,
    TokenProbability,
    Verbalized,
    spoken_confidence,
    token_probability,
)
from knowgate.guard.signals.confidence.hidden_state import FittedProbe, HiddenStateProbe
from knowgate.guard.testing import ScriptedLanguageModel
from tests.support.fakes import FailingLanguageModel
from tests.support.local_models import ScoringLM, StatefulLM
from tests.support.tables import table


def test_numbers_and_words_in_two_languages_are_read() -> None:
    for reply, expected in table(__file__, "numbers and words in two languages are read"):
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
    table(__file__, "replies are read by whole words"),
)
def test_replies_are_read_by_whole_words(reply: str, verdict: bool | None) -> None:
    assert says_yes(reply) is verdict


def test_a_refusal_is_not_asked_about() -> None:
    lm = ScriptedLanguageModel(default="I don't know")
    assert PTrue(lm).estimate("who?").value == 0.0
    assert lm.generated == 1


def test_verdicts_that_arrived_before_the_model_failed_are_used() -> None:
    lm = FailingLanguageModel(default="yes", fails_after=4)

    found = PTrue(lm, method="samples", sampling=Sampling(n=5)).estimate("who?")

    assert (found.value, found.partial, found.calls) == (1.0, True, 4)


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
    from knowgate.guard.signals.confidence._single_answers import Statistic

    lm = ScriptedLanguageModel()
    prints = {
        TokenProbability(lm, statistic=name).fingerprint.model_dump_json()
        for name in get_args(Statistic)
    }
    assert len(prints) == 3
    with pytest.raises(InputError, match="statistic"):
        TokenProbability(lm, statistic="median")  # type: ignore[arg-type]


CLOSED_BOOK = Prompt.bundled("closed_book")


def probe_with(**changes: Any) -> FittedProbe:
    values: dict[str, Any] = {
        "language_model": "stateful",
        "prompt_sha256": CLOSED_BOOK.sha256,
        "layer": 2,
        "mean": (0.0,) * 5,
        "scale": (1.0, 1.0, 1.0, 0.5, 1.0),
        "weights": (0.0, 0.0, 0.0, 1.0, 0.0),
        "bias": -1.0,
    }
    return FittedProbe(**(values | changes))


def test_the_probability_is_the_logistic_of_the_scaled_state() -> None:
    state = [9.0, 9.0, 9.0, 1.5, 9.0]
    assert probe_with().probability(state) == pytest.approx(1 / (1 + math.exp(-2.0)))
    assert probe_with(bias=-1e6).probability(state) == pytest.approx(0.0)
    assert probe_with(bias=1e6).probability(state) == 1.0
    with pytest.raises(InputError, match="does not fit"):
        probe_with().probability([1.0])


async def test_the_estimator_reads_the_state_of_its_own_prompt() -> None:
    lm = StatefulLM(default="Ada")
    estimator = HiddenStateProbe(lm, probe=probe_with())
    sure, unsure = estimator.estimate_many(["who #3", "who #-3"])
    assert sure.value > 0.9 > 0.1 > unsure.value
    assert (sure.answer, sure.calls) == ("Ada", 1)
    assert await estimator.aestimate("who #3") == sure


def test_a_probe_survives_its_file(tmp_path: Path) -> None:
    probe = probe_with(mean=tuple(np.random.default_rng(0).normal(size=5).tolist()))
    probe.save(tmp_path / "probe.json")
    assert FittedProbe.load(tmp_path / "probe.json") == probe
    HiddenStateProbe(StatefulLM(), probe=tmp_path / "probe.json")


def test_a_probe_of_another_model_or_prompt_is_refused() -> None:
    with pytest.raises(FingerprintMismatchError, match="another language model"):
        HiddenStateProbe(StatefulLM(), probe=probe_with(language_model="other"))
    with pytest.raises(FingerprintMismatchError, match="another prompt"):
        HiddenStateProbe(StatefulLM(), probe=probe_with(), prompt=Prompt("mine", "{question}"))


def test_the_fingerprint_follows_the_weights_and_not_the_record() -> None:
    lm = StatefulLM()
    one, two, three = (
        HiddenStateProbe(lm, probe=probe_with(**change)).fingerprint
        for change in ({}, {"questions": 7}, {"bias": 0.5})
    )
    assert one == two != three
