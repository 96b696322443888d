"""Confidence from asking the model whether its own answer is right."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

from .._contracts import (
    Confidence,
    Cost,
    Generation,
    LanguageModel,
    Requirement,
    ScoringLanguageModel,
)
from .._errors import InputError, LanguageModelError, PartialGenerationsError
from .._fingerprint import Fingerprint
from .._matching import is_refusal
from ..prompts import Prompt, bundled_prompt
from ._driver import Draw, Score, Steps, StepwiseEstimator
from ._entropy_of_meanings import log_sum_exp

Method = Literal["auto", "options", "reply", "samples"]

_YES = re.compile(r"\W*(?:(?:yes|true|right|correct)(?![a-z])|是|对|對|正确|正確)", re.IGNORECASE)
_NO = re.compile(r"\W*(?:(?:no|not|false|wrong|incorrect)(?![a-z])|不|否|错|錯)", re.IGNORECASE)


class PTrue(StepwiseEstimator):
    """P(yes) / (P(yes) + P(no)) that the model's own answer is right, in [0, 1].

    After the greedy closed-book answer the model is asked whether that answer is right.
    Strong on large instructed models, better than token probability there; of little
    use on small or base models, which say yes to anything or nothing to the point. A
    refusal has confidence 0 and is not asked about.

    How the probability is read (`method`):

    - `options`: log-likelihoods of the two words after the question, each summed over
      its spellings (capital or not, with or without a space before it). One forward
      pass, nothing generated; needs a `ScoringLanguageModel`.
    - `reply`: from a greedy reply: its first token's probability p gives p for yes and
      1 − p for no; where the model gives no log-probabilities, as `samples`. The reply
      is expected to begin with the word.
    - `samples`: share of yes among the k sampled replies that say yes or no.
    - `auto`: `options` where the model can score them, otherwise `reply`.

    Args:
        language_model: what is asked.
        method: as above.
        samples: k.
        temperature: of the sampled replies, above 0.
        prompt: closed-book prompt with a `{question}` slot.
        asking: prompt with the slots `{question}` and `{answer}`.
        yes: the word for yes among the options.
        no: the word for no among the options.
        seed: makes the samples repeatable where the model honours seeds.

    Raises:
        InputError: `language_model` is none or cannot do what `method` needs, or an
            argument is out of its range.

    Source: P(True) of Kadavath et al. 2022, Language models (mostly) know what they know.
    """

    requirement: ClassVar[Requirement] = Requirement.TEXT

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        method: Method = "auto",
        samples: int = 5,
        temperature: float = 1.0,
        prompt: Prompt | None = None,
        asking: Prompt | None = None,
        yes: str = "yes",
        no: str = "no",
        seed: int | None = 0,
    ) -> None:
        super().__init__(language_model)
        if method not in get_args(Method):
            raise InputError(
                f"{method!r} is unknown",
                where="method",
                mend=f"one of: {', '.join(get_args(Method))}",
            )
        if samples < 1 or not 0.0 < temperature < math.inf:
            raise InputError("samples must be at least 1, and temperature above 0")
        scores = isinstance(language_model, ScoringLanguageModel)
        if method == "options" and not scores:
            raise InputError(
                f"a {type(language_model).__name__} cannot score options",
                where="method",
                mend="use reply or samples",
            )
        self._method = ("options" if scores else "reply") if method == "auto" else method
        self._samples, self._temperature, self._seed = samples, temperature, seed
        self._prompt = prompt or bundled_prompt("closed_book")
        self._asking = asking or bundled_prompt("p_true")
        self._words = yes, no
        if self._method == "options":
            self.requirement = Requirement.LOGPROBS  # type: ignore[misc]

    @property
    def cost(self) -> Cost:
        """A greedy answer, and a forward pass, a reply or k replies."""
        if self._method == "options":
            return Cost(greedy_calls=1, forward_passes=1)
        return Cost(greedy_calls=1, other_calls=self._samples + (self._method == "reply"))

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        return Fingerprint(
            kind="p_true",
            backend="language_model",
            settings={
                "language_model": self._language_model.fingerprint,
                "method": self._method,
                "samples": None if self._method == "options" else self._samples,
                "temperature": None if self._method == "options" else self._temperature,
                "words": "/".join(self._words) if self._method == "options" else None,
                "prompt_sha256": self._prompt.sha256,
                "asking_sha256": self._asking.sha256,
            },
        )

    def _steps(self, question: str) -> Steps:
        [greedy] = yield Draw(self._prompt.fill(question=question))
        answer = greedy.text.strip()
        if is_refusal(answer):
            return Confidence(0.0, answer, calls=1)
        asked = self._asking.fill(question=question, answer=answer)
        if self._method == "options":
            spellings = [_spellings(word) for word in self._words]
            scores = yield Score(asked, (*spellings[0], *spellings[1]))
            count = len(spellings[0])
            return Confidence(share_of_yes(scores[:count], scores[count:]), answer, calls=1)
        calls = 1
        if self._method == "reply":
            [reply] = yield Draw(asked)
            calls += 1
            if reply.token_logprobs:
                return Confidence(_first_token(reply), answer, calls=calls)
        try:
            replies: list[Generation] = yield Draw(
                asked, self._samples, self._temperature, self._seed
            )
        except PartialGenerationsError as error:
            # What arrived before the model failed speaks all the same.
            replies = [reply for row in error.generations for reply in row]
            if not replies:
                raise
        partial = len(replies) < self._samples
        verdicts = [verdict for reply in replies if (verdict := says_yes(reply.text)) is not None]
        if not verdicts:
            raise _no_verdict()
        share = sum(verdicts) / len(verdicts)
        return Confidence(share, answer, calls=calls + len(replies), partial=partial)


def share_of_yes(yes: Sequence[float], no: Sequence[float]) -> float:
    """P(yes) / (P(yes) + P(no)) from natural-log likelihoods of the spellings of each.

    Raises:
        LanguageModelError: neither has any probability.

    Example:
        >>> round(share_of_yes([-1.0], [-2.0]), 3)
        0.731
    """
    log_yes, log_no = log_sum_exp(yes), log_sum_exp(no)
    if not (math.isfinite(log_yes) or math.isfinite(log_no)):
        raise _no_verdict()
    # Written with the larger one in front, so that neither overflows.
    difference = log_no - log_yes
    return 1 / (1 + math.exp(difference)) if difference < 700 else 0.0


def says_yes(reply: str) -> bool | None:
    """Whether a reply begins with yes (or true, right, 是 …) or with no; None for neither.

    Example:
        >>> says_yes(" Yes, it is."), says_yes("不对。"), says_yes("Perhaps")
        (True, False, None)
    """
    text = unicodedata.normalize("NFKC", reply)
    if _NO.match(text):
        return False
    return True if _YES.match(text) else None


def _first_token(reply: Generation) -> float:
    verdict = says_yes(reply.text)
    if verdict is None or not reply.token_logprobs:
        raise _no_verdict()
    probability = math.exp(min(0.0, reply.token_logprobs[0]))
    return probability if verdict else 1 - probability


def _spellings(word: str) -> tuple[str, ...]:
    forms = (word, word.capitalize())
    return tuple(dict.fromkeys(space + form for space in (" ", "") for form in forms))


def _no_verdict() -> LanguageModelError:
    return LanguageModelError("the language model replied neither yes nor no")
