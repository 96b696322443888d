"""Confidence from one answer: its tokens' probabilities, or what the model says of it."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from ..._model_steps import (
    Draw,
    Steps,
    draw_some,
    first_token_share,
    no_verdict,
    score_yes,
    verdicts_of,
)
from ...artefacts import binomial_tail
from ...contracts import (
    Confidence,
    Cost,
    Generation,
    LanguageModel,
    ScoringLanguageModel,
)
from ...errors import InputError, LanguageModelError, require_known
from ...language import chinese_number, compiled, section
from ...prompts import Prompt
from ._driver import ClosedBookEstimator
from .stopping import Sampling, matches_needed

Statistic = Literal["sequence", "mean", "minimum"]


def token_probability(logprobs: Sequence[float], statistic: Statistic = "sequence") -> float:
    """One probability in [0, 1] from the log-probabilities of an answer's tokens.

    Args:
        logprobs: natural logs, at least one; -inf is a probability of 0.
        statistic: `sequence` is exp(Σ log p), the probability of exactly this answer;
            `mean` is exp(Σ log p / tokens), the inverse of the perplexity; `minimum` is
            exp(min log p), the least probable token.

    Raises:
        InputError: no tokens, NaN, or an unknown statistic.

    Example:
        >>> [round(token_probability([-0.1, -0.3], s), 3) for s in ("sequence", "mean", "minimum")]
        [0.67, 0.819, 0.741]
    """
    if not len(logprobs) or any(math.isnan(value) for value in logprobs):
        raise InputError("holds no numbers or NaN", where="logprobs")
    require_known(statistic, get_args(Statistic), "statistic")
    value = min(logprobs) if statistic == "minimum" else math.fsum(logprobs)
    # Rounding in half precision leaves log-probabilities a little above 0.
    return math.exp(min(0.0, value / len(logprobs) if statistic == "mean" else value))


class TokenProbability(ClosedBookEstimator):
    """Probability that the model gives to its own greedy answer, in [0, 1].

    One greedy call and nothing else: the cheapest estimator there is, where the model
    gives log-probabilities. Good on short answers; weak where the same thing can be
    said in many ways, since every wording takes its share of the probability, and on
    models that were tuned to sound sure. `sequence` falls with the answer's length,
    `mean` does not, `minimum` looks at the weakest token only. The token that ends the
    answer counts where the model gives it, as local ones do. A refusal has confidence 0.

    Args:
        language_model: what is asked; it must give `token_logprobs`.
        statistic: see `token_probability`.
        prompt: closed-book prompt with a `{question}` slot.

    Raises:
        InputError: `language_model` is not one, or the statistic is unknown.

    Source: sequence likelihood and perplexity as in Malinin and Gales 2021; the minimum
    after Manakul et al. 2023 (SelfCheckGPT), who take the maximum of −log p.
    """

    kind = "token_probability"
    cost = Cost(greedy_calls=1)

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        statistic: Statistic = "sequence",
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(language_model, prompt)
        require_known(statistic, get_args(Statistic), "statistic")
        self._statistic: Statistic = statistic

    def _settings(self) -> Mapping[str, str]:
        return {"statistic": self._statistic, "prompt_sha256": self._prompt.sha256}

    def _after(self, question: str, answer: str, greedy: Generation) -> Steps[Confidence]:
        value = token_probability(required_logprobs(greedy), self._statistic)
        return Confidence(value, answer, calls=1)
        yield  # asks for nothing more


def required_logprobs(generation: Generation) -> tuple[float, ...]:
    """The token log-probabilities of a generation.

    Raises:
        LanguageModelError: the model gave none, or NaN.
    """
    logprobs = generation.token_logprobs
    if not logprobs or any(math.isnan(value) for value in logprobs):
        raise LanguageModelError(
            "the language model gave no token log-probabilities — ask the provider for them, "
            "use a local model, or an estimator that needs text only"
        )
    return logprobs


# Full estimates of an accepted answer that may decide otherwise, at the most.
_MOST_OTHERWISE = 0.02


def settled_by_greedy(greedy: Generation, n: int, threshold: float, least: float) -> float | None:
    """The confidence that the greedy answer's own probability gives, where that is clear.

    At temperature 1 a sample repeats the greedy answer letter for letter with
    probability p = exp(Σ log p), and in other words at times besides: p is what the
    share of matches is at least in the long run, and lower temperatures only raise
    it. So p takes the place of the share, where n samples would hardly decide
    otherwise: no more than 2 in 100 times (1.3 at p = 0.9, n = 10 and τ = 0.7).

    Args:
        greedy: the greedy answer.
        n: samples of a full estimate.
        threshold: share τ from which on an answer counts as known.
        least: probability below which samples must decide.

    Returns:
        None where samples must decide, or the model gave no log-probabilities that are numbers.

    Example:
        >>> settled_by_greedy(Generation("Paris", (-0.01, -0.02)), 10, 0.7, 0.9) == math.exp(-0.03)
        True
    """
    logprobs = greedy.token_logprobs
    if not logprobs or math.isnan(total := math.fsum(logprobs)):
        return None
    probability = math.exp(min(0.0, total))
    if probability < least:
        return None
    if probability == 1.0:
        return probability
    otherwise = binomial_tail(matches_needed(n, threshold) - 1, n, probability)
    return probability if otherwise <= _MOST_OTHERWISE else None


_RULE = compiled("spoken", "numbers")
_WORDS = tuple(
    (re.compile(f"{one['english']}|{one['chinese']}"), float(one["share"]))
    for one in section("confidence")
)


def spoken_confidence(text: str) -> float | None:
    """The confidence in [0, 1] that a reply states; None where none can be read.

    What names its own scale is read first ("80%", "80/100", "8 out of 10", "百分之八十",
    "八成"), then a number beside a word such as "confidence", then a number that stands
    alone; "0.8" and "1.0" are shares, whole numbers are on the scale 0 to 100 that was
    asked for. Only then words count ("very sure", "不太确定"). Numbers off the scale,
    and several unmarked ones that differ, say nothing: a guess is never made.

    Example:
        >>> [spoken_confidence(text) for text in ("80%", "0.8", "80/100", "八成", "very sure")]
        [0.8, 0.8, 0.8, 0.8, 0.9]
        >>> spoken_confidence("The year was 1987.") is None
        True
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").strip()
    # A base model replies in the first line and then goes on with a question of its own.
    for part in dict.fromkeys((folded.split("\n")[0], folded)):
        for reading in (_stated_scale, _named_number, _lone_number, _words):
            found = reading(part)
            if found is not None:
                return found
    return None


