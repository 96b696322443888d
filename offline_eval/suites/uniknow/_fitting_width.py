"""How long passages may be so that a model can read them with the question."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ....guard.contracts import LanguageModel
from ._contexts import LEAST_WORDS
from ._datasets import Dataset
from ._windows import WINDOW_WORDS

# Of the tokens left for the context: windows differ, and blank lines join them.
_MARGIN = 0.9
_SAMPLED = 200


@runtime_checkable
class WindowedModel(Protocol):
    """A model that says how many tokens it reads at once, and how many a text has."""

    @property
    def context_window(self) -> int | None:
        """Tokens that prompt and answer may have together, None when not stated."""
        ...

    def token_ids(self, text: str) -> list[int]:
        """Token ids of bare text."""
        ...


@dataclass(frozen=True, slots=True)
class Fit:
    """How contexts are cut to fit.

    Attributes:
        words: of a passage, at most 100, the paper's length.
        passages: of the contexts with several, at least 2.
    """

    words: int
    passages: int


def fit_contexts(
    lm: LanguageModel, dataset: Dataset, *, answer_tokens: int, passages: int, several: bool
) -> Fit:
    """Passages that a model can read with question, prompt and room for its answer.

    Args:
        lm: one that does not state its window reads passages of the usual length.
        dataset: whose sources, questions and prompts are measured.
        answer_tokens: kept free for the answer.
        passages: wanted in contexts with several.
        several: whether there will be such contexts; two of them then have to fit.
    """
    room = _words_that_fit(lm, dataset, answer_tokens)
    if room is None:
        return Fit(WINDOW_WORDS, passages)
    words = max(LEAST_WORDS, min(WINDOW_WORDS, room // (2 if several else 1)))
    return Fit(words, max(2, min(passages, room // words)))


def _words_that_fit(lm: LanguageModel, dataset: Dataset, answer_tokens: int) -> int | None:
    if not isinstance(lm, WindowedModel) or lm.context_window is None:
        return None
    sources = [text for question in dataset.questions for text in question.sources][:_SAMPLED]
    if not sources:
        return None
    # Nearly the worst text decides: a prompt that is too long is an error, not a shorter one.
    per_word = _high([len(lm.token_ids(text)) / max(1, len(text.split())) for text in sources])
    questions = [question.question for question in dataset.questions]
    prompts = (dataset.prompts.with_context, dataset.prompts.with_context_or_unknown)
    asked = _longest(lm.token_ids, questions) + _longest(lm.token_ids, prompts)
    return max(0, math.floor((lm.context_window - answer_tokens - asked) * _MARGIN / per_word))


def _longest(token_ids: Callable[[str], list[int]], texts: Sequence[str]) -> int:
    return max((len(token_ids(text)) for text in texts), default=0)


def _high(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, math.floor(0.98 * len(values)))]
