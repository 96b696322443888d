"""Mixes of scorers, and scorers compared on the same cases: values by hand, shared draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knowgate.calibration import Interval, SelectiveCurve
from knowgate.calibration.mixing import MixedCase, fit_mix
from knowgate.calibration.selective_metrics import PairedScores
from knowgate.calibration.statistics import holm_adjusted, mcnemar_p_value, resampled
from tests.support.results import within

NUMBERS = np.random.default_rng(3).normal(size=(400, 4))


def cases(
    first: float, second: float, *, scale: float = 1.0, questions: int = 100
) -> list[MixedCase]:
    """Two cases a question; the values of two scorers hold so much of whether it suffices."""
    found: list[MixedCase] = []
    for row in range(2 * questions):
        sufficient, noise = row % 2 == 0, NUMBERS[row]
        sign = 1.0 if sufficient else -1.0
        values = (first * sign + noise[0], scale * (second * sign + noise[1]))
        parts = ((values[0], noise[2]), (values[1], noise[3]))
        found.append((parts, sufficient, row // 2))
    return found


def test_two_scorers_that_know_different_things_are_better_together() -> None:
    fit = fit_mix(cases(0.8, 0.8))
    assert fit.is_better
    assert (fit.cases, fit.units) == (200, 100)
    assert fit.mix.value is not None
    assert fit.alone.value is not None
    assert fit.difference.value == pytest.approx(fit.mix.value - fit.alone.value)
    # Two independent normal values of this strength are worth the log-odds 1.6 · (a + b).
    (a, _), (b, _) = fit.rule.weights
    assert a == pytest.approx(1.6, abs=0.5)
    assert b == pytest.approx(1.6, abs=0.5)


@pytest.mark.parametrize("second", [0.0, -2.0])
def test_a_scorer_that_knows_nothing_or_the_contrary_does_not_make_a_mix(second: float) -> None:
    fit = fit_mix(cases(1.5, second))
    assert not fit.is_better
    assert fit.best == 0
    assert all(weight >= 0 for pair in fit.rule.weights for weight in pair)
    if second < 0:
        assert fit.rule.weights[1][0] == 0.0


def test_the_scale_of_a_scorer_changes_its_weight_alone() -> None:
    plain, scaled = fit_mix(cases(0.8, 0.8)), fit_mix(cases(0.8, 0.8, scale=1000.0))
    assert scaled.rule.weights[1][0] == pytest.approx(plain.rule.weights[1][0] / 1000, rel=1e-4)
    assert scaled.rule.weights[0] == pytest.approx(plain.rule.weights[0], rel=1e-4)
    assert scaled.difference.value == pytest.approx(plain.difference.value, abs=1e-3)


def test_the_same_cases_give_the_same_mix_with_few_digits() -> None:
    first, again = fit_mix(cases(0.8, 0.8)), fit_mix(cases(0.8, 0.8))
    assert first == again
    assert all(float(f"{one:.6g}") == one for pair in first.rule.weights for one in pair)


def test_too_few_units_or_one_kind_alone_are_refused() -> None:
    with pytest.raises(ValueError, match="10 units"):
        fit_mix(cases(1.0, 1.0, questions=9))
    with pytest.raises(ValueError, match="both kinds"):
        fit_mix([one for one in cases(1.0, 1.0) if one[1]])


GOOD = {"a": [4.0, 3.0, 2.0, 1.0], "b": [4.0, 1.0, 2.0, 3.0]}
BAD = {"a": [2.5, 0.0, -1.0, -2.0], "b": [2.5, 2.5, 0.0, -math.inf]}
OWNERS = (["s", "t", "u", "v"], ["s", "t", "u", "v"])


def _paired(**options: int) -> PairedScores:
    return PairedScores(GOOD, BAD, OWNERS, **options)


def test_the_values_are_those_computed_by_hand() -> None:
    found = _paired()
    # a: of 16 pairs 2 and 1 lose against 2.5. b: 1 and 2 lose against both of 2.5.
    assert found.auroc("a").value == 14 / 16
    assert found.auroc("b").value == 12 / 16
    assert found.difference("a", "b").value == 2 / 16
    # One of four may pass. a: all positives above 0.0; b: 1 and 2 lie below 2.5.
    assert found.false_abstention("a", 0.25).value == 0.0
    assert found.false_abstention("b", 0.25).value == 0.5
    assert found.difference("b", "a", 0.25).value == 0.5
    assert found.count == 4


def test_each_draw_is_the_measure_on_the_drawn_cases() -> None:
    rng = np.random.default_rng(3)
    good, bad = rng.normal(1, 1, 9).round(1).tolist(), rng.normal(0, 1, 7).round(1).tolist()
    owners = [0, 0, 1, 2, 2, 3, 4, 4, 4], [0, 1, 1, 2, 3, 4, 4]
    found = PairedScores({"a": good}, {"a": bad}, owners, resamples=50)
    (parts,) = resampled(5, 50, 0)
    for weights, auroc, lost in zip(
        parts, found._measured("a")[1], found._measured("a", 0.3)[1], strict=True
    ):
        drawn = [
            [x for x, owner in zip(side, own, strict=True) for _ in range(int(weights[owner]))]
            for side, own in zip((good, bad), owners, strict=True)
        ]
        right, wrong = drawn
        expected = (
            SelectiveCurve.auroc(right, wrong),
            SelectiveCurve.false_abstention(right, wrong, 0.3),
        )
        assert (auroc, lost) == pytest.approx(expected)


def test_cases_of_one_cluster_are_one_piece_of_evidence() -> None:
    rng = np.random.default_rng(5)
    base = rng.normal(size=(2, 40))
    sides = [np.repeat(base[i] + 1 - i, 5).tolist() for i in (0, 1)]
    widths = []
    for owners in (np.repeat(np.arange(40), 5).tolist(), list(range(200))):
        found = PairedScores({"a": sides[0]}, {"a": sides[1]}, (owners, owners), resamples=400)
        interval = found.auroc("a")
        widths.append(interval.high - interval.low)  # type: ignore[operator]
    assert widths[0] > 1.7 * widths[1]


# statsmodels 0.15.0: mcnemar([[7, b], [c, 9]], exact=True), and of more than 1,000 pairs
# (exact=False, correction=True).
STATSMODELS = (
    (0, 5, 0.0625),
    (1, 8, 0.0390625),
    (12, 30, 0.007915897334896727),
    (3, 2, 1.0),
    (10, 40, 2.3861331676755526e-05),
    (600, 500, 0.0028361326556546836),
)


@pytest.mark.parametrize(("first", "second", "wanted"), STATSMODELS)
def test_mcnemar_agrees_with_statsmodels(first: int, second: int, wanted: float) -> None:
    assert mcnemar_p_value(first, second) == pytest.approx(wanted, rel=1e-9)


def test_holm_agrees_with_statsmodels() -> None:
    # statsmodels 0.15.0: multipletests(…, method="holm")
    found = holm_adjusted([0.01, 0.04, 0.03, 0.005, 0.2, 0.2, 0.9])

    assert found == pytest.approx([0.06, 0.16, 0.15, 0.035, 0.6, 0.6, 0.9])
    assert holm_adjusted([]) == []


def test_the_paired_difference_is_that_of_the_means_and_its_interval_holds_it() -> None:
    found = Interval.paired_difference([1, 1, 0, 1, 0], [0, 1, 0, 0, 1])

    assert found.value == pytest.approx(0.2)
    assert found.low is not None
    assert found.high is not None
    assert -1 <= found.low <= 0.2 <= found.high <= 1
    assert found.n == 5


def test_pairs_of_one_group_count_once() -> None:
    alone = Interval.paired_difference([1, 0] * 20, [0, 1] * 10 + [0, 0] * 10)
    grouped = Interval.paired_difference(
        [1, 0] * 20, [0, 1] * 10 + [0, 0] * 10, groups=[i // 4 for i in range(40)]
    )

    assert grouped.value == alone.value
    assert grouped.n == 10


def test_intervals_cover_the_true_difference_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    covered, trials, size = 0, 300, 150
    for trial in range(trials):
        # Hard questions are hard for both: the pairs are correlated.
        hard = rng.random(size)
        first = hard < 0.6
        second = (hard < 0.5) ^ (rng.random(size) < 0.1)
        found = Interval.paired_difference(
            first.astype(float), second.astype(float), resamples=400, seed=trial
        )
        # 0.6 − (0.9 · 0.5 + 0.1 · 0.5)
        covered += within(found, 0.1)
    assert 0.91 <= covered / trials <= 0.985


def test_scores_that_are_no_numbers_and_bootstraps_without_draws_are_rejected() -> None:
    with pytest.raises(ValueError, match="a: scores must not be NaN"):
        PairedScores({"a": [float("nan")]}, {"a": [0.0]}, ([0], [0]))
    with pytest.raises(ValueError, match="there must be a resample, not 0"):
        SelectiveCurve.bootstrap_auroc([([1.0], [0.0])], resamples=0)
