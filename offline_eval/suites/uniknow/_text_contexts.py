"""Contexts for data sets of texts: cut, replaced, drawn and retrieved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random

from ....guard.contracts import LanguageModel, RelevanceScorer, TextEmbedder
from ....guard.errors import LanguageModelError, PartialGenerationsError
from ....guard.text import clean_text
from ._alternatives import Alternatives, StatedAnswer, is_another, stated_answer
from ._answer_kinds import NUMBER, NUMERIC_KINDS, AnswerKind, answer_shape
from ._cases import SuiteQuestion
from ._context_sets import CannotBuildError, Stated
from ._datasets import prompt_text
from ._occurrences import holds_answer
from ._replacement import Alternative, replace_answer
from ._windows import (
    WINDOW_WORDS,
    NearestPassages,
    Progress,
    WordWeights,
    best_window,
)

_BATCH = 16
_SAMPLES = 3
_LABEL = re.compile(r"^\s*(?:wrong answer|answer|alternative)\s*[:：]\s*", re.IGNORECASE)
_NAMES = (AnswerKind.PERSON, AnswerKind.PLACE, AnswerKind.ORGANISATION, AnswerKind.NAME)
Check = Callable[[StatedAnswer, Alternative], bool]


def edited_alternatives(
    editor: LanguageModel,
    stated: Sequence[StatedAnswer],
    accept: Check,
    *,
    seed: int,
    on_progress: Progress | None = None,
) -> dict[str, Alternative | str]:
    """The editor's wrong answer for each right one, or why there is none.

    Each is asked for greedily first; where that reply does not pass, three are sampled.

    Args:
        editor: any language model that follows instructions.
        stated: the right answers in their contexts.
        accept: whether an alternative serves in its context.
        seed: of the samples.
        on_progress: called with the answers asked for so far and their number.

    Returns:
        Question id → alternative, or the reason in words of this package.
    """
    found: dict[str, Alternative | str] = {}
    for temperature, n in ((0.0, 1), (1.0, _SAMPLES)):
        open_ = [one for one in stated if not isinstance(found.get(one.question.id), Alternative)]
        for start in range(0, len(open_), _BATCH):
            batch = open_[start : start + _BATCH]
            replies = _ask(editor, batch, n, temperature, seed)
            for one, reply in zip(batch, replies, strict=True):
                found[one.question.id] = (
                    reply if isinstance(reply, str) else _first_accepted(one, reply, accept)
                )
            if on_progress is not None and n == 1:
                on_progress(start + len(batch), len(open_))
    return found


def _ask(
    editor: LanguageModel, batch: Sequence[StatedAnswer], n: int, temperature: float, seed: int
) -> list[list[str] | str]:
    """The replies for each, or the name of the error where none arrived."""
    template = prompt_text("conflicting_answer")
    prompts = [
        template.format(context=one.window, question=one.question.question, answer=one.text)
        for one in batch
    ]
    try:
        rows = editor.generate(prompts, n=n, temperature=temperature, seed=seed)
        return [[generation.text for generation in row] for row in rows]
    except PartialGenerationsError as error:
        return [
            [generation.text for generation in row] or f"the editor failed ({type(why).__name__})"
            for row, why in zip(error.generations, error.errors, strict=True)
        ]
    except LanguageModelError as error:
        return [f"the editor failed ({type(error).__name__})"] * len(batch)


def _first_accepted(
    stated: StatedAnswer, replies: Sequence[str], accept: Check
) -> Alternative | str:
    for reply in replies:
        alternative = alternative_from_reply(stated, reply)
        if alternative is not None and accept(stated, alternative):
            return alternative
    return "no reply of the editor can take the answer's place"


def alternative_from_reply(stated: StatedAnswer, reply: str) -> Alternative | None:
    """What an editor's reply proposes; None where it is no other answer of the same kind."""
    lines = [line.strip() for line in clean_text(reply).splitlines() if line.strip()]
    text = _LABEL.sub("", lines[0]).strip().strip("\"'“”‘’") if lines else ""
    if text.endswith(".") and not stated.text.endswith("."):
        text = text[:-1]
    if not text or len(text.split()) > len(stated.text.split()) + 3:
        return None
    kind = answer_shape(stated.question.question, text).kind
    same = kind is stated.shape.kind or (kind in _NAMES and stated.shape.kind in _NAMES)
    if not same or not is_another(stated, text):
        return None
    number = None
    if kind in NUMERIC_KINDS:
        new = NUMBER.findall(text)
        # With the same words around the number every spelling of the answer can take it.
        if len(new) == 1 and NUMBER.sub("#", text) == NUMBER.sub("#", stated.text):
            number = new[0]
    return Alternative(text, (text,), number)


# Of the distance between the original's relevance and that of a random passage.
_MOST_DROP = 0.5


