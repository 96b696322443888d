"""Rates corrected for the errors of the judge that counted them."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.calibration import Interval
from knowgate.offline_eval.judging.correction import prediction_powered_rate

DRAWS = 400
LEVEL = 0.95
# Nominal less two standard errors of a share of so many draws.
LEAST = LEVEL - 2 * math.sqrt(LEVEL * (1 - LEVEL) / DRAWS)
# True positives, misses, false alarms, true negatives among the labelled; positives and size
# of the unlabelled; value, low, high of `ppi_mean_ci` and `ppi_mean_pointestimate` of
# ppi-python 0.2.3 at alpha .05.
PPI_PYTHON_0_2_3 = [
    ((10, 0, 8, 22), (114, 300), 0.2143479567, 0.1070907358, 0.3216051777),
    ((43, 14, 1, 42), (452, 900), 0.6101032258, 0.5399817168, 0.6802247348),
    ((10, 3, 6, 6), (30, 60), 0.4935694983, 0.3030790903, 0.6840599064),
]


def labels_of(table: tuple[int, int, int, int]) -> tuple[list[int], list[int]]:
    """People's labels and the judge's for a table of counts."""
    hit, miss, alarm, quiet = table
    human = [1] * (hit + miss) + [0] * (alarm + quiet)
    return human, [1] * hit + [0] * miss + [1] * alarm + [0] * quiet


def covers(interval: Interval, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= truth <= interval.high


def judged(
    rng: np.random.Generator,
    truth: NDArray[np.bool_],
    sensitivity: float,
    specificity: float | NDArray[np.float64],
) -> NDArray[np.bool_]:
    chance = rng.random(len(truth))
    return np.where(truth, chance < sensitivity, chance >= specificity)


@pytest.mark.parametrize(("table", "rest", "value", "low", "high"), PPI_PYTHON_0_2_3)
def test_prediction_powered_rates_equal_those_of_ppi_python(
    table: tuple[int, int, int, int], rest: tuple[int, int], value: float, low: float, high: float
) -> None:
    human, judge = labels_of(table)
    others = [1] * rest[0] + [0] * (rest[1] - rest[0])
    found = prediction_powered_rate(human, judge, others)
    assert found.value == pytest.approx(value, abs=1e-9)
    # To the interval of ppi-python two pseudo-labels are added, a miss and a false alarm.
    n, z = len(human), 1.959963984540054
    of_judge, of_all = sum(judge) / n, (sum(judge) + rest[0]) / (n + rest[1])
    tuned = (value - sum(human) / n) / (of_all - of_judge)
    weight, added, whole = min(1.0, tuned), z**2 / 4, n + z**2 / 2
    mean = (n * (sum(human) / n - tuned * of_judge) + added * (1 - weight)) / whole
    more = added * ((1 - mean) ** 2 + (weight + mean) ** 2) / whole**2
    half = z * math.sqrt(((high - low) / 2 / z * n / whole) ** 2 + more)
    centre = tuned * of_all + mean
    assert found.low == pytest.approx(centre - half, abs=1e-7)
    assert found.high == pytest.approx(centre + half, abs=1e-7)
    assert found.n == sum(table)


@pytest.mark.parametrize("labelled", [100, 200])
@pytest.mark.parametrize(("rate", "specificity"), [(0.3, 0.75), (0.6, 0.6)])
def test_prediction_powered_intervals_cover_the_truth_where_the_judges_own_do_not(
    rate: float, specificity: float, labelled: int
) -> None:
    rng = np.random.default_rng(23)
    right = naive = 0
    width, classical = 0.0, 0.0
    for _ in range(DRAWS):
        truth = rng.random(1_000) < rate
        judge = judged(rng, truth, 0.95, specificity)
        human = truth[:labelled].astype(float)
        found = prediction_powered_rate(
            human, judge[:labelled].astype(float), judge[labelled:].astype(float)
        )
        right += covers(found, rate)
        naive += covers(Interval.wilson(int(judge.sum()), 1_000), rate)
        width += (found.high or 0.0) - (found.low or 0.0)
        classical += 2 * 1.96 * float(human.std()) / math.sqrt(labelled)
    assert right / DRAWS >= LEAST
    assert naive / DRAWS < 0.2
    # The judge helps: the interval is narrower than that of the labels alone.
    assert width < classical


@pytest.mark.slow
def test_weights_make_up_for_a_sample_with_unequal_chances() -> None:
    rng = np.random.default_rng(29)
    right = unweighted = 0
    for _ in range(DRAWS):
        # Two systems of unlike size and rate; 75 replies of each are labelled.
        large = np.arange(1_000) < 800
        truth = rng.random(1_000) < np.where(large, 0.2, 0.7)
        judge = judged(rng, truth, 0.9, np.where(large, 0.7, 0.9)).astype(float)
        picked = np.concatenate(
            [
                rng.choice(np.flatnonzero(large), 75, False),
                rng.choice(np.flatnonzero(~large), 75, False),
            ]
        )
        rest = np.setdiff1d(np.arange(1_000), picked)
        human = truth[picked].astype(float)
        weights = np.where(large[picked], 800 / 75, 200 / 75)
        right += covers(
            prediction_powered_rate(human, judge[picked], judge[rest], weights=weights), 0.3
        )
        unweighted += covers(prediction_powered_rate(human, judge[picked], judge[rest]), 0.3)
    assert right / DRAWS >= LEAST
    assert unweighted / DRAWS < 0.5


@pytest.mark.slow
def test_replies_that_hang_together_widen_the_interval_as_much_as_they_must() -> None:
    rng = np.random.default_rng(31)
    right = apart = 0
    for _ in range(DRAWS):
        # 250 questions with four replies each; replies to one question are alike.
        ease = np.repeat(rng.beta(0.4, 0.6, 250), 4)
        truth = rng.random(1_000) < ease
        judge = judged(rng, truth, 0.9, 0.8).astype(float)
        questions = [str(i // 4) for i in range(1_000)]
        human = truth[:160].astype(float)
        found = prediction_powered_rate(
            human,
            judge[:160],
            judge[160:],
            groups=questions[:160],
            groups_unlabelled=questions[160:],
        )
        right += covers(found, 0.4)
        apart += covers(prediction_powered_rate(human, judge[:160], judge[160:]), 0.4)
    assert right / DRAWS >= 0.925
    assert apart / DRAWS < right / DRAWS - 0.1


@pytest.mark.parametrize(
    ("human", "judge"),
    [([0] * 50, [1] * 3 + [0] * 47), ([1] * 30, [1] * 28 + [0] * 2), ([0.5] * 30, [1] * 30)],
)
def test_labels_that_are_all_alike_are_no_proof_of_a_rate(
    human: list[float], judge: list[int]
) -> None:
    found = prediction_powered_rate(human, judge, [1, 0] * 200)
    assert found.low is not None
    assert found.high is not None
    # 0 of 50 leaves 3 / 50 possible.
    assert found.high - found.low > 0.05
    assert found.low <= (found.value or 0.0) <= found.high


@pytest.mark.parametrize(
    ("rate", "labelled", "sensitivity", "specificity"),
    [(0.03, 50, 0.8, 0.98), (0.03, 100, 0.8, 0.98), (0.97, 50, 0.95, 0.8), (0.1, 20, 0.8, 0.95)],
)
def test_intervals_of_rare_outcomes_and_few_labels_cover_the_truth(
    rate: float, labelled: int, sensitivity: float, specificity: float
) -> None:
    rng = np.random.default_rng(37)
    right = 0
    for _ in range(DRAWS):
        truth = rng.random(1_000) < rate
        judge = judged(rng, truth, sensitivity, specificity)
        human = truth[:labelled]
        right += covers(
            prediction_powered_rate(
                human.astype(float), judge[:labelled].astype(float), judge[labelled:].astype(float)
            ),
            rate,
        )
    assert right / DRAWS >= LEAST


def test_without_unlabelled_replies_the_labels_speak_alone() -> None:
    found = prediction_powered_rate([1, 1, 0, 0], [1, 0, 1, 0], [])
    assert found.value == 0.5
    # Agresti and Coull's, with z²/4 added to each side: 1.96 * sqrt(.25 / (4 + 1.92)).
    half = 1.959963984540054 * math.sqrt(0.25 / (4 + 1.959963984540054**2 / 2))
    assert found.low == pytest.approx(0.5 - half)
    assert found.high == pytest.approx(0.5 + half)


def test_no_label_gives_no_rate_and_one_label_no_interval() -> None:
    assert prediction_powered_rate([], [], [1, 0]) == Interval(None, None, None, 0)
    one = prediction_powered_rate([1], [1], [1, 0])
    assert (one.low, one.high, one.n) == (None, None, 1)
    assert one.value is not None
