"""Estimators by name, and settings that are typing mistakes."""

from __future__ import annotations

import pytest

from knowgate.guard import ConfidenceEstimator, InputError
from knowgate.guard.signals.confidence import Sampling, StepwiseEstimator, load_estimator
from knowgate.guard.signals.confidence._registry import _ESTIMATORS, register_estimator
from knowgate.guard.testing import ScriptedLanguageModel


def test_the_names_are_those_of_the_fingerprints() -> None:
    lm = ScriptedLanguageModel()
    for name in set(_ESTIMATORS.names) - {"hidden_state_probe"}:
        found = load_estimator(name, lm)
        assert isinstance(found, ConfidenceEstimator)
        assert isinstance(found, StepwiseEstimator)
        assert found.fingerprint.kind == name
        assert found.cost.most_calls >= 1


def test_settings_reach_the_estimator() -> None:
    found = load_estimator("token_probability", ScriptedLanguageModel(), statistic="mean")
    assert found.fingerprint.settings["statistic"] == "mean"


def test_a_misspelt_setting_is_refused_with_the_right_ones() -> None:
    with pytest.raises(InputError, match=r"'statistics'.*statistic, prompt"):
        load_estimator("token_probability", ScriptedLanguageModel(), statistics="mean")


def test_a_missing_or_impossible_setting_is_an_input_error() -> None:
    lm = ScriptedLanguageModel()
    with pytest.raises(InputError, match=r"needs probe"):
        load_estimator("hidden_state_probe", lm)
    with pytest.raises(InputError, match=r"temperature"):
        load_estimator("sampled_consistency", lm, sampling=Sampling(temperature=0.0))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"cascade.*verbalized"):
        load_estimator("crystal_ball", ScriptedLanguageModel())


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(InputError, match=r"exists already"):
        register_estimator("cascade", lambda model: load_estimator("p_true", model))
