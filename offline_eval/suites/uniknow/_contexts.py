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
from ._alternatives import (
    Alternative,
    Alternatives,
    StatedAnswer,
    replace_answer,
    stated_answer,
)
from ._bundled import (
    FACTS,
    CannotBuildError,
    ContextSource,
    FactContexts,
    MicroworldContexts,
    Stated,
    first_without_answer,
    listed_facts,
    nearest_passages,
)
from ._cases import PAPER_KINDS, Context, ContextKind, Dataset, Question
from ._windows import WINDOW_WORDS, NearestPassages, WordWeights, best_window


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
        for question in questions:
            window = best_window(
                question.question, question.answers, question.sources, weights, words=words
            )
            if window is not None:
                self._stated[question.id] = stated_answer(question, window)
        stated = list(self._stated.values())
        self._group_of = {one.window: one.question.group for one in reversed(stated)}
        nearest = NearestPassages(
            [one.window for one in stated],
            [*(question.question for question in questions), *(one.text for one in stated)],
            encoder,
            on_progress,
        )
        super().__init__(nearest, seed)
        self._alternatives = Alternatives(stated, nearest, seed=seed)

    def original(self, question: Question) -> Stated:
        """Return the window that best supports the answer."""
        return Stated(self._of(question).window, question.answers)

    def conflicting(self, question: Question) -> Stated:
        """Return the same window with another answer of the same sort."""
        stated = self._of(question)
        proposed = self._alternatives.plausible(stated)
        if not proposed:
            raise CannotBuildError("no other answer of the data set is of the same sort and form")
        return _exchanged(stated, proposed, "the answer cannot be replaced everywhere")

    def untrue(self, question: Question) -> Stated:
        """Return the same window with an answer of a wrong kind."""
        stated = self._of(question)
        reason = "no answer of another kind can take the answer's place"
        return _exchanged(stated, self._alternatives.implausible(stated), reason)

    def random(self, question: Question, count: int) -> list[str]:
        """Return windows of other questions, of other groups as far as there are any."""
        order = list(dict.fromkeys(one.window for one in self._stated.values()))
        Random(f"uniknow/random/{self._seed}/{question.id}").shuffle(order)  # noqa: S311
        order.sort(key=lambda text: self._group_of[text] == question.group)
        return first_without_answer(question, order, count, of=self.unit)

    def _of(self, question: Question) -> StatedAnswer:
        if question.id not in self._stated:
            raise CannotBuildError(
                "no source holds an answer" if question.sources else "the question has no source"
            )
        return self._stated[question.id]


def _exchanged(stated: StatedAnswer, proposed: Sequence[Alternative], reason: str) -> Stated:
    """Return the window with the first alternative that fits; raise the reason without one."""
    for alternative in proposed:
        text = replace_answer(
            stated.window, stated.question.answers, alternative, stated.shape.kind
        )
        if text is not None:
            return Stated(text, alternative.answers)
    raise CannotBuildError(reason)


_LEAST_WORDS = 10
_RETRIEVING = (ContextKind.RETRIEVED, ContextKind.ONE_OF_K, ContextKind.NONE_OF_K)
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
        dataset: the microworld has its own documents and contradictions.
        encoder: retrieves misleading passages; the embedded bi-encoder by default.
        kinds: what to build.
        words: of a passage cut from a text, at least 10; the microworld's documents keep their
            length.
        passages: of the kinds `one_of_k` and `none_of_k`, at least 2; never more than the data
            set's model can read at once.
        seed: picks random passages, wrong answers and places; the same seed gives the same
            contexts.
        on_progress: called while texts are encoded and for each question.

    Returns:
        The contexts, and a problem for each that could not be built.
    """
    wanted = [kind for kind in ContextKind if kind in set(kinds)]
    source: ContextSource
    questions, world = dataset.questions, dataset.world
    own_passages = world is not None or dataset.name == FACTS
    if encoder is None and (not own_passages or any(kind in _RETRIEVING for kind in wanted)):
        encoder = BiEncoderScorer()
    if world is not None:
        texts = [document.text for document in world.documents]
        nearest = nearest_passages(texts, questions, encoder, on_progress)
        source = MicroworldContexts(nearest, seed, world)
    elif own_passages:
        texts = [fact.text for fact in listed_facts().values()]
        source = FactContexts(nearest_passages(texts, questions, encoder, on_progress), seed)
    else:
        assert encoder is not None
        source = TextContexts(questions, encoder, seed=seed, words=words, on_progress=on_progress)
    passages = min(passages, dataset.most_passages or passages)
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
    match kind:
        case ContextKind.ORIGINAL | ContextKind.CONFLICTING:
            stated = getattr(source, kind)(question)
            return Context(kind, (stated.text,), stated.answers)
        case ContextKind.UNTRUE:
            stated = source.untrue(question)
            return Context(kind, (stated.text,), (), stated.answers)
        case ContextKind.RANDOM | ContextKind.RETRIEVED:
            return Context(kind, tuple(getattr(source, kind)(question, 1)))
        case ContextKind.NONE_OF_K:
            return Context(kind, tuple(source.distractors(question, count)))
        case ContextKind.ONE_OF_K:
            stated = source.original(question)
            passages = source.distractors(question, count - 1)
            passages.insert(turn % count, stated.text)
            return Context(kind, tuple(passages), stated.answers)
        case ContextKind.TWO_IN_CONFLICT:
            both = [source.original(question), source.conflicting(question)]
            texts = tuple(stated.text for stated in (both[::-1] if turn % 2 else both))
            return Context(kind, texts, (*both[0].answers, *both[1].answers))


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
    room = _words_that_fit(lm, dataset, answer_tokens)
    if room is None:
        return WINDOW_WORDS, passages
    words = max(_LEAST_WORDS, min(WINDOW_WORDS, room // (2 if several else 1)))
    return words, max(2, min(passages, room // words))


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
