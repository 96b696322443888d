"""Build the contexts of a data set, kind by kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, runtime_checkable

from ....guard.contracts import LanguageModel, TextEmbedder
from ....guard.engine import BiEncoderScorer
from ....guard.errors import InputError
from ...run import OnProgress, Progress
from ._cases import PAPER_KINDS, Context, ContextKind, SuiteQuestion
from ._context_source import CannotBuildError, ContextSource
from ._datasets import Dataset
from ._facts import FACTS, FactContexts
from ._microworld import MicroworldContexts
from ._text_contexts import TextContexts
from ._windows import WINDOW_WORDS

_LEAST_WORDS = 10
_RETRIEVING = (ContextKind.RETRIEVED, ContextKind.ONE_OF_K, ContextKind.NONE_OF_K)
# Share of the free tokens that is used: windows differ, and blank lines join them.
_MARGIN = 0.9
_SAMPLED_SOURCES = 200


@dataclass(frozen=True, slots=True)
class ContextProblem:
    """A kind of context that could not be built for a question.

    Attributes:
        question_id: of the question.
        kind: the kind that is missing.
        reason: why; never text from the data.
    """

    question_id: str
    kind: ContextKind
    reason: str


@dataclass(slots=True)
class ContextSet:
    """The contexts of a data set.

    Attributes:
        contexts: question id → kind → context; every question has an entry, without the
            kinds that could not be built.
        problems: what is missing and why.
    """

    contexts: dict[str, dict[ContextKind, Context]] = field(default_factory=dict)
    problems: list[ContextProblem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ContextSize:
    """How long contexts are.

    Attributes:
        words: of a passage cut from a text, at least 10; the microworld's documents keep
            their length.
        passages: of the kinds `one_of_k` and `none_of_k`, at least 2; never more than the
            data set's model can read at once.

    Raises:
        InputError: one of them is out of range.
    """

    words: int = WINDOW_WORDS
    passages: int = 4

    def __post_init__(self) -> None:
        if self.passages < 2:
            raise InputError("must be at least 2", where="passages_per_context")
        if self.words < _LEAST_WORDS:
            raise InputError(f"must be at least {_LEAST_WORDS}", where="window_words")


def build_contexts(
    dataset: Dataset,
    *,
    encoder: TextEmbedder | None = None,
    editor: LanguageModel | None = None,
    kinds: Sequence[ContextKind] = PAPER_KINDS,
    size: ContextSize | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> ContextSet:
    """Build contexts of every kind asked for, for every question of `dataset`.

    Args:
        dataset: the microworld has its own documents and contradictions, and does not use
            `editor`.
        encoder: retrieves misleading passages; the embedded bi-encoder by default.
        editor: writes the wrong answer of a conflicting context; without one it is another
            answer of the data set.
        kinds: what to build.
        size: words and passages.
        seed: picks random passages, wrong answers and places; the same seed gives the same
            contexts.
        on_progress: called while texts are encoded and for each question.

    Returns:
        The contexts, and a problem for each that could not be built.
    """
    size = size or ContextSize()
    wanted = [kind for kind in ContextKind if kind in set(kinds)]
    source: ContextSource
    own_passages = dataset.world is not None or dataset.name == FACTS
    if encoder is None and (not own_passages or any(kind in _RETRIEVING for kind in wanted)):
        encoder = BiEncoderScorer()
    if dataset.world is not None:
        source = MicroworldContexts(
            dataset.world, dataset.questions, encoder, seed=seed, on_progress=on_progress
        )
    elif dataset.name == FACTS:
        source = FactContexts(dataset.questions, encoder, seed=seed, on_progress=on_progress)
    else:
        assert encoder is not None
        source = TextContexts(
            dataset.questions,
            encoder,
            editor=editor,
            seed=seed,
            words=size.words,
            on_progress=on_progress,
        )
    passages = min(size.passages, dataset.most_passages or size.passages)
    builder = _Builder(source, dataset.questions, passages, seed)
    built = ContextSet()
    for number, question in enumerate(dataset.questions, start=1):
        found = built.contexts.setdefault(question.id, {})
        for kind in wanted:
            try:
                found[kind] = builder.build(question, kind)
            except CannotBuildError as error:
                built.problems.append(ContextProblem(question.id, kind, str(error)))
        if on_progress is not None:
            on_progress(Progress("building contexts", number, len(dataset.questions)))
    return built


class _Builder:
    """Put passages together to contexts.

    The place of the right passage is balanced: over all questions each place is used
    equally often, give or take one.
    """

    def __init__(
        self, source: ContextSource, questions: Sequence[SuiteQuestion], k: int, seed: int
    ) -> None:
        self._source, self._k, self._seed = source, k, seed
        order = [question.id for question in questions]
        Random(f"uniknow/places/{seed}").shuffle(order)  # noqa: S311
        self._turn = {name: turn for turn, name in enumerate(order)}
        self._makers: dict[ContextKind, Callable[[SuiteQuestion], Context]] = {
            ContextKind.ORIGINAL: self._original,
            ContextKind.CONFLICTING: self._conflicting,
            ContextKind.RANDOM: self._random,
            ContextKind.RETRIEVED: self._retrieved,
            ContextKind.ONE_OF_K: self._one_of_k,
            ContextKind.TWO_IN_CONFLICT: self._two_in_conflict,
            ContextKind.NONE_OF_K: self._none_of_k,
            ContextKind.UNTRUE: self._untrue,
        }

    def build(self, question: SuiteQuestion, kind: ContextKind) -> Context:
        """Return the context of that kind; raise `CannotBuildError` if there is none."""
        return self._makers[kind](question)

    def _original(self, question: SuiteQuestion) -> Context:
        stated = self._source.original(question)
        return Context(ContextKind.ORIGINAL, (stated.text,), stated.answers)

    def _conflicting(self, question: SuiteQuestion) -> Context:
        stated = self._source.conflicting(question)
        return Context(ContextKind.CONFLICTING, (stated.text,), stated.answers)

    def _untrue(self, question: SuiteQuestion) -> Context:
        stated = self._source.untrue(question)
        return Context(ContextKind.UNTRUE, (stated.text,), (), stated.answers)

    def _random(self, question: SuiteQuestion) -> Context:
        return Context(ContextKind.RANDOM, tuple(self._source.random(question, 1)))

    def _retrieved(self, question: SuiteQuestion) -> Context:
        return Context(ContextKind.RETRIEVED, tuple(self._source.retrieved(question, 1)))

    def _one_of_k(self, question: SuiteQuestion) -> Context:
        stated = self._source.original(question)
        passages = self._distractors(question, self._k - 1)
        passages.insert(self._turn[question.id] % self._k, stated.text)
        return Context(ContextKind.ONE_OF_K, tuple(passages), stated.answers)

    def _none_of_k(self, question: SuiteQuestion) -> Context:
        return Context(ContextKind.NONE_OF_K, tuple(self._distractors(question, self._k)))

    def _two_in_conflict(self, question: SuiteQuestion) -> Context:
        original = self._source.original(question)
        conflicting = self._source.conflicting(question)
        both = [original.text, conflicting.text]
        if self._turn[question.id] % 2:
            both.reverse()
        answers = (*original.answers, *conflicting.answers)
        return Context(ContextKind.TWO_IN_CONFLICT, tuple(both), answers)

    def _distractors(self, question: SuiteQuestion, count: int) -> list[str]:
        """Return as many misleading as random passages, all different, in a shuffled order."""
        near = self._source.retrieved(question, (count + 1) // 2)
        far = [text for text in self._source.random(question, count) if text not in near]
        passages = [*near, *far][:count]
        if len(passages) < count:
            raise CannotBuildError("too few passages without the answer")
        Random(f"uniknow/order/{self._seed}/{question.id}").shuffle(passages)  # noqa: S311
        return passages


@runtime_checkable
class WindowedModel(Protocol):
    """A model that tells its context window and how many tokens a text has."""

    @property
    def context_window(self) -> int | None:
        """Tokens that prompt and answer may have together; None if not stated."""
        ...

    def token_ids(self, text: str) -> list[int]:
        """Return the token ids of bare text."""
        ...


def fitting_size(
    lm: LanguageModel, dataset: Dataset, *, answer_tokens: int, passages: int, several: bool
) -> ContextSize:
    """Return how long contexts may be so that the model can read them with the question.

    Args:
        lm: a model that does not state its context window gets passages of the usual length.
        dataset: whose sources, questions and prompts are measured.
        answer_tokens: kept free for the answer.
        passages: wanted in contexts with several.
        several: whether there will be such contexts; two of them then have to fit.
    """
    room = _words_that_fit(lm, dataset, answer_tokens)
    if room is None:
        return ContextSize(WINDOW_WORDS, passages)
    words = max(_LEAST_WORDS, min(WINDOW_WORDS, room // (2 if several else 1)))
    return ContextSize(words, max(2, min(passages, room // words)))


def _words_that_fit(lm: LanguageModel, dataset: Dataset, answer_tokens: int) -> int | None:
    if not isinstance(lm, WindowedModel) or lm.context_window is None:
        return None
    sources = [text for question in dataset.questions for text in question.sources]
    if not sources:
        return None
    per_word = sorted(
        len(lm.token_ids(text)) / max(1, len(text.split())) for text in sources[:_SAMPLED_SOURCES]
    )
    # Nearly the worst text decides: a prompt that is too long is an error, not a shorter one.
    high = per_word[min(len(per_word) - 1, math.floor(0.98 * len(per_word)))]
    questions = [question.question for question in dataset.questions]
    prompts = [dataset.prompts.with_context, dataset.prompts.with_context_or_unknown]
    asked = sum(max(len(lm.token_ids(text)) for text in texts) for texts in (questions, prompts))
    return max(0, math.floor((lm.context_window - answer_tokens - asked) * _MARGIN / high))
