"""Build the contexts of a data set, kind by kind: cut, edited, drawn and retrieved."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import TextEmbedder
from ....guard.engine import BiEncoderScorer
from ....guard.errors import InputError
from ...data.answers.alternatives import StatedAnswer, implausible, plausible, replace_answer
from ...data.answers.matching import CJK, occurrences, words_of
from ...data.embedding import embed_all
from ...run import Stored
from ...run.calls import OnProgress
from ...run.grouping import grouped
from ...testbed import default_world
from ..parts import stage_progress
from ._bundled import (
    FACTS,
    MICROWORLD,
    MOST_PASSAGES,
    Makers,
    Stated,
    fact_contexts,
    listed_facts,
    microworld_contexts,
    without_answer,
)
from ._cases import PAPER_KINDS, Context, ContextKind, Dataset, Question


class NearestPassages:
    """Ranks passages by their cosine with a question.

    Args:
        passages: what is ranked; equal texts are kept once.
        questions: those that will be asked, and other short texts to be compared.
        encoder: for both.
        on_progress: called with the number of texts encoded.
    """

    def __init__(
        self,
        passages: Sequence[str],
        questions: Sequence[str],
        encoder: TextEmbedder,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.passages = list(dict.fromkeys(passages))
        asked = list(dict.fromkeys(questions))
        advance = stage_progress(on_progress, "encoding texts")
        vectors = embed_all([*self.passages, *asked], encoder, advance)
        self._matrix = vectors[: len(self.passages)]
        self._queries = dict(zip(asked, vectors[len(self.passages) :], strict=True))

    def ranked(self, question: str) -> Iterator[str]:
        """Return all passages, the nearest first; ties in their given order."""
        if not self.passages:
            return
        for index in np.argsort(-(self._matrix @ self._queries[question]), kind="stable"):
            yield self.passages[int(index)]

    def likeness(self, text: str, others: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosines of a short text with others, of shape (len(others),)."""
        rows = np.stack([self._queries[other] for other in others])
        return np.asarray(rows @ self._queries[text], dtype=np.float32)


WINDOW_WORDS = 100
# An English word takes about 1.6 characters in Chinese.
_CHARACTER_TENTHS = 6
# Of the window's length, for one of whole sentences.
_SHORTEST = 0.75
_UNIT = re.compile(f"[{CJK}]|[^\\s{CJK}]+")
_SENTENCE = re.compile(r"\S.*?(?:[.!?]['\")\]”’」]*(?=\s|$)|[。！？]['\")\]”’」]*|$)", re.DOTALL)


def word_weights(texts: Iterable[str]) -> Callable[[str], float]:
    """Return what weights a word by how rare it is among texts, each counted once."""
    different = dict.fromkeys(texts)
    counts = Counter(word for text in different for word in set(words_of(text)))
    return lambda word: math.log(1 + max(1, len(different)) / max(0.5, counts[word]))


def window_around(text: str, span: tuple[int, int], *, words: int = WINDOW_WORDS) -> str:
    """Return the part of `text` around `span` that is about `words` words long.

    Args:
        text: any text; a Chinese or Japanese character counts as 0.6 words.
        span: start and end of the answer, which the window always holds whole.
        words: the length aimed at; the window is never longer unless the answer is.

    Returns:
        The window, of whole sentences where that costs little; the whole text where that is
        no longer.
    """
    for unit in (_SENTENCE, _UNIT):
        units = [match.span() for match in unit.finditer(text)]
        sizes = [sum(map(_tenths, _UNIT.findall(text, *one))) for one in units]
        inside = [i for i, (start, end) in enumerate(units) if end > span[0] and start < span[1]]
        if not inside:
            break
        left, right = inside[0], inside[-1]
        # In tenths of a word, so that sums are exact.
        room, before = 10 * words - sum(sizes[left : right + 1]), (-1, -1)
        while before != (left, right):
            before = left, right
            if left > 0 and sizes[left - 1] <= room:
                left -= 1
                room -= sizes[left]
            if right + 1 < len(units) and sizes[right + 1] <= room:
                right += 1
                room -= sizes[right]
        enough = 0 <= room <= 10 * words * (1 - _SHORTEST)
        if enough or unit is _UNIT or (room >= 0 and right - left == len(units) - 1):
            return text[units[left][0] : units[right][1]]
    return text[span[0] : span[1]]


