"""From a raw score to a probability: calibrators as plain numbers, and those that are bundled."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from ._fingerprint import Fingerprint
from ._model_files import EMBEDDED_SHA256
from ._scorer_defaults import output_scale


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


# Logistic regression of "the passage suffices" on the cosine, over 4,000 English question and
# passage pairs from 13 open data sets (`benchmarks/default_calibrator.py`): right on average
# over many domains, and no substitute for calibrating on one's own.
_EMBEDDED_BI_ENCODER = PlattCalibrator(a=4.972, b=-2.787)
# The trained scorers' values are log-odds already.
_LOG_ODDS = PlattCalibrator(a=1.0, b=0.0)


def known_calibrator(fingerprint: Fingerprint) -> Calibrator | None:
    """The calibrator bundled with a scorer, None where there is none for it."""
    scale = output_scale(fingerprint)
    if scale == "log_odds":
        return _LOG_ODDS
    if fingerprint.kind == "bi_encoder" and fingerprint.weights_sha256 == EMBEDDED_SHA256:
        return _EMBEDDED_BI_ENCODER
    return IdentityCalibrator() if scale == "share" else None


def default_calibrator(fingerprint: Fingerprint) -> Calibrator:
    """The calibrator to use until one is fitted on the user's own questions."""
    return known_calibrator(fingerprint) or IdentityCalibrator()
