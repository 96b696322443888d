"""Fit a logistic mix of several scorers, and tell whether it is better than the best one alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..guard.fingerprint import MixRule
from .calibrators import deal_to_folds, logistic_regression
from .selective_metrics import PairedScores, SelectiveCurve
from .statistics import Interval

_FOLDS = 5
_FEWEST_UNITS = 10
# Weights in a policy have so many digits, so that processors that differ in the last agree.
_DIGITS = 6
_MIX, _ALONE = "mix", "alone"


# What several scorers say of one case: value and margin by each (see `MixRule`); whether the
# passages suffice; and what the case is evidence about: cases of one unit are kept together.
MixedCase = tuple[tuple[tuple[float, float], ...], bool, Hashable]


@dataclass(frozen=True, slots=True)
class MixFit:
    """A mix, and what speaks for it.

    Attributes:
        rule: fitted on all cases.
        best: place of the scorer that is best alone, by its value.
        mix: AUROC of mixes on cases that they were not fitted on.
        alone: AUROC of the best scorer on the same cases.
        difference: the first less the second, paired.
        cases: how many there are.
        units: how many independent ones.
        names: of the scorers, or of their runs where they have none.
    """

    rule: MixRule
    best: int
    mix: Interval
    alone: Interval
    difference: Interval
    cases: int
    units: int
    names: tuple[str, ...] = ()

    @property
    def is_better(self) -> bool:
        """Whether the interval of the difference lies above 0."""
        return self.difference.low is not None and self.difference.low > 0.0

    def to_dict(self) -> dict[str, Any]:
        """Whether the scorers are mixed, and why, as JSON."""
        taken = {"taken": self.is_better, "best_alone": self.names[self.best]}
        rates = {"auroc": self.mix, "auroc_of_best_alone": self.alone}
        rates["difference"] = self.difference
        return {"scorers": self.names, **taken, **rates, "cases": self.cases}


def fit_mix(cases: Sequence[MixedCase], *, seed: int = 0) -> MixFit:
    """Fit a mix, and compare mixes fitted on other units with the best scorer alone.

    The comparison is a paired bootstrap of the AUROC over units. The best scorer is chosen on all
    cases, which can only flatter it.

    Args:
        cases: of both kinds, with values of the same scorers.
        seed: of folds and draws.

    Raises:
        ValueError: a kind is missing, or there are fewer than 10 units.
    """
    labels = np.array([float(sufficient) for _, sufficient, _ in cases])
    units = sorted({unit for _, _, unit in cases}, key=repr)
    if len(units) < _FEWEST_UNITS or labels.min() == labels.max():
        raise ValueError(f"needs cases of both kinds, of {_FEWEST_UNITS} units or more")
    features = np.array([parts for parts, _, _ in cases], dtype=np.float64).reshape(len(cases), -1)
    place = {unit: number for number, unit in enumerate(units)}
    owners = np.array([place[unit] for _, _, unit in cases])
    held_out = np.zeros(len(cases))
    folds = deal_to_folds(owners, labels, _FOLDS, seed)
    for fold in range(_FOLDS):
        own = folds == fold
        intercept, weights = logistic_regression(
            features[~own], labels[~own], penalty=1.0, rising=True
        )
        held_out[own] = intercept + features[own] @ weights
    values = features[:, ::2]
    areas = [
        SelectiveCurve.auroc(one[labels == 1].tolist(), one[labels == 0].tolist()) or 0.0
        for one in values.T
    ]
    best = int(np.argmax(areas))
    scores, good = {_MIX: held_out, _ALONE: values[:, best]}, labels == 1
    compared = PairedScores(
        {name: one[good].tolist() for name, one in scores.items()},
        {name: one[~good].tolist() for name, one in scores.items()},
        (owners[good].tolist(), owners[~good].tolist()),
        seed=seed,
    )
    intercept, weights = logistic_regression(features, labels, penalty=1.0, rising=True)
    rounded = [float(f"{number:.{_DIGITS}g}") for number in (intercept, *weights)]
    return MixFit(
        rule=MixRule(
            intercept=rounded[0], weights=tuple(zip(rounded[1::2], rounded[2::2], strict=True))
        ),
        best=best,
        mix=compared.auroc(_MIX),
        alone=compared.auroc(_ALONE),
        difference=compared.difference(_MIX, _ALONE),
        cases=len(cases),
        units=len(units),
    )
