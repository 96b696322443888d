"""Confidence as the model itself puts it into a number."""

from __future__ import annotations

from .._contracts import Confidence, Cost, LanguageModel
from .._errors import LanguageModelError
from .._fingerprint import Fingerprint
from .._matching import is_refusal
from ..prompts import Prompt, bundled_prompt
from ._driver import Draw, Steps, StepwiseEstimator
from ._spoken_confidence import spoken_confidence


class Verbalized(StepwiseEstimator):
    """The number from 0 to 100 that the model gives for its own answer, as [0, 1].

    Weak: models say 80 to 100 whatever they know, the values cling to round numbers,
    and base or small models reply with anything. Use it only where a model gives
    neither log-probabilities nor samples at a bearable price, and calibrate it. A
    refusal has confidence 0 and is not asked about.

    Args:
        language_model: what is asked, twice: for the answer, then for the number.
        prompt: closed-book prompt with a `{question}` slot.
        asking: prompt with the slots `{question}` and `{answer}`.

    Raises:
        InputError: `language_model` is none, e.g. a bare LangChain chat model.

    Source: Lin et al. 2022, Teaching models to express their uncertainty in words; Tian
    et al. 2023, Just ask for calibration; its overconfidence: Xiong et al. 2024.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        prompt: Prompt | None = None,
        asking: Prompt | None = None,
    ) -> None:
        super().__init__(language_model)
        self._prompt = prompt or bundled_prompt("closed_book")
        self._asking = asking or bundled_prompt("verbalized")

    @property
    def cost(self) -> Cost:
        """One greedy answer and one number."""
        return Cost(greedy_calls=1, other_calls=1)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        return Fingerprint(
            kind="verbalized",
            backend="language_model",
            settings={
                "language_model": self._language_model.fingerprint,
                "prompt_sha256": self._prompt.sha256,
                "asking_sha256": self._asking.sha256,
            },
        )

    def _steps(self, question: str) -> Steps:
        [greedy] = yield Draw(self._prompt.fill(question=question))
        answer = greedy.text.strip()
        if is_refusal(answer):
            return Confidence(0.0, answer, calls=1)
        [reply] = yield Draw(self._asking.fill(question=question, answer=answer))
        value = spoken_confidence(reply.text)
        if value is None:
            raise LanguageModelError("no confidence can be read from the language model's reply")
        return Confidence(value, answer, calls=2)
