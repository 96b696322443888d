from __future__ import annotations

import numpy as np
import pytest

from knowgate.calibration import Interval
from knowgate.calibration.statistics import holm_adjusted, mcnemar_p_value

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
        assert found.low is not None
        assert found.high is not None
        # 0.6 − (0.9 · 0.5 + 0.1 · 0.5)
        covered += found.low <= 0.1 <= found.high
    assert 0.91 <= covered / trials <= 0.985
