"""A fitted probe on hidden states, and its file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, FiniteFloat, model_validator

from ..._model_steps import Evaluate, Steps
from ...contracts import Confidence, Cost, Generation, LanguageModel
from ...errors import FingerprintMismatchError, InputError
from ...files import json_sha256, write_text
from ...fingerprint import Artefact, Fingerprint
from ...prompts import Prompt
from ...read_models import read_model
from ._driver import ClosedBookEstimator

PROBE_SCHEMA_VERSION = 1

_Vector = tuple[FiniteFloat, ...]
# Fields that no number depends on.
_FOR_THE_RECORD = {"schema_version", "created_by", "penalty", "questions", "auroc"}


class FittedProbe(Artefact):
    """A logistic regression on one hidden state: p = σ(w · (x − mean) / scale + bias).

    Attributes:
        schema_version: of this file format; a newer one is rejected.
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

    schema_version: Annotated[int, Field(le=PROBE_SCHEMA_VERSION)] = PROBE_SCHEMA_VERSION
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
            InputError: the file is missing, not JSON or of a newer knowgate, or a field is wrong.
        """
        hint = "upgrade knowgate, or write it with knowgate.calibration.fit_hidden_state_probe"
        return read_model(path, cls, hint=hint)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the probe's JSON file atomically."""
        write_text(path, self.model_dump_json() + "\n")

    @property
    def sha256(self) -> str:
        """Hexadecimal sha256 of everything the numbers depend on."""
        return json_sha256(self.model_dump(exclude=_FOR_THE_RECORD))


class HiddenStateProbe(ClosedBookEstimator):
    """A fitted probe's probability, from the state of the prompt's last token, in [0, 1].

    Reads whether the model knows before it says a word: one forward pass on the
    prompt, besides the greedy answer. Strong on questions like those it was fitted on,
    and already a probability there; it may fail silently on other kinds of questions,
    so fit it on the served ones with `knowgate.calibration.fit_hidden_state_probe`.
    A refusal has confidence 0.

    Args:
        language_model: a local model that shows its hidden states.
        probe: what was fitted on exactly this model, or the path of its file.
        prompt: the closed-book prompt that it was fitted with.

    Raises:
        InputError: the model shows no hidden states, or the file cannot be used.
        FingerprintMismatchError: the probe was fitted on another model or prompt.

    Source: P(IK) of Kadavath et al. 2022; probes on hidden states as in Azaria and
    Mitchell 2023, The internal state of an LLM knows when it's lying.
    """

    kind = "hidden_state_probe"
    cost = Cost(greedy_calls=1, forward_passes=1)

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        probe: FittedProbe | str | os.PathLike[str],
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(language_model, prompt)
        if not callable(getattr(language_model, "hidden_states", None)):
            raise InputError(
                f"a {type(language_model).__name__} shows no hidden states",
                where="language_model",
                hint="use a local model, e.g. knowgate.adapters.huggingface.HuggingFaceLM",
            )
        self._probe = probe if isinstance(probe, FittedProbe) else FittedProbe.load(probe)
        for what, fitted, found in (
            ("language model", self._probe.language_model, language_model.fingerprint),
            ("prompt", self._probe.prompt_sha256, self._prompt.sha256),
        ):
            if fitted != found:
                raise FingerprintMismatchError(
                    f"the probe was fitted on another {what} ({fitted!r} against {found!r})",
                    hint=f"use the {what} it was fitted on, or fit it again with this one",
                )

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        return super().fingerprint.model_copy(update={"weights_sha256": self._probe.sha256})

    def _settings(self) -> Mapping[str, str | int | bool]:
        return {
            "layer": self._probe.layer,
            "prompt_sha256": self._prompt.sha256,
            "draws_answer": True,
        }

    def _after(self, question: str, answer: str, greedy: Generation) -> Steps[Confidence]:
        prompt = self._prompt.fill(question=question)
        state = yield Evaluate(prompt, "hidden_states", self._probe.layer)
        return Confidence(self._probe.probability(state), answer, calls=1)
