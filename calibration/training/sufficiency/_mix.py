"""Fitting the logistic mix of match features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....guard.errors import optional_import
from ....guard.signals.relevance import EchoMix, MatchModel

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MixExample:
    """Match features of a set of passages with its label.

    Attributes:
        vectors: features per passage; for a sufficient set the passage that suffices
            (or one that does half of it) first.
        joined: features of the passages taken as one.
        sufficient: whether the set suffices.
        weight: of the example, above 0.
        whole: whether the first passage of a sufficient set suffices alone; False for
            an answer in two halves.
    """

    vectors: tuple[tuple[float, ...], ...]
    joined: tuple[float, ...]
    sufficient: bool
    weight: float = 1.0
    whole: bool = True


def fit_match_model(
    examples: Sequence[MixExample],
    *,
    features: Sequence[str],
    length_penalty: float,
    told: EchoMix,
    prior: MatchModel | None = None,
    ridge: float = 0.1,
    fitted_on: str = "",
) -> MatchModel:
    """Fit both mixes by penalised logistic regression with weights of at least 0.

    Every feature grows with sufficiency by its making, so a negative weight could only
    follow an accident of the sample, and would not carry over to another domain.

    Args:
        examples: sets with and without a sufficient passage.
        features: names of the features, in the order of the vectors.
        length_penalty: with which the features were computed.
        told: kept with the model, with which the features were computed.
        prior: weights that the penalty draws towards; 0 without.
        ridge: penalty on standardised weights per unit of example weight, at least 0.
        fitted_on: kept with the model.

    Raises:
        ValueError: only one class among the examples, or a prior of other features.
    """
    if prior is not None and prior.features != tuple(features):
        raise ValueError("the prior has other features")
    several = [one for one in examples if len(one.vectors) > 1]
    rows = [MatchModel.several_row(one.vectors, one.joined) for one in several]
    start = None if prior is None else np.array(prior.several_weights)
    many = _fit(rows, several, ridge, start)
    # A passage alone: the first of each set, which answers in one half of the cases. Half
    # an answer does not, though the set that it is part of may.
    alone = [one for one in examples if one.whole or not one.sufficient]
    one_start = None if prior is None else np.array(prior.single_weights)
    one = _fit([list(e.vectors[0]) for e in alone], alone, ridge, one_start)
    return MatchModel.of(
        one,
        many,
        features=features,
        length_penalty=length_penalty,
        told=told,
        fitted_on=fitted_on,
    )


def _fit(
    rows: Sequence[Sequence[float]],
    examples: Sequence[MixExample],
    ridge: float,
    prior: Floats | None,
) -> list[float]:
    """Bias and weights on the features' own scale, rounded to 5 places."""
    optimize: Any = optional_import("scipy.optimize")
    x = np.asarray(rows, dtype=np.float64)
    y = np.asarray([one.sufficient for one in examples], dtype=np.float64)
    w = np.asarray([one.weight for one in examples], dtype=np.float64)
    if len(x) == 0 or y.min() == y.max():
        raise ValueError("both sufficient and insufficient sets are needed")
    centre, spread = x.mean(axis=0), x.std(axis=0)
    spread[spread < 1e-6] = 1.0
    z = (x - centre) / spread
    towards = np.zeros(x.shape[1]) if prior is None else prior[1:] * spread
    penalty = ridge * float(w.sum())

    def loss(theta: Floats) -> tuple[float, Floats]:
        logits = z @ theta[1:] + theta[0]
        away = theta[1:] - towards
        value = float(w @ (np.logaddexp(0.0, logits) - y * logits)) + penalty * float(away @ away)
        residual = w * (1.0 / (1.0 + np.exp(-logits)) - y)
        gradient = np.concatenate([[residual.sum()], z.T @ residual + 2.0 * penalty * away])
        return value, gradient

    bounds = [(None, None)] + [(0.0, None)] * x.shape[1]
    begin = np.concatenate([[0.0], towards])
    found = optimize.minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds)
    weights = found.x[1:] / spread
    bias = float(found.x[0] - weights @ centre)
    return [round(bias, 5), *(round(float(v), 5) for v in weights)]
