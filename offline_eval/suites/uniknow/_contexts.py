"""Build the contexts of a data set, kind by kind: cut, edited, drawn and retrieved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ....guard.contracts import TextEmbedder
from ....guard.engine import BiEncoderScorer
from ...data.answers.alternatives import StatedAnswer, implausible, plausible, replace_answer
from ...run import Stored
from ...run.calls import OnProgress
from ...run.grouping import grouped
from ...testbed import default_world
from ..parts import stage_progress
from ._bundled import (
    FACTS,
    MICROWORLD,
    MOST_PASSAGES,
    CannotBuildError,
    Makers,
    Stated,
    fact_contexts,
    listed_facts,
    microworld_contexts,
    without_answer,
)
from ._cases import PAPER_KINDS, Context, ContextKind, Dataset, Question
from ._windows import WINDOW_WORDS, NearestPassages, best_window, word_weights


def text_contexts(
    questions: Sequence[Question],
    stated: Mapping[str, StatedAnswer],
    nearest: NearestPassages,
    seed: int,
) -> Makers:
    """Make contexts from the questions' own sources.

    Args:
        questions: all of the data set.
        stated: answers in their original contexts, by question.
        nearest: knows how much alike questions are.
        seed: of all random choices.
    """
    alike = grouped(stated.values(), lambda one: one.shape.form)
    of_kind = grouped(stated.values(), lambda one: one.shape.kind)
    held = [one for one in questions if one.id in stated]
    group_of = {stated[one.id].window: one.group for one in reversed(held)}

    def stated_of(question: Question) -> StatedAnswer:
        if question.id not in stated:
            raise CannotBuildError(
                "no source holds an answer" if question.sources else "the question has no source"
            )
        return stated[question.id]

    def contradicting(question: Question, likely: bool) -> Stated:
        """The same window with another answer of the same sort, or of a wrong kind."""
        own = stated_of(question)
        if likely:
            proposed = plausible(own, alike[own.shape.form], nearest.likeness, seed=seed)
        else:
            proposed = implausible(own, of_kind, seed=seed)
        if not proposed:
            sort = "the same sort and form" if likely else "another kind"
            raise CannotBuildError(f"no other answer of the data set is of {sort}")
        for one in proposed:
            text = replace_answer(own.window, question.answers, one, own.shape.kind)
            if text is not None:
                return text, one.answers
        raise CannotBuildError("the answer cannot be replaced everywhere")

    def random(question: Question) -> list[str]:
        """Windows of the data set, those of other groups first."""
        order = list(dict.fromkeys(one.window for one in stated.values()))
        Random(f"uniknow/random/{seed}/{question.id}").shuffle(order)  # noqa: S311
        order.sort(key=lambda text: group_of[text] == question.group)
        return order

    return Makers(
        lambda question: (stated_of(question).window, question.answers), contradicting, random
    )


def _stated(questions: Sequence[Question], words: int) -> dict[str, StatedAnswer]:
    """Return by question the window that best supports its answer, where a source holds it."""
    weight = word_weights(text for question in questions for text in question.sources)
    found = {}
    for one in questions:
        window = best_window(one.question, one.answers, one.sources, weight, words=words)
        if window is not None:
            found[one.id] = StatedAnswer.first(one.id, one.question, one.answers, window)
    return found


PASSAGES = 4


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
    kinds: Sequence[ContextKind] = PAPER_KINDS,
    words: int = WINDOW_WORDS,
    passages: int = PASSAGES,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> tuple[Contexts, list[ContextProblem]]:
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
    questions, encoder = dataset.questions, encoder or BiEncoderScorer()
    asked, own = [one.question for one in questions], dict[str, StatedAnswer]()
    if dataset.bundled == MICROWORLD:
        texts, passages = (
            [one.text for one in default_world().documents],
            min(passages, MOST_PASSAGES),
        )
    elif dataset.bundled == FACTS:
        texts = [fact.text for fact in listed_facts().values()]
    else:
        own = _stated(questions, words)
        texts = [one.window for one in own.values()]
        asked += [one.text for one in own.values()]
    nearest = NearestPassages(texts, asked, encoder, on_progress)
    bundled = {MICROWORLD: microworld_contexts, FACTS: fact_contexts}.get(dataset.bundled)
    makers = text_contexts(questions, own, nearest, seed) if bundled is None else bundled(seed)
    # The place of the right passage is balanced: each is used equally often, give or take one.
    order = [question.id for question in questions]
    Random(f"uniknow/places/{seed}").shuffle(order)  # noqa: S311
    builder = _Builder(makers, nearest, passages, {name: n for n, name in enumerate(order)}, seed)
    built: Contexts = {}
    problems: list[ContextProblem] = []
    advance = stage_progress(on_progress, "building contexts")
    for number, question in enumerate(questions, start=1):
        found = built.setdefault(question.id, {})
        for kind in kinds:
            try:
                found[kind] = builder.build(question, kind)
            except CannotBuildError as error:
                problem = ContextProblem(question_id=question.id, kind=kind, reason=str(error))
                problems.append(problem)
        advance(number, len(questions))
    return built, problems


@dataclass(frozen=True)
class _Builder:
    """Build contexts, of one passage or several.

    Attributes:
        makers: of the passages.
        nearest: ranks passages that mislead.
        count: passages of `one_of_k` and `none_of_k`.
        turns: by question, decide the place of the right passage.
        seed: of the order of distractors.
    """

    makers: Makers
    nearest: NearestPassages
    count: int
    turns: Mapping[str, int]
    seed: int

    def build(self, question: Question, kind: ContextKind) -> Context:
        """Return a context of some kind.

        Raises:
            CannotBuildError: there is none.
        """
        match kind:
            case ContextKind.CONFLICTING:
                text, answers = self.makers.contradicting(question, True)
                return Context((text,), answers)
            case ContextKind.UNTRUE:
                text, untrue = self.makers.contradicting(question, False)
                return Context((text,), (), untrue)
            case ContextKind.RANDOM:
                return Context(tuple(without_answer(question, self.makers.random(question), 1)))
            case ContextKind.RETRIEVED:
                return Context(tuple(self._retrieved(question, 1)))
            case ContextKind.NONE_OF_K:
                return Context(tuple(self._distractors(question, self.count)))
        passages, (text, answers) = [], self.makers.original(question)
        turn = self.turns[question.id]
        if kind is ContextKind.ONE_OF_K:
            passages = self._distractors(question, self.count - 1)
        elif kind is ContextKind.TWO_IN_CONFLICT:
            other, wrong = self.makers.contradicting(question, True)
            passages, answers = [other], (*answers, *wrong)
        passages.insert(turn % (len(passages) + 1), text)
        return Context(tuple(passages), answers)

    def _retrieved(self, question: Question, count: int) -> list[str]:
        return without_answer(question, self.nearest.ranked(question.question), count)

    def _distractors(self, question: Question, count: int) -> list[str]:
        """Return as many misleading as random passages, all different, in a shuffled order."""
        passages = self._retrieved(question, (count + 1) // 2)
        random = (text for text in self.makers.random(question) if text not in passages)
        if far := count - len(passages):
            passages = [*passages, *without_answer(question, random, far)]
        Random(f"uniknow/order/{self.seed}/{question.id}").shuffle(passages)  # noqa: S311
        return passages
