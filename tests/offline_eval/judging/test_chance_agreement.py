"""Agreement between annotators, against hand-computed values and other programs."""

from __future__ import annotations

import numpy as np
import pytest

from knowgate.calibration import Interval
from knowgate.offline_eval.judging.chance_agreement import (
    cohens_kappa,
    fleiss_kappa,
    krippendorff_alpha,
)

# Forty items, three annotators, tiers 1 to 3; then the same with labels left out.
WHOLE = (
    "222 331 111 313 333 111 222 333 232 112 233 111 222 312 132 222 222 333 233 323 "
    "111 331 112 333 122 333 222 333 333 333 332 111 333 111 333 112 223 222 311 211"
)
MISSING = (
    "22- 331 1-1 313 33- 11- -22 333 232 1-- --3 111 22- 312 13- 222 222 33- --3 3-3 "
    "111 3-- 112 333 1-2 3-3 22- 333 333 333 3-2 --1 -33 111 33- 1-2 223 222 311 211"
)
TIERS = ("1", "2", "3")


def items(text: str) -> list[list[str | None]]:
    return [[None if sign == "-" else sign for sign in word] for word in text.split()]


def column(text: str, annotator: int) -> list[str | None]:
    return [row[annotator] for row in items(text)]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(0, 1, 0.6183206106870229), (0, 2, 0.4691943127962085), (1, 2, 0.5492957746478873)],
)
def test_cohens_kappa_equals_scikit_learns(a: int, b: int, expected: float) -> None:
    # sklearn.metrics.cohen_kappa_score, scikit-learn 1.9.1
    assert cohens_kappa(column(WHOLE, a), column(WHOLE, b)).value == pytest.approx(expected)


def test_fleiss_kappa_equals_statsmodels() -> None:
    # statsmodels.stats.inter_rater.fleiss_kappa, statsmodels 0.15.0
    assert fleiss_kappa(items(WHOLE)).value == pytest.approx(0.5440151994933502)


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        (WHOLE, None, 0.5478150728309056),
        (WHOLE, TIERS, 0.5983558044822592),
        (MISSING, None, 0.5767602924201617),
        (MISSING, TIERS, 0.5828268324643823),
    ],
)
def test_alpha_equals_the_krippendorff_packages(
    text: str, order: tuple[str, ...] | None, expected: float
) -> None:
    # krippendorff.alpha, krippendorff 0.9.0
    assert krippendorff_alpha(items(text), order=order).value == pytest.approx(expected)


def test_cohens_kappa_by_hand() -> None:
    # Observed 35 of 50; by chance (25/50)(30/50) + (25/50)(20/50) = 0.5; (0.7 − 0.5) / 0.5.
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohens_kappa(first, second).value == pytest.approx(0.4)


def test_fleiss_kappa_by_hand() -> None:
    # Agreeing pairs 1, 1/3, 1, 1/3: mean 2/3; labels half and half: chance 1/2.
    found = fleiss_kappa(["aaa", "aab", "bbb", "bba"])
    assert found.value == pytest.approx((2 / 3 - 1 / 2) / (1 / 2))
    assert found.n == 4


def test_alpha_by_hand() -> None:
    # Coincidences aa 2, bb 2, ab 1, ba 1; n = 6, three of each label.
    # Observed 2/6; expected 2·3·3 / (6·5) = 0.6.
    assert krippendorff_alpha(["aa", "bb", "ab"]).value == pytest.approx(1 - (2 / 6) / 0.6)


def test_ordinal_alpha_by_hand() -> None:
    # Two of each label: distances 1–2 and 2–3 are 2² and 1–3 is 4². One pair 1–2 of three.
    found = krippendorff_alpha([["1", "2"], ["1", "2"], ["3", "3"]], order=TIERS)
    observed = 4 * 4 / 6
    expected = 2 * (2 * 2 * 4 + 2 * 2 * 4 + 2 * 2 * 16) / (6 * 5)
    assert found.value == pytest.approx(1 - observed / expected)


@pytest.mark.parametrize(
    "found",
    [
        cohens_kappa([], []),
        cohens_kappa(["a", None], [None, "a"]),
        cohens_kappa(["a"] * 9, ["a"] * 9),
        fleiss_kappa([]),
        fleiss_kappa([["a"], ["b"]]),
        fleiss_kappa(["aaa", "aaa"]),
        krippendorff_alpha([]),
        krippendorff_alpha([[None, None], ["a", None]]),
        krippendorff_alpha(["aa", "aa"]),
        krippendorff_alpha(["11", "11"], order=TIERS),
    ],
)
def test_what_cannot_be_measured_is_undefined(found: Interval) -> None:
    assert (found.value, found.low, found.high) == (None, None, None)


def test_items_of_one_group_are_drawn_together() -> None:
    # Every item four times over: the value stays, and the interval is that of the groups.
    first, second, once = column(WHOLE, 0) * 4, column(WHOLE, 1) * 4, items(WHOLE) * 4
    names = [str(number) for number in range(40)] * 4
    for grouped, alone, whole in (
        (
            cohens_kappa(first, second, groups=names),
            cohens_kappa(first, second),
            cohens_kappa(first[:40], second[:40]),
        ),
        (
            fleiss_kappa(once, groups=names),
            fleiss_kappa(once),
            fleiss_kappa(once[:40]),
        ),
        (
            krippendorff_alpha(once, groups=names),
            krippendorff_alpha(once),
            krippendorff_alpha(once[:40]),
        ),
    ):
        assert (grouped.n, alone.n, whole.n) == (40, 160, 40)
        assert grouped.value == pytest.approx(alone.value)
        assert width(grouped) == pytest.approx(width(whole), rel=0.08)
        assert width(grouped) > 1.7 * width(alone)


def width(found: Interval) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


@pytest.mark.slow
def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    # Annotators say the truth in 80 % and guess otherwise: alpha of a large sample is .64.
    rng = np.random.default_rng(5)

    def draw(n: int) -> list[list[str | None]]:
        truth = rng.integers(0, 2, size=(n, 1))
        right = rng.random((n, 3)) < 0.8
        labels = np.where(right, truth, rng.integers(0, 2, size=(n, 3)))
        present = rng.random((n, 3)) < 0.9
        return [
            [str(label) if here else None for label, here in zip(row, is_here, strict=True)]
            for row, is_here in zip(labels.tolist(), present.tolist(), strict=True)
        ]

    truth = krippendorff_alpha(draw(200_000)).value
    assert truth == pytest.approx(0.64, abs=0.01)
    trials = 200
    held = 0
    for _ in range(trials):
        found = krippendorff_alpha(draw(80))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.64 <= found.high
    # 95 % nominal; 200 trials spread by 1.5 points.
    assert 0.90 <= held / trials <= 0.99
