"""Confidence by sampled consistency: the share of samples that repeat the greedy answer."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import Any, Literal

from ..._model_steps import Draw, Steps, draw_some
from ...contracts import (
    Confidence,
    Cost,
    Generation,
    LanguageModel,
)
from ...errors import InputError, LanguageModelError
from ...matching import Sameness, SentenceMatcher, told_question
from ...prompts import Prompt
from ._driver import ClosedBookEstimator
from ._single_answers import settled_by_greedy
from .stopping import (
    BayesianStopping,
    CurtailedSampling,
    Sampling,
    StoppingRule,
)

Stopping = Literal["none", "curtailed", "bayesian"] | StoppingRule


_SAME = SentenceMatcher()


# So many samples decide at least where the model fails.
_FEWEST_SAMPLES = 3


class SampledConsistency(ClosedBookEstimator):
    """Share of up to n sampled answers that repeat the greedy answer.

    One greedy closed-book answer is drawn. Where the model gives log-probabilities
    and the greedy answer's own already settles the matter, that is the value and
    nothing is sampled. Otherwise samples are drawn in waves until the stopping rule
    says enough. A wave is never larger than what any outcome still needs, so drawing
    its samples at once wastes none. The value is matches / samples drawn; under the
    `curtailed` rule it is at least τ exactly when that of all n samples would be. A
    greedy answer that is a refusal has confidence 0.

    Where the model fails part-way, what was drawn decides if it is enough, and the
    confidence says `partial`.

    Args:
        language_model: what is asked; samples of one wave are drawn side by side
            as far as its own bound allows.
        sampling: how many samples a full estimate has, and how they are drawn. The
            k-th has seed + 1 + k whatever the waves, so every rule sees the same.
        threshold: share τ from which on an answer counts as known; a guard puts its
            policy's in the place of it.
        prompt: closed-book prompt with a `{question}` slot.
        same: when two answers count as one, e.g. `same_answer`, an `AnswerMatcher` with
            aliases or a `SameMeaning`; one with a method `about(question)` is told the
            question by it, as the default is.
        stopping: `curtailed` (exact: the decision of all n samples), `bayesian`
            (`BayesianStopping` with its defaults), `none` (always n), or a rule.
        shortcut: from which probability in (0, 1] on the greedy answer is known without
            sampling, where n samples would hardly decide otherwise (see `settled_by_greedy`);
            None for never.

    Raises:
        InputError: `language_model` is not one, e.g. a bare LangChain chat model, or an
            argument is out of its range.

    Source: the PK estimation of UniKnow (n = 10, τ = 0.7), with the greedy answer
    in the place of the gold answer; self-consistency, Wang et al. 2023.
    """

    kind = "sampled_consistency"

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        sampling: Sampling | None = None,
        threshold: float = 0.7,
        prompt: Prompt | None = None,
        same: Sameness = _SAME,
        stopping: Stopping = "curtailed",
        shortcut: float | None = 0.9,
    ) -> None:
        sampling = Sampling() if sampling is None else sampling
        super().__init__(language_model, prompt, sampling.seed)
        self._n = sampling.n
        self._threshold = threshold
        self._temperature, self._seed = sampling.temperature, sampling.seed
        self._same = same
        self._rule = _rule(stopping, self._n, threshold)
        if shortcut is not None and not 0.0 < shortcut <= 1.0:
            raise InputError("must be in (0, 1] or None", where="shortcut")
        self._shortcut = shortcut

    def deciding_at(self, threshold: float) -> SampledConsistency:
        """The same estimator, stopping once "at least `threshold`" is decided.

        Args:
            threshold: share in (0, 1]; the guard gives its policy's.
        """
        if threshold == self._threshold:
            return self
        rule: Any = "none" if self._rule is None else self._rule
        if (deciding_at := getattr(rule, "deciding_at", None)) is not None:
            rule = deciding_at(threshold)
        changed = copy(self)
        changed._threshold = threshold
        changed._rule = _rule(rule, self._n, threshold)
        return changed

    @property
    def cost(self) -> Cost:
        """One greedy answer and at most n samples."""
        return Cost(greedy_calls=1, sampled_calls=self._n)

    def _settings(self) -> Mapping[str, str | int | float | None]:
        return {
            "n": self._n,
            "threshold": self._threshold,
            "temperature": self._temperature,
            "prompt_sha256": self._prompt.sha256,
            "same": _name(self._same),
            "stopping": _name(self._rule) if self._rule else f"FullSampling(n={self._n})",
            "accept_probability": self._shortcut,
            "reject_probability": None,
        }

    def _after(self, question: str, answer: str, greedy: Generation) -> Steps[Confidence]:
        settled = None
        # Above temperature 1 the probability says too much.
        if self._shortcut is not None and self._temperature <= 1.0:
            least = max(self._shortcut, self._threshold)
            settled = settled_by_greedy(greedy, self._n, self._threshold, least)
        if settled is not None:
            return Confidence(settled, answer, samples_drawn=0, samples_saved=self._n, calls=1)
        prompt = self._prompt.fill(question=question)
        same = told_question(self._same, question)
        matches = misses = 0
        failed: LanguageModelError | None = None
        while (wave := self._next_wave(matches, misses)) > 0:
            # Waves must not repeat each other's samples, so the seed moves on.
            seed = None if self._seed is None else self._seed + matches + misses + 1
            draw = Draw(prompt, wave, self._temperature, seed)
            least = min(_FEWEST_SAMPLES, self._n) - matches - misses
            arrived, failed = yield from draw_some(draw, least)
            count = partial(_repeats, same, answer, arrived)
            # The default is too quick to be worth a thread.
            repeated: int = count() if self._same is _SAME else (yield count)
            matches, misses = matches + repeated, misses + len(arrived) - repeated
            if failed is not None:
                break
        drawn = matches + misses
        # A decision that those that arrived fix is none the worse for the rest.
        short = failed is not None and self._next_wave(matches, misses) > 0
        saved = 0 if short else self._n - drawn
        return Confidence(matches / drawn, answer, drawn, saved, 1 + drawn, short)

    def _next_wave(self, matches: int, misses: int) -> int:
        left = self._n - matches - misses
        return left if self._rule is None else min(self._rule.next_wave(matches, misses), left)


def _repeats(same: Sameness, answer: str, samples: list[Generation]) -> int:
    """How many samples say the same as the answer."""
    return sum(same(answer, sample.text) for sample in samples)


def _rule(stopping: Stopping, n: int, threshold: float) -> StoppingRule | None:
    """The rule; None to draw all samples at once."""
    # Whatever the rule, these must be in their ranges.
    curtailed = CurtailedSampling(n=n, threshold=threshold)
    if isinstance(stopping, str) and stopping in ("none", "curtailed", "bayesian"):
        rules = {"curtailed": curtailed, "bayesian": BayesianStopping(n, threshold)}
        return rules.get(stopping)
    if not isinstance(stopping, StoppingRule):
        raise InputError(
            f"{stopping!r} is unknown", where="stopping", hint="none, curtailed, bayesian or a rule"
        )
    if stopping.next_wave(0, 0) < 1:
        raise InputError("draws nothing", where="stopping", hint="let the first wave have samples")
    return stopping


def _name(part: object) -> str:
    """Identify a rule or matcher by its fingerprint, settings or name."""
    if isinstance(fingerprint := getattr(part, "fingerprint", None), str):
        return fingerprint
    if isinstance(part, CurtailedSampling):
        return repr(part)
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"
