"""The small logistic model: weights in a file that people can read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .._errors import InputError
from ..files import read_json
from ._features import FEATURE_NAMES

_Finite = Annotated[float, Field(allow_inf_nan=False)]


class AbstentionModel(BaseModel):
    """Weights per feature, and the calibration of what they add up to.

    probability = σ(slope · (intercept + Σ weight · feature) + offset).

    Attributes:
        schema_version: of this file.
        fitted_on: the data, in words.
        intercept: of the logistic model.
        weights: by feature; exactly those of `FEATURE_NAMES`.
        slope: of the calibration, fitted on replies of domains left out.
        offset: of the calibration.
        threshold: from this probability on a reply abstains.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: Literal[1] = 1
    fitted_on: str = ""
    intercept: _Finite
    weights: dict[str, _Finite]
    slope: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    offset: _Finite = 0.0
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5

    @model_validator(mode="after")
    def _all_features_are_weighed(self) -> Self:
        unlike = set(self.weights) ^ set(FEATURE_NAMES)
        if unlike:
            raise ValueError(f"weights do not fit the features: {', '.join(sorted(unlike))}")
        return self

    @classmethod
    def load(cls, path: str | Path | None = None) -> AbstentionModel:
        """The model in the file `path`; by default the one that ships with the package.

        Raises:
            InputError: the file cannot be read or is no such model.
        """
        where = Path(str(resources.files(__package__))) / "weights.json" if path is None else path
        content = read_json(where)
        version = content.get("schema_version") if isinstance(content, dict) else None
        if isinstance(version, int) and version > 1:
            raise InputError(
                f"schema version {version} is newer than 1",
                where=str(where),
                mend="update knowgate",
            )
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(
                f"no abstention model ({place + ': ' if place else ''}{first['msg']})",
                where=str(where),
                mend="fit it anew with benchmarks/abstention.py --fit",
            ) from None

    def probability(self, features: Mapping[str, float]) -> float:
        """Calibrated probability, in [0, 1], that a reply with these features abstains."""
        total = self.intercept + sum(self.weights[name] * features[name] for name in FEATURE_NAMES)
        logit = self.slope * total + self.offset
        # Neither branch overflows.
        if logit >= 0:
            return 1.0 / (1.0 + math.exp(-min(logit, 700.0)))
        return math.exp(max(logit, -700.0)) / (1.0 + math.exp(max(logit, -700.0)))