def best_window(
    question: str,
    answers: Sequence[str],
    sources: Sequence[str],
    weight: Callable[[str], float],
    *,
    words: int = WINDOW_WORDS,
) -> str | None:
    """Return the window around an answer that supports it best; None if no source holds one.

    Args:
        question: its words make up the support.
        answers: a window may hold any of them.
        sources: texts to cut from.
        weight: of a word: how rare it is.
        words: length of a window.
    """
    windows = dict.fromkeys(
        window_around(source, span, words=words)
        for source in sources
        for span in occurrences(source, answers)
    )
    asked = set(words_of(question))

    def support(window: str) -> float:
        # Exact, whatever the order: sums of floats depend on it, and sets have none.
        return math.fsum(weight(word) for word in asked & set(words_of(window)))

    return max(windows, key=support, default=None)


def _tenths(unit: str) -> int:
    return _CHARACTER_TENTHS if re.match(f"[{CJK}]", unit) else 10


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
    group_of = {stated[q.id].window: q.group for q in reversed(questions) if q.id in stated}

    def stated_of(question: Question) -> StatedAnswer:
        if question.id not in stated:
            raise InputError(
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
            raise InputError(f"no other answer of the data set is of {sort}")
        for one in proposed:
            text = replace_answer(own.window, question.answers, one, own.shape.kind)
            if text is not None:
                return text, one.answers
        raise InputError("the answer cannot be replaced everywhere")

    def random(question: Question) -> list[str]:
        """Windows of the data set, those of other groups first."""
        order = list(dict.fromkeys(one.window for one in stated.values()))
        Random(f"uniknow/random/{seed}/{question.id}").shuffle(order)  # noqa: S311
        order.sort(key=lambda text: group_of[text] == question.group)
        return order

    return lambda question: (stated_of(question).window, question.answers), contradicting, random


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


# Question id → kind → context; every question has an entry, without what could not be built.
Contexts = dict[str, dict[ContextKind, Context]]


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
    turns = {name: number for number, name in enumerate(order)}
    build = _builder(makers, nearest, passages, turns, seed)
    built: Contexts = {}
    problems: list[ContextProblem] = []
    advance = stage_progress(on_progress, "building contexts")
    for number, question in enumerate(questions, start=1):
        found = built.setdefault(question.id, {})
        for kind in kinds:
            try:
                found[kind] = build(question, kind)
            except InputError as error:
                problem = ContextProblem(question_id=question.id, kind=kind, reason=str(error))
                problems.append(problem)
        advance(number, len(questions))
    return built, problems


def _builder(
    makers: Makers, nearest: NearestPassages, count: int, turns: Mapping[str, int], seed: int
) -> Callable[[Question, ContextKind], Context]:
    """Return what builds a context of some kind, or raises an InputError.

    Args:
        makers: make the passages.
        nearest: ranks passages that mislead.
        count: passages of `one_of_k` and `none_of_k`.
        turns: by question, decide the place of the right passage.
        seed: of the order of distractors.
    """
    original, contradicting, random = makers

    def retrieved(question: Question, number: int) -> list[str]:
        return without_answer(question, nearest.ranked(question.question), number)

    def distractors(question: Question, number: int) -> list[str]:
        """Return as many misleading as random passages, all different, in a shuffled order."""
        passages = retrieved(question, (number + 1) // 2)
        others = (text for text in random(question) if text not in passages)
        if far := number - len(passages):
            passages = [*passages, *without_answer(question, others, far)]
        Random(f"uniknow/order/{seed}/{question.id}").shuffle(passages)  # noqa: S311
        return passages

    def build(question: Question, kind: ContextKind) -> Context:
        match kind:
            case ContextKind.CONFLICTING:
                text, answers = contradicting(question, True)
                return Context((text,), answers)
            case ContextKind.UNTRUE:
                text, untrue = contradicting(question, False)
                return Context((text,), (), untrue)
            case ContextKind.RANDOM:
                return Context(tuple(without_answer(question, random(question), 1)))
            case ContextKind.RETRIEVED:
                return Context(tuple(retrieved(question, 1)))
            case ContextKind.NONE_OF_K:
                return Context(tuple(distractors(question, count)))
        passages, (text, answers) = [], original(question)
        if kind is ContextKind.ONE_OF_K:
            passages = distractors(question, count - 1)
        elif kind is ContextKind.TWO_IN_CONFLICT:
            other, wrong = contradicting(question, True)
            passages, answers = [other], (*answers, *wrong)
        passages.insert(turns[question.id] % (len(passages) + 1), text)
        return Context(tuple(passages), answers)

    return build
