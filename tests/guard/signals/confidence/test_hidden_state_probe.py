"""The probe's file, its arithmetic, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowgate.guard import FingerprintMismatchError, InputError
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence.hidden_state import FittedProbe, HiddenStateProbe
from tests.support.local_models import StatefulLM

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
    silent = HiddenStateProbe(lm, probe=probe_with(), draws_answer=False).estimate("who #3")
    assert (silent.value, silent.answer, silent.calls) == (sure.value, "", 0)


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