def _stated_scale(text: str) -> float | None:
    if found := _RULE["of"].search(text):
        value, whole = float(found[1]), float(found[2])
        if whole in (1.0, 5.0, 10.0, 100.0) and value <= whole:
            return value / whole
    if found := _RULE["range"].search(text):
        return _within((float(found[1]) + float(found[2])) / 200)
    found = _RULE["percent"].search(text)
    if found and "-" not in text[max(0, found.start() - 1) : found.start()]:
        return _within(float(found[1]) / 100)
    if found := _RULE["chinese_percent"].search(text):
        return _within(_number(found[1]) / 100)
    if found := _RULE["tenths"].search(text):
        tenths = _number(found[1])
        extra = _number(found[2]) / 10 if found[2] else 0.5 if found[3] else 0.0
        return _within((tenths + extra) / 10)
    return None


def _named_number(text: str) -> float | None:
    found = _RULE["named"].search(text)
    return _on_scale(found[1]) if found else None


def _lone_number(text: str) -> float | None:
    read = {_on_scale(found[1]) for found in _RULE["plain"].finditer(text)} - {None}
    return read.pop() if len(read) == 1 else None


def _number(text: str) -> float:
    return float(text) if text[0].isascii() else chinese_number(text)


def _words(text: str) -> float | None:
    return next((value for pattern, value in _WORDS if pattern.search(text)), None)


def _on_scale(number: str) -> float | None:
    value = float(number)
    return _within(value if "." in number and value <= 1 else value / 100)


