"""Build the contexts of a data set, kind by kind: cut, edited, drawn and retrieved."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    CannotBuildError,
    ContextSource,
    FactContexts,
    MicroworldContexts,
    Stated,
)
from ._cases import Context, ContextKind, Dataset, Question
from ._windows import WINDOW_WORDS, best_window, word_weights


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
        weight = word_weights(text for question in questions for text in question.sources)
        self._stated: dict[str, StatedAnswer] = {}
        for one in questions:
            window = best_window(one.question, one.answers, one.sources, weight, words=words)
            if window is not None:
                self._stated[one.id] = stated_answer(one, window)
        stated = list(self._stated.values())
        self._group_of = {one.window: one.question.group for one in reversed(stated)}
        asked = [*(one.question for one in questions), *(one.text for one in stated)]
        super().__init__(asked, encoder, seed=seed, on_progress=on_progress)
        self._alternatives = Alternatives(stated, self._nearest, seed=seed)

    def passages(self) -> list[str]:
        """Return all windows."""
        return [one.window for one in self._stated.values()]

    def original(self, question: Question) -> Stated:
        """Return the window that best supports the answer."""
        return self._of(question).window, question.answers

    def contradicting(self, question: Question) -> Stated:
        """Return the same window with another answer of the same sort."""
        stated = self._of(question)
        proposed = self._alternatives.plausible(stated)
        if not proposed:
            raise CannotBuildError("no other answer of the data set is of the same sort and form")
        for one in proposed:
            text = replace_answer(stated.window, question.answers, one, stated.shape.kind)
            if text is not None:
                return text, one.answers
        raise CannotBuildError("the answer cannot be replaced everywhere")

    def random(self, question: Question) -> str:
        """Return a window of another question, of another group as far as there is any."""
        order = list(dict.fromkeys(self.passages()))
        Random(f"uniknow/random/{self._seed}/{question.id}").shuffle(order)  # noqa: S311
        order.sort(key=lambda text: self._group_of[text] == question.group)
        return self.without_answer(question, order)

    def _of(self, question: Question) -> StatedAnswer:
        if question.id not in self._stated:
            raise CannotBuildError(
                "no source holds an answer" if question.sources else "the question has no source"
            )
        return self._stated[question.id]


_LEAST_WORDS = 10
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


Contexts = dict[str, dict[ContextKind, Context]]
"""Question id → kind → context; every question has an entry, without what could not be built."""


def build_contexts(
    dataset: Dataset,
    *,
    encoder: TextEmbedder | None = None,
    words: int = WINDOW_WORDS,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> tuple[Contexts, list[ContextProblem]]:
    """Build contexts of every kind, for every question of `dataset`.

    Args:
        dataset: bundled ones have their own documents and contradictions.
        encoder: retrieves misleading passages; the embedded bi-encoder by default.
        words: of a passage cut from a text, at least 10; bundled documents keep their length.
        seed: picks random passages and wrong answers; the same seed gives the same contexts.
        on_progress: called while texts are encoded and for each question.

    Returns:
        The contexts, and a problem for each that could not be built.
    """
    questions, encoder = dataset.questions, encoder or BiEncoderScorer()
    asked = [one.question for one in questions]
    source: ContextSource
    if dataset.bundled == MICROWORLD:
        source = MicroworldContexts(asked, encoder, seed=seed, on_progress=on_progress)
    elif dataset.bundled == FACTS:
        source = FactContexts(asked, encoder, seed=seed, on_progress=on_progress)
    else:
        source = TextContexts(questions, encoder, seed=seed, words=words, on_progress=on_progress)
    built: Contexts = {}
    problems: list[ContextProblem] = []
    advance = stage_progress(on_progress, "building contexts")
    for number, question in enumerate(questions, start=1):
        found = built.setdefault(question.id, {})
        for kind in ContextKind:
            try:
                found[kind] = Context(kind, *_context(source, question, kind))
            except CannotBuildError as error:
                problem = ContextProblem(question_id=question.id, kind=kind, reason=str(error))
                problems.append(problem)
        advance(number, len(questions))
    return built, problems


def _context(
    source: ContextSource, question: Question, kind: ContextKind
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the passages of a context, and what they say the answer is.

    Raises:
        CannotBuildError: there is none.
    """
    match kind:
        case ContextKind.RANDOM:
            return (source.random(question),), ()
        case ContextKind.RETRIEVED:
            return (source.retrieved(question),), ()
        case ContextKind.CONFLICTING:
            text, answers = source.contradicting(question)
        case ContextKind.ORIGINAL:
            text, answers = source.original(question)
    return (text,), answers


def fitting_size(lm: LanguageModel, dataset: Dataset, *, answer_tokens: int) -> int:
    """Return the words of a context that the model can read with the question.

    Args:
        lm: a model that does not state its context window gets passages of the usual length.
        dataset: whose sources, questions and prompts are measured.
        answer_tokens: kept free for the answer.
    """
    sources = [text for question in dataset.questions for text in question.sources]
    if not isinstance(lm, WindowedModel) or lm.context_window is None or not sources:
        return WINDOW_WORDS
    per_word = sorted(
        len(lm.token_ids(text)) / max(1, len(text.split())) for text in sources[:_SAMPLED_SOURCES]
    )
    # Nearly the worst text decides: a prompt that is too long is an error, not a shorter one.
    high = per_word[min(len(per_word) - 1, math.floor(0.98 * len(per_word)))]
    questions = [question.question for question in dataset.questions]
    prompts = [dataset.prompts.with_context, dataset.prompts.with_context_or_unknown]
    asked = sum(max(len(lm.token_ids(text)) for text in texts) for texts in (questions, prompts))
    room = max(0, math.floor((lm.context_window - answer_tokens - asked) * _MARGIN / high))
    return max(_LEAST_WORDS, min(WINDOW_WORDS, room))
