"""Build the contexts of a data set, kind by kind: cut, edited, drawn and retrieved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

from ....guard.contracts import LanguageModel, TextEmbedder
from ....guard.engine import BiEncoderScorer
from ...run import Stored
from ...run.calls import OnProgress
from ...run.grouping import grouped
from ...testbed import default_world
from .._prompts import WindowedModel
from ..parts import stage_progress
from ._alternatives import StatedAnswer, plausible, replace_answer, stated_answer
from ._bundled import (
    FACTS,
    MICROWORLD,
    CannotBuildError,
    Makers,
    fact_contexts,
    listed_facts,
    microworld_contexts,
    without_answer,
)
from ._cases import ContextKind, Dataset, Question, Stated
from ._windows import WINDOW_WORDS, NearestPassages, best_window, word_weights


def text_contexts(
    stated: Mapping[str, StatedAnswer], nearest: NearestPassages, seed: int
) -> Makers:
    """Make contexts from the questions' own sources.

    Args:
        stated: answers in their original contexts, by question.
        nearest: knows how much alike questions are.
        seed: of all random choices.
    """
    alike = grouped(stated.values(), lambda one: one.shape.form)
    group_of = {one.window: one.question.group for one in reversed([*stated.values()])}

    def stated_of(question: Question) -> StatedAnswer:
        if question.id not in stated:
            raise CannotBuildError(
                "no source holds an answer" if question.sources else "the question has no source"
            )
        return stated[question.id]

    def contradicting(question: Question) -> Stated:
        """The same window with another answer of the same sort."""
        own = stated_of(question)
        proposed = plausible(own, alike[own.shape.form], nearest, seed=seed)
        if not proposed:
            raise CannotBuildError("no other answer of the data set is of the same sort and form")
        for one in proposed:
            text = replace_answer(own.window, question.answers, one, own.shape.kind)
            if text is not None:
                return text, one.answers
        raise CannotBuildError("the answer cannot be replaced everywhere")

    def random(question: Question) -> Stated:
        """A window of another question, of another group as far as there is any."""
        order = list(dict.fromkeys(one.window for one in stated.values()))
        Random(f"uniknow/random/{seed}/{question.id}").shuffle(order)  # noqa: S311
        order.sort(key=lambda text: group_of[text] == question.group)
        return without_answer(question, order)

    return {
        ContextKind.ORIGINAL: lambda question: (stated_of(question).window, question.answers),
        ContextKind.CONFLICTING: contradicting,
        ContextKind.RANDOM: random,
    }


def _stated(questions: Sequence[Question], words: int) -> dict[str, StatedAnswer]:
    """Return by question the window that best supports its answer, where a source holds it."""
    weight = word_weights(text for question in questions for text in question.sources)
    found = {}
    for one in questions:
        window = best_window(one.question, one.answers, one.sources, weight, words=words)
        if window is not None:
            found[one.id] = stated_answer(one, window)
    return found


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


Contexts = dict[str, dict[ContextKind, Stated]]
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
    asked, own = [one.question for one in questions], dict[str, StatedAnswer]()
    if dataset.bundled == MICROWORLD:
        passages = [document.text for document in default_world().documents]
    elif dataset.bundled == FACTS:
        passages = [fact.text for fact in listed_facts().values()]
    else:
        own = _stated(questions, words)
        passages = [one.window for one in own.values()]
        asked += [one.text for one in own.values()]
    nearest = NearestPassages(passages, asked, encoder, on_progress)
    bundled = {MICROWORLD: microworld_contexts, FACTS: fact_contexts}.get(dataset.bundled)
    makers = text_contexts(own, nearest, seed) if bundled is None else bundled(seed)
    makers[ContextKind.RETRIEVED] = lambda question: without_answer(
        question, nearest.ranked(question.question)
    )
    built: Contexts = {}
    problems: list[ContextProblem] = []
    advance = stage_progress(on_progress, "building contexts")
    for number, question in enumerate(questions, start=1):
        found = built.setdefault(question.id, {})
        for kind in ContextKind:
            try:
                found[kind] = makers[kind](question)
            except CannotBuildError as error:
                problem = ContextProblem(question_id=question.id, kind=kind, reason=str(error))
                problems.append(problem)
        advance(number, len(questions))
    return built, problems


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
