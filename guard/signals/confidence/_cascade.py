"""Confidence from a cheap estimator where it is clear, otherwise from a costly one."""

from __future__ import annotations

import math
from collections.abc import Generator
from copy import copy
from dataclasses import replace
from typing import Any

from ..._model_steps import Draw, Request, Steps
from ...contracts import Confidence, Cost, Generation, LanguageModel
from ...errors import InputError, KnowgateError
from ...fingerprint import Fingerprint
from ...prompts import Prompt
from ._consistency import SampledConsistency
from ._driver import StepwiseEstimator
from ._single_answers import TokenProbability

# What an accepted value is at least, and a rejected one at most, whatever the bands.
ACCEPTED_FROM = 0.9
REJECTED_TO = 0.1


class Cascade(StepwiseEstimator):
    """A cheap value in the clear cases, a costly one in between, in [0, 1].

    The cheap estimator is asked first. From `accept` on its value is stretched over
    [0.9, 1], up to `reject` over [0, 0.1], and the question is settled; in between the
    costly estimator is asked, and its value is kept, held within [0.1, 0.9]. So values
    are in one order, and for a threshold in (0.1, 0.9] a question that was sampled is
    decided as the costly estimator decides it. The greedy answer is drawn once for both.

    By default token probability goes first and sampled consistency with Bayesian
    stopping second: as good as sampling alone, at a fraction of its calls, where answers
    are short. Where one answer has many wordings, sure answers are improbable too: then
    fit the bands with `knowgate.calibration.fit_cascade_bands`, or set `reject` to None.

    Args:
        language_model: what is asked.
        cheap: a bundled estimator; token probability of the sequence when None.
        costly: a bundled estimator; sampled consistency when None.
        accept: cheap value in (0, 1] from which on it settles the question; None: never.
        reject: cheap value in [0, 1) up to which it does; None: never.
        prompt: closed-book prompt of the estimators that are not given.

    Raises:
        InputError: an estimator asks another language model, or the bands overlap.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        cheap: StepwiseEstimator | None = None,
        costly: StepwiseEstimator | None = None,
        accept: float | None = 0.9,
        reject: float | None = 0.1,
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(language_model)
        self._cheap = cheap or TokenProbability(language_model, prompt=prompt)
        self._costly = costly or SampledConsistency(
            language_model,
            stopping="bayesian",
            prompt=prompt,
        )
        for part, where in ((self._cheap, "cheap"), (self._costly, "costly")):
            if not isinstance(part, StepwiseEstimator):
                raise InputError(f"a {type(part).__name__} cannot take part", where=where)
            if part._language_model is not language_model:
                raise InputError("asks another language model than the cascade", where=where)
        if accept is not None and not 0.0 < accept <= 1.0:
            raise InputError("must be in (0, 1] or None", where="accept")
        if reject is not None and not 0.0 <= reject < (1.0 if accept is None else accept):
            raise InputError("must be in [0, 1), below accept, or None", where="reject")
        self._accept = accept
        self._reject = reject

    def deciding_at(self, threshold: float) -> Cascade:
        """The same cascade, whose costly estimator stops once "at least `threshold`" is decided.

        Args:
            threshold: share in (0, 1]; the guard gives its policy's.
        """
        deciding_at = getattr(self._costly, "deciding_at", None)
        costly = self._costly if deciding_at is None else deciding_at(threshold)
        if costly is self._costly:
            return self
        changed = copy(self)
        changed._costly = costly
        return changed

    @property
    def cost(self) -> Cost:
        """Both estimators' cost, one greedy answer shared."""
        cheap, costly = self._cheap.cost, self._costly.cost
        return Cost(
            greedy_calls=max(cheap.greedy_calls, costly.greedy_calls),
            sampled_calls=cheap.sampled_calls + costly.sampled_calls,
            other_calls=cheap.other_calls + costly.other_calls,
            forward_passes=cheap.forward_passes + costly.forward_passes,
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        return Fingerprint(
            kind="cascade",
            backend="language_model",
            settings={
                "language_model": self._language_model.fingerprint,
                "cheap": self._cheap.fingerprint.model_dump_json(),
                "costly": self._costly.fingerprint.model_dump_json(),
                "accept": self._accept,
                "reject": self._reject,
            },
        )

    def _steps(self, question: str) -> Steps[Confidence]:
        answered: dict[str, list[Generation]] = {}
        cheap, _ = yield from _sharing(self._cheap._steps(question), answered)
        settled = self._settled(cheap.value)
        if settled is not None:
            saved = cheap.samples_saved + self._costly.cost.sampled_calls
            return replace(cheap, value=settled, samples_saved=saved)
        costly, shared = yield from _sharing(self._costly._steps(question), answered)
        return Confidence(
            min(ACCEPTED_FROM, max(REJECTED_TO, costly.value)),
            costly.answer,
            cheap.samples_drawn + costly.samples_drawn,
            cheap.samples_saved + costly.samples_saved,
            cheap.calls + costly.calls - shared,
            cheap.partial or costly.partial,
        )

    def _settled(self, value: float) -> float | None:
        """The cascade's value where the cheap estimator decides, None where it does not."""
        if self._accept is not None and value >= self._accept:
            room = 1.0 - self._accept
            return 1.0 - (1.0 - ACCEPTED_FROM) * (1.0 - value) / room if room else 1.0
        if self._reject is not None and value <= self._reject:
            return REJECTED_TO * value / self._reject if self._reject else 0.0
        if math.isnan(value):
            raise InputError("the cheap estimator's value is NaN", where="cheap")
        return None


def _sharing(
    steps: Steps[Confidence], answered: dict[str, list[Generation]]
) -> Generator[Request, Any, tuple[Confidence, int]]:
    """Run `steps`, with greedy answers from `answered` where they are known.

    Returns what the steps return, and how many calls were spared.
    """
    spared = 0
    try:
        request = next(steps)
        while True:
            prompt = _greedy_prompt(request)
            if prompt is not None and prompt in answered:
                spared += 1
                request = steps.send(list(answered[prompt]))
                continue
            try:
                answer = yield request
            except KnowgateError as error:
                request = steps.throw(error)
                continue
            if prompt is not None:
                answered[prompt] = list(answer)
            request = steps.send(answer)
    except StopIteration as stop:
        return stop.value, spared
    finally:
        steps.close()


def _greedy_prompt(request: Request) -> str | None:
    """The prompt of a request for one greedy answer, None for any other request."""
    if isinstance(request, Draw) and request.temperature == 0 and request.n == 1:
        return request.prompt
    return None
