"""Raw scores become probabilities: by hand, in range and never decreasing."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from knowgate.guard.fingerprint import AGGREGATORS, aggregator
from knowgate.guard.policy import IdentityCalibrator
from knowgate.guard.routing import (
    Calibrator,
    PlattCalibrator,
    StepCalibrator,
    TemperatureCalibrator,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@st.composite
def step_tables(draw: st.DrawFn) -> StepCalibrator:
    edges = sorted(draw(st.sets(finite, max_size=6)))
    size = len(edges) + 1
    values = sorted(draw(st.lists(st.floats(0, 1), min_size=size, max_size=size)))
    return StepCalibrator(edges=tuple(edges), values=tuple(values))


calibrators = (
    st.just(IdentityCalibrator())
    | st.builds(lambda a, b: PlattCalibrator(a=a, b=b), positive, finite)
    | st.builds(lambda t: TemperatureCalibrator(temperature=t), positive)
    | step_tables()
)


@pytest.mark.slow
@given(calibrators, finite, finite)
@settings(max_examples=40, deadline=None)
def test_a_calibrator_never_decreases_and_stays_within_zero_and_one(
    calibrator: Calibrator, first: float, second: float
) -> None:
    low, high = sorted((first, second))
    assert 0.0 <= calibrator.apply(low) <= calibrator.apply(high) <= 1.0


@pytest.mark.slow
@given(st.floats(-745, 745), st.sampled_from([0.0, math.inf]))
@settings(max_examples=40, deadline=None)
def test_neighbouring_scores_are_never_turned_round(score: float, towards: float) -> None:
    calibrator = PlattCalibrator(a=1.0, b=0.0)
    other = math.nextafter(score, towards)
    low, high = sorted((score, other))
    assert calibrator.apply(low) <= calibrator.apply(high)


@pytest.mark.parametrize(
    ("calibrator", "score", "probability"),
    [
        (IdentityCalibrator(), -0.5, 0.0),
        (IdentityCalibrator(), 0.25, 0.25),
        (IdentityCalibrator(), 7.0, 1.0),
        (PlattCalibrator(a=1.0, b=0.0), 0.0, 0.5),
        (PlattCalibrator(a=1.0, b=0.0), math.log(3), 0.75),
        (PlattCalibrator(a=1.0, b=0.0), -math.log(3), 0.25),
        (PlattCalibrator(a=1.0, b=0.0), 1e308, 1.0),
        (PlattCalibrator(a=1e308, b=0.0), -1e308, 0.0),
        (PlattCalibrator(a=1.0, b=0.0), -700.0, math.exp(-700.0)),
        (TemperatureCalibrator(temperature=1.0), 0.8, 0.8),
        (TemperatureCalibrator(temperature=2.0), 0.9, 0.75),
        (TemperatureCalibrator(temperature=2.0), 0.0, 0.0),
        (TemperatureCalibrator(temperature=2.0), 1.0, 1.0),
        (TemperatureCalibrator(temperature=5e-324), 0.6, 1.0),
        (StepCalibrator(edges=(0.2, 0.5), values=(0.1, 0.4, 0.9)), 0.2, 0.4),
        (StepCalibrator(edges=(0.2, 0.5), values=(0.1, 0.4, 0.9)), 0.19999999999999998, 0.1),
        (StepCalibrator(edges=(0.2, 0.5), values=(0.1, 0.4, 0.9)), 9.0, 0.9),
        (StepCalibrator(edges=(), values=(0.3,)), -1.0, 0.3),
    ],
)
def test_a_score_becomes_the_probability_worked_out_by_hand(
    calibrator: Calibrator, score: float, probability: float
) -> None:
    assert calibrator.apply(score) == pytest.approx(probability, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (PlattCalibrator, {"a": 0.0, "b": 0.0}),
        (PlattCalibrator, {"a": -1.0, "b": 0.0}),
        (PlattCalibrator, {"a": math.nan, "b": 0.0}),
        (TemperatureCalibrator, {"temperature": 0.0}),
        (StepCalibrator, {"edges": (0.5,), "values": (0.1,)}),
        (StepCalibrator, {"edges": (0.5, 0.5), "values": (0.1, 0.2, 0.3)}),
        (StepCalibrator, {"edges": (math.nan,), "values": (0.1, 0.2)}),
        (StepCalibrator, {"edges": (0.5,), "values": (0.2, 0.1)}),
        (StepCalibrator, {"edges": (0.5,), "values": (0.2, 1.1)}),
    ],
)
def test_a_calibrator_that_could_mislead_is_refused(kind: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**fields)


@pytest.mark.parametrize(
    ("name", "scores", "value"),
    [
        ("max", [-1.0, -2.0], -1.0),
        ("max", [0.2, 0.9, 0.3], 0.9),
        ("noisy_or", [0.5, 0.5], 0.75),
        ("noisy_or", [-3.0, 0.25], 0.25),
        ("noisy_or", [2.0, 0.1], 1.0),
        ("top3_mean", [4.0], 4.0),
        ("top3_mean", [1.0, 2.0], 1.5),
        ("top3_mean", [0.0, 3.0, 1.0, 2.0, -9.0], 2.0),
    ],
)
def test_scores_are_aggregated_as_worked_out_by_hand(
    name: str, scores: list[float], value: float
) -> None:
    assert aggregator(name)(scores) == pytest.approx(value, abs=1e-15)


@pytest.mark.slow
@given(st.sampled_from(sorted(AGGREGATORS)), st.lists(finite, min_size=1, max_size=6), st.data())
@settings(max_examples=25, deadline=None)
def test_a_better_passage_never_makes_the_whole_worse(
    name: str, scores: list[float], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(scores) - 1))
    better = data.draw(st.floats(min_value=scores[index], allow_infinity=False))
    improved = [*scores[:index], better, *scores[index + 1 :]]
    before, after = aggregator(name)(scores), aggregator(name)(improved)
    assert after >= before or math.isclose(after, before, rel_tol=1e-12)
