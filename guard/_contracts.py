"""The contracts that signals, language models and scorers fulfil.

Everything the guard measures comes through one of these protocols. An
implementation needs no base class: matching the methods is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ._fingerprint import Fingerprint


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer drawn from a language model.

    Attributes:
        text: the generated text, without the prompt and without stop strings.
        token_logprobs: natural-log probability of each generated token under the
            model's own distribution at temperature 1, or None where the model
            does not give them.
    """

    text: str
    token_logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Confidence:
    """What a confidence estimator found out about one question.

    Attributes:
        value: raw confidence in [0, 1] that the closed-book answer is right.
        answer: the closed-book answer that the value speaks of.
        samples_drawn: sampled answers used, the greedy one not counted.
        samples_saved: samples that stopping early made unnecessary.
    """

    value: float
    answer: str
    samples_drawn: int = 0
    samples_saved: int = 0


@runtime_checkable
class LanguageModel(Protocol):
    """A text-in, text-out model that can sample.

    `generate` and `agenerate` return one list per prompt, in the order given,
    each with `n` generations. `temperature` 0 means greedy. A model that can
    fail raises a `knowgate.guard.LanguageModelError`; it never returns fewer
    than `n` generations silently.
    """

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and settings, e.g. for stored estimates."""
        ...

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """Draw `n` generations for each prompt."""
        ...

    async def agenerate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """As `generate`, without blocking the event loop."""
        ...


@runtime_checkable
class RelevanceScorer(Protocol):
    """Scores how far passages suffice to answer a question.

    Scores are raw: any finite scale on which higher means more sufficient. The
    policy's calibrator makes a probability of the aggregated value.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        ...

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Scores of shape (len(passages),), in the order of `passages`."""
        ...

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Scores of shape (len(pairs),) for (question, passage) pairs."""
        ...


@runtime_checkable
class ConfidenceEstimator(Protocol):
    """Estimates whether the language model itself would answer rightly."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        ...

    def estimate(self, question: str) -> Confidence:
        """Confidence in the closed-book answer to `question`."""
        ...

    async def aestimate(self, question: str) -> Confidence:
        """As `estimate`, without blocking the event loop."""
        ...


@runtime_checkable
class ConflictDetector(Protocol):
    """Tells whether the closed-book answer contradicts the passages."""

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """True when the passages support another answer than the closed-book one."""
        ...

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`, without blocking the event loop."""
        ...
