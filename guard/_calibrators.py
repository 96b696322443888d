"""Calibrators: raw score → probability, stored as plain numbers.

Fitting is `knowgate.calibration`'s work. What it finds is reduced to two
numbers or a step table, so that the guard applies it without scikit-learn and
a policy never contains a pickle. Every calibrator is non-decreasing: it never
changes which of two questions looks better.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator


class _Calibrator(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IdentityCalibrator(_Calibrator):
    """The score itself, clipped to [0, 1]."""

    kind: Literal["identity"] = "identity"

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return min(1.0, max(0.0, score))


class PlattCalibrator(_Calibrator):
    """Logistic curve `1 / (1 + exp(-(a·score + b)))`.

    Source: Platt 1999, Probabilistic outputs for support vector machines.

    Example:
        >>> PlattCalibrator(a=2.0, b=-1.0).apply(0.5)
        0.5
    """

    kind: Literal["platt"] = "platt"
    a: FiniteFloat = Field(gt=0)
    b: FiniteFloat

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return _sigmoid(self.a * score + self.b)


class TemperatureCalibrator(_Calibrator):
    """A probability whose log-odds are divided by a temperature.

    Source: Guo et al. 2017, On calibration of modern neural networks.
    """

    kind: Literal["temperature"] = "temperature"
    temperature: FiniteFloat = Field(gt=0)

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a `score` that is a probability itself."""
        p = min(1.0, max(0.0, score))
        if p in (0.0, 1.0):
            return p
        return _sigmoid(math.log(p / (1.0 - p)) / self.temperature)


class StepCalibrator(_Calibrator):
    """A non-decreasing step table, as isotonic regression and Venn–Abers give.

    Attributes:
        edges: strictly increasing scores at which the next value begins.
        values: probabilities, one more than `edges`.

    Example:
        >>> StepCalibrator(edges=(0.5,), values=(0.1, 0.8)).apply(0.5)
        0.8
    """

    kind: Literal["step"] = "step"
    edges: tuple[FiniteFloat, ...]
    values: tuple[Annotated[float, Field(ge=0, le=1)], ...]

    @model_validator(mode="after")
    def _monotone(self) -> StepCalibrator:
        if len(self.values) != len(self.edges) + 1:
            raise ValueError("values must be one longer than edges")
        if any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must increase")
        if any(b < a for a, b in zip(self.values, self.values[1:], strict=False)):
            raise ValueError("values must not decrease")
        return self

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return self.values[bisect_right(self.edges, score)]


Calibrator = Annotated[
    IdentityCalibrator | PlattCalibrator | TemperatureCalibrator | StepCalibrator,
    Field(discriminator="kind"),
]


def _sigmoid(x: float) -> float:
    # One formula nearly everywhere: it is non-decreasing to the last bit, which e / (1 + e) is
    # not. Far out, where exp(-x) would overflow, the 1 is lost in it anyway.
    return 1.0 / (1.0 + math.exp(-x)) if x > -700.0 else math.exp(x)
