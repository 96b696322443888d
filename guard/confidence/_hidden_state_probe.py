"""Confidence from a logistic probe on what goes on inside the model."""

from __future__ import annotations

import os
from typing import ClassVar

from .._contracts import (
    Confidence,
    Cost,
    HiddenStateLanguageModel,
    LanguageModel,
    Requirement,
)
from .._errors import FingerprintMismatchError, InputError
from .._fingerprint import Fingerprint
from .._matching import is_refusal
from ..prompts import Prompt, bundled_prompt
from ._driver import Draw, HiddenState, Steps, StepwiseEstimator
from ._fitted_probe import FittedProbe


class HiddenStateProbe(StepwiseEstimator):
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
        draws_answer: False spares the greedy answer: `Confidence.answer` is then
            empty, which is enough for routing but not for finding conflicts.

    Raises:
        InputError: the model shows no hidden states, or the file cannot be used.
        FingerprintMismatchError: the probe was fitted on another model or prompt.

    Source: P(IK) of Kadavath et al. 2022; probes on hidden states as in Azaria and
    Mitchell 2023, The internal state of an LLM knows when it's lying.
    """

    requirement: ClassVar[Requirement] = Requirement.WEIGHTS

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        probe: FittedProbe | str | os.PathLike[str],
        prompt: Prompt | None = None,
        draws_answer: bool = True,
    ) -> None:
        super().__init__(language_model)
        if not isinstance(language_model, HiddenStateLanguageModel):
            raise InputError(
                f"a {type(language_model).__name__} shows no hidden states",
                where="language_model",
                mend="use a local model, e.g. knowgate.adapters.huggingface.HuggingFaceLM",
            )
        self._probe = probe if isinstance(probe, FittedProbe) else FittedProbe.load(probe)
        self._prompt = prompt or bundled_prompt("closed_book")
        self._draws_answer = draws_answer
        for what, fitted, found in (
            ("language model", self._probe.language_model, language_model.fingerprint),
            ("prompt", self._probe.prompt_sha256, self._prompt.sha256),
        ):
            if fitted != found:
                raise FingerprintMismatchError(
                    f"the probe was fitted on another {what} ({fitted!r} against {found!r})",
                    mend=f"use the {what} it was fitted on, or fit it anew with this one",
                )

    @property
    def cost(self) -> Cost:
        """One forward pass, and the greedy answer if it is drawn."""
        return Cost(greedy_calls=int(self._draws_answer), forward_passes=1)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        return Fingerprint(
            kind="hidden_state_probe",
            backend="language_model",
            weights_sha256=self._probe.sha256,
            settings={
                "language_model": self._probe.language_model,
                "layer": self._probe.layer,
                "prompt_sha256": self._prompt.sha256,
                "draws_answer": self._draws_answer,
            },
        )

    def _steps(self, question: str) -> Steps:
        prompt = self._prompt.fill(question=question)
        answer, calls = "", 0
        if self._draws_answer:
            [greedy] = yield Draw(prompt)
            answer, calls = greedy.text.strip(), 1
            if is_refusal(answer):
                return Confidence(0.0, answer, calls=1)
        state = yield HiddenState(prompt, self._probe.layer)
        return Confidence(self._probe.probability(state), answer, calls=calls)