def _within(share: float) -> float | None:
    return round(share, 6) if 0.0 <= share <= 1.0 else None


class Verbalized(ClosedBookEstimator):
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
        InputError: `language_model` is not one, e.g. a bare LangChain chat model.

    Source: Lin et al. 2022, Teaching models to express their uncertainty in words; Tian
    et al. 2023, Just ask for calibration; its overconfidence: Xiong et al. 2024.
    """

    kind = "verbalized"
    cost = Cost(greedy_calls=1, other_calls=1)

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        prompt: Prompt | None = None,
        asking: Prompt | None = None,
    ) -> None:
        super().__init__(language_model, prompt)
        self._asking = asking or Prompt.bundled("verbalized")

    def _settings(self) -> Mapping[str, str]:
        return {"prompt_sha256": self._prompt.sha256, "asking_sha256": self._asking.sha256}

    def _after(self, question: str, answer: str, greedy: Generation) -> Steps[Confidence]:
        [reply] = yield Draw(self._asking.fill(question=question, answer=answer))
        value = spoken_confidence(reply.text)
        if value is None:
            raise LanguageModelError("no confidence can be read from the language model's reply")
        return Confidence(value, answer, calls=2)


Method = Literal["auto", "options", "reply", "samples"]


class PTrue(ClosedBookEstimator):
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
        sampling: how the k replies are drawn, five by default.
        prompt: closed-book prompt with a `{question}` slot.
        asking: prompt with the slots `{question}` and `{answer}`.

    Raises:
        InputError: `language_model` is not one or cannot do what `method` needs, or an
            argument is out of its range.

    Source: P(True) of Kadavath et al. 2022, Language models (mostly) know what they know.
    """

    kind = "p_true"

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        method: Method = "auto",
        sampling: Sampling | None = None,
        prompt: Prompt | None = None,
        asking: Prompt | None = None,
    ) -> None:
        super().__init__(language_model, prompt)
        require_known(method, get_args(Method), "method")
        self._sampling = sampling or Sampling(n=5)
        scores = isinstance(language_model, ScoringLanguageModel)
        if method == "options" and not scores:
            raise InputError(
                f"a {type(language_model).__name__} cannot score options",
                where="method",
                hint="use reply or samples",
            )
        self._method = ("options" if scores else "reply") if method == "auto" else method
        self._asking = asking or Prompt.bundled("p_true")

    @property
    def cost(self) -> Cost:
        """A greedy answer, and a forward pass, a reply or k replies."""
        if self._method == "options":
            return Cost(greedy_calls=1, forward_passes=1)
        return Cost(greedy_calls=1, other_calls=self._sampling.n + (self._method == "reply"))

    def _settings(self) -> Mapping[str, str | int | float | None]:
        options = self._method == "options"
        return {
            "method": self._method,
            "samples": None if options else self._sampling.n,
            "temperature": None if options else self._sampling.temperature,
            "words": "yes/no" if options else None,
            "prompt_sha256": self._prompt.sha256,
            "asking_sha256": self._asking.sha256,
        }

    def _after(self, question: str, answer: str, greedy: Generation) -> Steps[Confidence]:
        asked = self._asking.fill(question=question, answer=answer)
        if self._method == "options":
            share = yield from score_yes(asked, ["yes"], ["no"])
            return Confidence(share, answer, calls=1)
        calls = 1
        if self._method == "reply":
            [reply] = yield Draw(asked)
            calls += 1
            if reply.token_logprobs:
                return Confidence(first_token_share(reply), answer, calls=calls)
        sampling = self._sampling
        draw = Draw(asked, sampling.n, sampling.temperature, sampling.seed)
        # What arrived before the model failed speaks all the same.
        replies, _ = yield from draw_some(draw, least=1)
        partial = len(replies) < sampling.n
        verdicts = verdicts_of(replies)
        if not verdicts:
            raise no_verdict()
        share = sum(verdicts) / len(verdicts)
        return Confidence(share, answer, calls=calls + len(replies), partial=partial)