class TextContexts:
    """Contexts cut from the questions' own sources.

    Args:
        questions: of one data set.
        encoder: retrieves passages and compares questions.
        editor: writes the alternatives, where given.
        scorer: checks conflicting contexts, where given.
        seed: of all chance.
        words: how long a window is.
        on_progress: called while texts are encoded and alternatives written.
    """

    def __init__(
        self,
        questions: Sequence[SuiteQuestion],
        encoder: TextEmbedder,
        *,
        editor: LanguageModel | None = None,
        scorer: RelevanceScorer | None = None,
        seed: int = 0,
        words: int = WINDOW_WORDS,
        on_progress: Progress | None = None,
    ) -> None:
        self._scorer, self._seed = scorer, seed
        weights = WordWeights(text for question in questions for text in question.sources)
        self._stated: dict[str, StatedAnswer] = {}
        for question in questions:
            window = best_window(
                question.question,
                question.answers,
                question.sources,
                weights,
                words=words,
            )
            if window is not None:
                self._stated[question.id] = stated_answer(question, window)
        stated = list(self._stated.values())
        self._group_of = {one.window: one.question.group for one in reversed(stated)}
        self._nearest = NearestPassages(
            [one.window for one in stated],
            [*(question.question for question in questions), *(one.text for one in stated)],
            encoder,
            on_progress,
        )
        self._alternatives = Alternatives(stated, self._nearest, seed=seed)
        self._edited: dict[str, Alternative | str] | None = None
        if editor is not None:
            self._edited = edited_alternatives(
                editor, stated, self._serves, seed=seed, on_progress=on_progress
            )
        self._conflicting: dict[str, Stated | str] = {}

    def original(self, question: SuiteQuestion) -> Stated:
        """The window that best supports the answer."""
        return Stated(self._of(question).window, question.answers)

    def conflicting(self, question: SuiteQuestion) -> Stated:
        """The same window with another answer of the same sort."""
        if question.id not in self._conflicting:
            self._conflicting[question.id] = self._replaced(self._of(question))
        found = self._conflicting[question.id]
        if isinstance(found, str):
            raise CannotBuildError(found)
        return found

    def untrue(self, question: SuiteQuestion) -> Stated:
        """The same window with an answer of a wrong kind."""
        stated = self._of(question)
        for alternative in self._alternatives.implausible(stated):
            text = _exchange(stated, alternative)
            if text is not None:
                return Stated(text, alternative.answers)
        raise CannotBuildError("no answer of another kind can take the answer's place")

    def random(self, question: SuiteQuestion, count: int) -> list[str]:
        """Windows of other questions, from other groups as far as there are any."""
        order = list(self._nearest.passages)
        Random(f"uniknow/random/{self._seed}/{question.id}").shuffle(order)  # noqa: S311
        order.sort(key=lambda text: self._group_of[text] == question.group)
        return _taken(_without_answer(question, order), count)

    def retrieved(self, question: SuiteQuestion, count: int) -> list[str]:
        """The nearest windows that do not hold the answer."""
        ranked = self._nearest.ranked(question.question)
        return _taken(_without_answer(question, ranked), count)

    def _of(self, question: SuiteQuestion) -> StatedAnswer:
        if question.id not in self._stated:
            raise CannotBuildError(
                "no source holds an answer" if question.sources else "the question has no source"
            )
        return self._stated[question.id]

    def _replaced(self, stated: StatedAnswer) -> Stated | str:
        """The conflicting context, or why there is none."""
        if self._edited is not None:
            edited = self._edited[stated.question.id]
            if isinstance(edited, str):
                return edited
            return Stated(_exchange(stated, edited) or "", edited.answers)
        proposed = self._alternatives.plausible(stated)
        if not proposed:
            return "no other answer of the data set is of the same sort and form"
        replaceable = False
        for alternative in proposed:
            text = _exchange(stated, alternative)
            replaceable = replaceable or text is not None
            if text is not None and self._suffices(stated, text):
                return Stated(text, alternative.answers)
        if replaceable:
            return "no alternative leaves a context that suffices for the question"
        return "the answer cannot be replaced everywhere"

    def _serves(self, stated: StatedAnswer, alternative: Alternative) -> bool:
        """Whether the exchange succeeds and the context still suffices."""
        text = _exchange(stated, alternative)
        return text is not None and self._suffices(stated, text)

    def _suffices(self, stated: StatedAnswer, text: str) -> bool:
        """Whether the scorer, if there is one, finds `text` relevant like the original."""
        if self._scorer is None:
            return True
        question = stated.question.question
        supports = getattr(self._scorer, "supports", None)
        if supports is not None and not supports(question):
            return True
        try:
            far = self.random(stated.question, 1)
        except CannotBuildError:
            return True
        original, new, random = map(
            float, self._scorer.score(question, [stated.window, text, *far])
        )
        # A scorer that ranks a random passage above the original says nothing here.
        return random >= original or new >= original - _MOST_DROP * (original - random)


def _exchange(stated: StatedAnswer, alternative: Alternative) -> str | None:
    return replace_answer(stated.window, stated.question.answers, alternative, stated.shape.kind)


def _without_answer(question: SuiteQuestion, texts: Sequence[str] | Iterator[str]) -> Iterator[str]:
    return (text for text in texts if not holds_answer(text, question.answers))


def _taken(texts: Iterator[str], count: int) -> list[str]:
    found = [text for _, text in zip(range(count), texts, strict=False)]
    if len(found) < count:
        raise CannotBuildError("too few passages of the data set leave out the answer")
    return found
