"""The fitted weights of a probe on hidden states, and the file they are kept in."""

from __future__ import annotations

import json
import math
import os
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from .._errors import InputError
from ..files import read_json, write_text

PROBE_SCHEMA_VERSION = 1

_Vector = tuple[FiniteFloat, ...]


class FittedProbe(BaseModel):
    """A logistic regression on one hidden state: p = σ(w · (x − mean) / scale + bias).

    Attributes:
        schema_version: of this file format; a newer one is refused.
        created_by: the program and version that wrote it.
        language_model: fingerprint of the model whose states it was fitted on.
        prompt_sha256: of the closed-book prompt it was fitted on.
        layer: 0 for the embeddings, k for the output of layer k, -1 for the last.
        position: whose token's state it is.
        mean: subtracted, one number per dimension.
        scale: divided by, each above 0.
        weights: one per dimension.
        bias: added.
        penalty: C of the regression, for the record.
        questions: how many it was fitted on.
        auroc: cross-validated, None where it could not be measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = PROBE_SCHEMA_VERSION
    created_by: str = ""
    language_model: str
    prompt_sha256: str
    layer: int
    position: Literal["last_prompt_token"] = "last_prompt_token"
    mean: _Vector
    scale: tuple[Annotated[FiniteFloat, Field(gt=0)], ...]
    weights: _Vector
    bias: FiniteFloat
    penalty: Annotated[FiniteFloat, Field(gt=0)] | None = None
    questions: Annotated[int, Field(ge=0)] = 0
    auroc: Annotated[FiniteFloat, Field(ge=0, le=1)] | None = None

    @model_validator(mode="after")
    def _one_width(self) -> FittedProbe:
        if not len(self.mean) == len(self.scale) == len(self.weights) > 0:
            raise ValueError("mean, scale and weights must be equally long, and not empty")
        return self

    def probability(self, state: ArrayLike) -> float:
        """The probability in [0, 1] for one hidden state of shape (width,).

        Raises:
            InputError: the state has another width.
        """
        vector = np.asarray(state, dtype=np.float64)
        if vector.shape != (len(self.weights),):
            raise InputError(
                f"a hidden state of shape {vector.shape} does not fit {len(self.weights)} weights",
                where="language_model",
            )
        scaled = (vector - np.asarray(self.mean)) / np.asarray(self.scale)
        logit = float(np.dot(scaled, np.asarray(self.weights))) + self.bias
        # Neither branch can overflow.
        return 1 / (1 + math.exp(-logit)) if logit >= 0 else 1 - 1 / (1 + math.exp(logit))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FittedProbe:
        """Read a probe's JSON file.

        Raises:
            InputError: the file is missing, not JSON, written by a newer knowgate, or a
                field is missing, unknown or out of range.
        """
        where = os.fspath(path)
        value: Any = read_json(path)
        version = value.get("schema_version") if isinstance(value, dict) else None
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise InputError(
                "no probe: field 'schema_version' is missing or not a positive number",
                where=where,
                mend="write it with knowgate.calibration.fit_hidden_state_probe",
            )
        if version > PROBE_SCHEMA_VERSION:
            raise InputError(
                f"probe schema {version} is newer than {PROBE_SCHEMA_VERSION}",
                where=where,
                mend="upgrade knowgate or fit it anew",
            )
        try:
            return cls.model_validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "the probe"
            raise InputError(
                f"{field}: {first['msg']}", where=where, mend="fit the probe anew"
            ) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the probe's JSON file atomically."""
        write_text(path, self.model_dump_json() + "\n")

    @property
    def sha256(self) -> str:
        """Hexadecimal sha256 of everything the numbers depend on."""
        import hashlib

        kept = self.model_dump(include=_COUNTS)
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


_COUNTS = {
    "language_model",
    "prompt_sha256",
    "layer",
    "position",
    "mean",
    "scale",
    "weights",
    "bias",
}
