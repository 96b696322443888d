"""Building the contexts of a data set, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from ....guard.contracts import LanguageModel, RelevanceScorer, TextEmbedder
from ....guard.errors import InputError
from ._cases import PAPER_KINDS, Context, ContextKind, SuiteQuestion
from ._context_sets import CannotBuildError, ContextProblem, ContextSet, ContextSource
from ._datasets import Dataset, MicroworldContexts
from ._text_contexts import TextContexts
from ._windows import WINDOW_WORDS, Progress

LEAST_WORDS = 10
_RETRIEVING = (ContextKind.RETRIEVED, ContextKind.ONE_OF_K, ContextKind.NONE_OF_K)


def build_contexts(
    dataset: Dataset,
    *,
    retriever_encoder: TextEmbedder | None = None,
    editor: LanguageModel | None = None,
    scorer: RelevanceScorer | None = None,
    kinds: Sequence[ContextKind] = PAPER_KINDS,
    passages_per_context: int = 4,
    window_words: int = WINDOW_WORDS,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> ContextSet:
    """Contexts of every kind asked for, for every question of `dataset`.

    Args:
        dataset: the microworld brings its own documents and contradictions: for it
            `editor` and `scorer` are not used.
        retriever_encoder: retrieves misleading passages; the embedded bi-encoder by default.
        editor: writes the alternative of a conflicting context; without one it is another
            answer of the data set.
        scorer: checks that a conflicting context still suffices for the question.
        kinds: what to build.
        passages_per_context: passages of the kinds `one_of_k` and `none_of_k`, at least 2; no
            more than the data set's model can read at once.
        window_words: words of a passage cut from a text, at least 10; not for the microworld,
            whose documents are as long as they are.
        seed: picks random passages, alternatives and places; the same seed gives the same
            contexts.
        on_progress: called with done and all: texts encoded first, then questions.

    Returns:
        The contexts, and a problem for each that could not be built.

    Raises:
        InputError: an argument is out of range.
    """
    if passages_per_context < 2:
        raise InputError("must be at least 2", where="passages_per_context")
    if window_words < LEAST_WORDS:
        raise InputError(f"must be at least {LEAST_WORDS}", where="window_words")
    wanted = [kind for kind in ContextKind if kind in set(kinds)]
    source: ContextSource
    if dataset.world is not None:
        if retriever_encoder is None and any(kind in _RETRIEVING for kind in wanted):
            retriever_encoder = _embedded_encoder()
        source = MicroworldContexts(
            dataset.world, dataset.questions, retriever_encoder, seed=seed, on_progress=on_progress
        )
    else:
        source = TextContexts(
            dataset.questions,
            retriever_encoder or _embedded_encoder(),
            editor=editor,
            scorer=scorer,
            seed=seed,
            words=window_words,
            on_progress=on_progress,
        )
    most = dataset.most_passages or passages_per_context
    builder = _Builder(source, dataset.questions, min(passages_per_context, most), seed)
    return _build_all(builder, dataset, wanted, on_progress)


def _build_all(
    builder: _Builder,
    dataset: Dataset,
    wanted: Sequence[ContextKind],
    on_progress: Progress | None,
) -> ContextSet:
    built = ContextSet()
    for number, question in enumerate(dataset.questions, start=1):
        found = built.contexts.setdefault(question.id, {})
        for kind in wanted:
            try:
                found[kind] = builder.build(question, kind)
            except CannotBuildError as error:
                built.problems.append(ContextProblem(question.id, kind, str(error)))
        if on_progress is not None:
            on_progress(number, len(dataset.questions))
    return built


class _Builder:
    """Puts passages together to contexts.

    The place of the right passage is balanced: over all questions each place comes up
    equally often, one time more or less.
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
        """The context of that kind; `CannotBuildError` where there is none."""
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
        """Misleading and random passages in turn, all different, in a shuffled order."""
        near = self._source.retrieved(question, (count + 1) // 2)
        far = [text for text in self._source.random(question, count) if text not in near]
        passages = [*near, *far][:count]
        if len(passages) < count:
            raise CannotBuildError("too few passages without the answer")
        Random(f"uniknow/order/{self._seed}/{question.id}").shuffle(passages)  # noqa: S311
        return passages


def _embedded_encoder() -> TextEmbedder:
    from ....guard.engine import BiEncoderScorer

    return BiEncoderScorer()
