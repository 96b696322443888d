"""Confidence from how often sampled closed-book answers repeat the greedy one."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

from .._arguments import checked_language_model
from .._contracts import Confidence, Generation, LanguageModel
from .._errors import LanguageModelError
from .._fingerprint import Fingerprint
from .._matching import is_refusal, same_answer
from ..prompts import Prompt, bundled_prompt
from ._stopping import CurtailedSampling


@dataclass(frozen=True, slots=True)
class _Draw:
    """Answers that the estimator wants drawn."""

    prompt: str
    n: int
    temperature: float
    seed: int | None


_Steps = Generator[_Draw, list[Generation], Confidence]


class SampledConsistency:
    """Share of up to n sampled answers that repeat the greedy answer.

    One greedy closed-book answer is drawn, then samples in waves until the
    decision at the threshold is fixed. A wave is never larger than what any
    outcome still needs, so drawing its samples at once wastes none. The value
    is matches / samples drawn: at least τ exactly when all n samples would have
    said "known". A greedy answer that is a refusal has confidence 0.

    Args:
        language_model: what is asked; samples of one wave are drawn side by side
            as far as its own bound allows.
        n: samples of a full estimate.
        threshold: share τ from which on an answer counts as known; a guard puts its
            policy's in the place of it.
        temperature: of the samples, above 0.
        prompt: closed-book prompt with a `{question}` slot.
        same: when two answers count as one.
        seed: makes the samples repeatable where the model honours seeds.

    Raises:
        InputError: `language_model` is none, e.g. a bare LangChain chat model.

    Source: the PK estimation of UniKnow (n = 10, τ = 0.7), with the greedy answer
    in the place of the gold answer; self-consistency, Wang et al. 2023.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        n: int = 10,
        threshold: float = 0.7,
        temperature: float = 1.0,
        prompt: Prompt | None = None,
        same: Callable[[str, str], bool] = same_answer,
        seed: int | None = 0,
    ) -> None:
        if not 0.0 < temperature < math.inf:
            raise ValueError("temperature must be above 0, or all samples are the greedy answer")
        self._language_model = checked_language_model(language_model)
        self._rule = CurtailedSampling(n=n, threshold=threshold)
        self._temperature = temperature
        self._prompt = prompt or bundled_prompt("closed_book")
        self._same = same
        self._seed = seed

    def deciding_at(self, threshold: float) -> SampledConsistency:
        """The same estimator, stopping once "at least `threshold`" is decided.

        Args:
            threshold: share in (0, 1]; the guard gives its policy's.
        """
        if threshold == self._rule.threshold:
            return self
        return SampledConsistency(
            self._language_model,
            n=self._rule.n,
            threshold=threshold,
            temperature=self._temperature,
            prompt=self._prompt,
            same=self._same,
            seed=self._seed,
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        return Fingerprint(
            kind="sampled_consistency",
            backend="language_model",
            settings={
                "language_model": self._language_model.fingerprint,
                "n": self._rule.n,
                "threshold": self._rule.threshold,
                "temperature": self._temperature,
                "prompt_sha256": self._prompt.sha256,
            },
        )

    def estimate(self, question: str) -> Confidence:
        """Confidence in the greedy closed-book answer to `question`.

        Raises:
            LanguageModelError: the model did not answer.
        """
        steps = self._steps(question)
        try:
            draw = next(steps)
            while True:
                [generations] = self._language_model.generate(
                    [draw.prompt], n=draw.n, temperature=draw.temperature, seed=draw.seed
                )
                draw = steps.send(generations)
        except StopIteration as stop:
            found: Confidence = stop.value
            return found

    async def aestimate(self, question: str) -> Confidence:
        """As `estimate`, without blocking the event loop."""
        steps = self._steps(question)
        try:
            draw = next(steps)
            while True:
                [generations] = await self._language_model.agenerate(
                    [draw.prompt], n=draw.n, temperature=draw.temperature, seed=draw.seed
                )
                draw = steps.send(generations)
        except StopIteration as stop:
            found: Confidence = stop.value
            return found

    def _steps(self, question: str) -> _Steps:
        prompt = self._prompt.fill(question=question)
        [greedy] = _exactly(1, (yield _Draw(prompt, 1, 0.0, self._seed)))
        answer = greedy.text.strip()
        if is_refusal(answer):
            return Confidence(0.0, answer, samples_drawn=0, samples_saved=self._rule.n)
        matches = misses = 0
        while wave := self._rule.next_wave(matches, misses):
            # Waves must not repeat each other's samples, so the seed moves on.
            seed = None if self._seed is None else self._seed + matches + misses + 1
            generations = _exactly(wave, (yield _Draw(prompt, wave, self._temperature, seed)))
            repeated = sum(self._same(answer, generation.text) for generation in generations)
            matches, misses = matches + repeated, misses + wave - repeated
        drawn = matches + misses
        return Confidence(matches / drawn, answer, drawn, self._rule.n - drawn)


def _exactly(count: int, generations: list[Generation]) -> list[Generation]:
    if len(generations) != count:
        raise LanguageModelError(f"{len(generations)} generations where {count} were asked for")
    return generations
