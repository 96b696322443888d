"""Build the contexts of a data set, kind by kind: cut, edited, drawn and retrieved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from ....guard.contracts import LanguageModel, TextEmbedder
from ....guard.engine import BiEncoderScorer
from ...run import Stored
from ...run.calls import OnProgress
from .._prompts import WindowedModel
from ..parts import stage_progress
from ._alternatives import Alternatives, StatedAnswer, replace_answer, stated_answer
from ._bundled import (
    FACTS,
    MICROWORLD,
    MOST_PASSAGES,
    CannotBuildError,
    ContextSource,
    FactContexts,
    MicroworldContexts,
    Stated,
)
from ._cases import PAPER_KINDS, Context, ContextKind, Dataset, Question
from ._windows import WINDOW_WORDS, WordWeights, best_window


class TextContexts(ContextSource):
    """Build contexts from the questions' own sources.

    Args:
        questions: of one data set.
        encoder: retrieves passages and compares questions.
        seed: of all random choices.
        words: length of a window.
        on_progress: called while texts are encoded and alternatives written.
    """

    unit = "passages of the data set"

    def __init__(
        self,
        questions: Sequence[Question],
        encoder: TextEmbedder,
        *,
        seed: int = 0,
        words: int = WINDOW_WORDS,
        on_progress: OnProgress | None = None,
    ) -> None:
        weights = WordWeights(text for question in questions for text in question.sources)
        self._stated: dict[str, StatedAnswer] = {}
        for one in questions:
            window = best_window(one.question, one.answers, one.sources, weights, words=words)
            if window is not None:
                self._stated[one.id] = stated_answer(one, window)
        stated = list(self._stated.values())
        self._group_of = {one.window: one.question.group for one in reversed(stated)}
        asked = [*(one.question for one in questions), *(one.text for one in stated)]
        super().__init__(asked, encoder, seed=seed, on_progress=on_progress)
        assert self._nearest is not None
        self._alternatives = Alternatives(stated, self._nearest, seed=seed)

    def passages(self) -> list[str]:
        """Return all windows."""
        return [one.window for one in self._stated.values()]

    def original(self, question: Question) -> Stated:
        """Return the window that best supports the answer."""
        return self._of(question).window, question.answers

    def contradicting(self, question: Question, *, plausible: bool) -> Stated:
        """Return the same window with another answer of the same sort, or of a wrong kind."""
        stated = self._of(question)
        reason = "no answer of another kind can take the answer's place"
        proposed = self._alternatives.implausible(stated)
        if plausible:
            reason = "the answer cannot be replaced everywhere"
            proposed = self._alternatives.plausible(stated)
            if not proposed:
                reason = "no other answer of the data set is of the same sort and form"
        for one in proposed:
            text = replace_answer(stated.window, question.answers, one, stated.shape.kind)
            if text is not None:
                return text, one.answers
        raise CannotBuildError(reason)

    def random(self, question: Question, count: int) -> list[str]:
        """Return windows of other questions, of other groups as far as there are any."""
        order = list(dict.fromkeys(self.passages()))
        Random(f"uniknow/random/{self._seed}/{question.id}").shuffle(order)  # noqa: S311
        order.sort(key=lambda text: self._group_of[text] == question.group)
        return self.without_answer(question, order, count)

    def _of(self, question: Question) -> StatedAnswer:
        if question.id not in self._stated:
            raise CannotBuildError(
                "no source holds an answer" if question.sources else "the question has no source"
            )
        return self._stated[question.id]


_LEAST_WORDS = 10
_RETRIEVING = {ContextKind.RETRIEVED, ContextKind.ONE_OF_K, ContextKind.NONE_OF_K}
# Share of the free tokens that is used: windows differ, and blank lines join them.
_MARGIN = 0.9
_SAMPLED_SOURCES = 200


class ContextProblem(Stored):
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


def build_contexts(
    dataset: Dataset,
    *,
    encoder: TextEmbedder | None = None,
    kinds: Sequence[ContextKind] = PAPER_KINDS,
    words: int = WINDOW_WORDS,
    passages: int = 4,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> ContextSet:
    """Build contexts of every kind asked for, for every question of `dataset`.

    Args:
        dataset: bundled ones have their own documents and contradictions.
        encoder: retrieves misleading passages; the embedded bi-encoder by default.
        kinds: what to build.
        words: of a passage cut from a text, at least 10; bundled documents keep their length.
        passages: of the kinds `one_of_k` and `none_of_k`, at least 2; never more than the
            microworld's model can read at once.
        seed: picks random passages, wrong answers and places; the same seed gives the same
            contexts.
        on_progress: called while texts are encoded and for each question.

    Returns:
        The contexts, and a problem for each that could not be built.
    """
    wanted = [kind for kind in ContextKind if kind in set(kinds)]
    questions = dataset.questions
    if encoder is None and not (dataset.bundled and _RETRIEVING.isdisjoint(wanted)):
        encoder = BiEncoderScorer()
    asked = [one.question for one in questions]
    source: ContextSource
    if dataset.bundled == MICROWORLD:
        source = MicroworldContexts(asked, encoder, seed=seed, on_progress=on_progress)
        passages = min(passages, MOST_PASSAGES)
    elif dataset.bundled == FACTS:
        source = FactContexts(asked, encoder, seed=seed, on_progress=on_progress)
    else:
        assert encoder is not None
        source = TextContexts(questions, encoder, seed=seed, words=words, on_progress=on_progress)
    order = [question.id for question in questions]
    Random(f"uniknow/places/{seed}").shuffle(order)  # noqa: S311
    # The place of the right passage is balanced: each is used equally often, give or take one.
    turns = {name: turn for turn, name in enumerate(order)}
    built = ContextSet()
    advance = stage_progress(on_progress, "building contexts")
    for number, question in enumerate(questions, start=1):
        found = built.contexts.setdefault(question.id, {})
        for kind in wanted:
            try:
                found[kind] = _context(source, question, kind, passages, turns[question.id])
            except CannotBuildError as error:
                problem = ContextProblem(question_id=question.id, kind=kind, reason=str(error))
                built.problems.append(problem)
        advance(number, len(questions))
    return built


def _context(
    source: ContextSource, question: Question, kind: ContextKind, count: int, turn: int
) -> Context:
    """Return a context of some kind.

    Args:
        source: of passages.
        question: that is asked.
        kind: what is wanted.
        count: passages of `one_of_k` and `none_of_k`.
        turn: of the question, decides the place of the right passage.

    Raises:
        CannotBuildError: there is none.
    """
    if kind in (ContextKind.CONFLICTING, ContextKind.UNTRUE):
        plausible = kind is ContextKind.CONFLICTING
        text, answers = source.contradicting(question, plausible=plausible)
        return Context(kind, (text,), *((answers,) if plausible else ((), answers)))
    match kind:
        case ContextKind.RANDOM:
            return Context(kind, tuple(source.random(question, 1)))
        case ContextKind.RETRIEVED:
            return Context(kind, tuple(source.retrieved(question, 1)))
        case ContextKind.NONE_OF_K:
            return Context(kind, tuple(source.distractors(question, count)))
    text, answers = source.original(question)
    passages = [text]
    if kind is ContextKind.ONE_OF_K:
        passages = source.distractors(question, count - 1)
        passages.insert(turn % count, text)
    elif kind is ContextKind.TWO_IN_CONFLICT:
        other, wrong = source.contradicting(question, plausible=True)
        passages, answers = [text, other][:: -1 if turn % 2 else 1], (*answers, *wrong)
    return Context(kind, tuple(passages), answers)


def fitting_size(
    lm: LanguageModel, dataset: Dataset, *, answer_tokens: int, passages: int, several: bool
) -> tuple[int, int]:
    """Return words and passages of contexts that the model can read with the question.

    Args:
        lm: a model that does not state its context window gets passages of the usual length.
        dataset: whose sources, questions and prompts are measured.
        answer_tokens: kept free for the answer.
        passages: wanted in contexts with several.
        several: whether there will be such contexts; two of them then have to fit.
    """
    sources = [text for question in dataset.questions for text in question.sources]
    if not isinstance(lm, WindowedModel) or lm.context_window is None or not sources:
        return WINDOW_WORDS, passages
    per_word = sorted(
        len(lm.token_ids(text)) / max(1, len(text.split())) for text in sources[:_SAMPLED_SOURCES]
    )
    # Nearly the worst text decides: a prompt that is too long is an error, not a shorter one.
    high = per_word[min(len(per_word) - 1, math.floor(0.98 * len(per_word)))]
    questions = [question.question for question in dataset.questions]
    prompts = [dataset.prompts.with_context, dataset.prompts.with_context_or_unknown]
    asked = sum(max(len(lm.token_ids(text)) for text in texts) for texts in (questions, prompts))
    room = max(0, math.floor((lm.context_window - answer_tokens - asked) * _MARGIN / high))
    words = max(_LEAST_WORDS, min(WINDOW_WORDS, room // (2 if several else 1)))
    return words, max(2, min(passages, room // words))
