"""Contexts for data sets of texts: windows that are cut, edited, drawn and retrieved."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from ....guard.contracts import LanguageModel, PartialGenerationsError, TextEmbedder
from ....guard.errors import LanguageModelError
from ....guard.text import clean_text
from ...run import OnProgress, Progress
from ._alternatives import Alternatives, StatedAnswer, is_another, stated_answer
from ._answer_kinds import NUMERIC_KINDS, AnswerKind, answer_shape
from ._cases import SuiteQuestion
from ._context_source import CannotBuildError, Stated, first_without_answer
from ._datasets import prompt_text
from ._numbers import NUMBER
from ._replacement import Alternative, replace_answer
from ._windows import WINDOW_WORDS, NearestPassages, WordWeights, best_window

_BATCH = 16
_SAMPLES = 3
_LABEL = re.compile(r"^\s*(?:wrong answer|answer|alternative)\s*[:：]\s*", re.IGNORECASE)
_NAMES = (AnswerKind.PERSON, AnswerKind.PLACE, AnswerKind.ORGANISATION, AnswerKind.NAME)


def edited_alternatives(
    editor: LanguageModel,
    stated: Sequence[StatedAnswer],
    *,
    seed: int,
    on_progress: OnProgress | None = None,
) -> dict[str, Alternative | str]:
    """Ask an editor for a wrong answer in the place of each right one.

    Greedily first; if that reply cannot be used, three more are sampled.

    Args:
        editor: any language model that follows instructions.
        stated: the right answers in their contexts.
        seed: of the samples.
        on_progress: called with the number of answers asked for.

    Returns:
        Question id → alternative, or the reason why there is none.
    """
    found: dict[str, Alternative | str] = {}
    for temperature, n in ((0.0, 1), (1.0, _SAMPLES)):
        open_ = [one for one in stated if not isinstance(found.get(one.question.id), Alternative)]
        for start in range(0, len(open_), _BATCH):
            batch = open_[start : start + _BATCH]
            replies = _ask(editor, batch, n, temperature, seed)
            for one, reply in zip(batch, replies, strict=True):
                found[one.question.id] = (
                    reply if isinstance(reply, str) else _first_accepted(one, reply)
                )
            if on_progress is not None and n == 1:
                on_progress(Progress("writing wrong answers", start + len(batch), len(open_)))
    return found


def _ask(
    editor: LanguageModel, batch: Sequence[StatedAnswer], n: int, temperature: float, seed: int
) -> list[list[str] | str]:
    """Return the replies for each, or the reason why there are none."""
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


def _first_accepted(stated: StatedAnswer, replies: Sequence[str]) -> Alternative | str:
    for reply in replies:
        alternative = alternative_from_reply(stated, reply)
        if alternative is not None and _exchange(stated, alternative) is not None:
            return alternative
    return "no reply of the editor can take the answer's place"


def alternative_from_reply(stated: StatedAnswer, reply: str) -> Alternative | None:
    """Return the answer that a reply proposes; None if it is not another one of the same kind."""
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


class TextContexts:
    """Build contexts from the questions' own sources.

    Args:
        questions: of one data set.
        encoder: retrieves passages and compares questions.
        editor: writes wrong answers; without one, other answers of the data set are used.
        seed: of all random choices.
        words: length of a window.
        on_progress: called while texts are encoded and alternatives written.
    """

    def __init__(
        self,
        questions: Sequence[SuiteQuestion],
        encoder: TextEmbedder,
        *,
        editor: LanguageModel | None = None,
        seed: int = 0,
        words: int = WINDOW_WORDS,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._seed = seed
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
        self._nearest = NearestPassages(
            [one.window for one in stated],
            [*(question.question for question in questions), *(one.text for one in stated)],
            encoder,
            on_progress,
        )
        self._alternatives = Alternatives(stated, self._nearest, seed=seed)
        self._edited: dict[str, Alternative | str] | None = None
        if editor is not None:
            self._edited = edited_alternatives(editor, stated, seed=seed, on_progress=on_progress)

    def original(self, question: SuiteQuestion) -> Stated:
        """Return the window that best supports the answer."""
        return Stated(self._of(question).window, question.answers)

    def conflicting(self, question: SuiteQuestion) -> Stated:
        """Return the same window with another answer of the same sort."""
        stated = self._of(question)
        if self._edited is not None:
            edited = self._edited[question.id]
            if isinstance(edited, str):
                raise CannotBuildError(edited)
            return Stated(_exchange(stated, edited) or "", edited.answers)
        proposed = self._alternatives.plausible(stated)
        if not proposed:
            raise CannotBuildError("no other answer of the data set is of the same sort and form")
        for alternative in proposed:
            text = _exchange(stated, alternative)
            if text is not None:
                return Stated(text, alternative.answers)
        raise CannotBuildError("the answer cannot be replaced everywhere")

    def untrue(self, question: SuiteQuestion) -> Stated:
        """Return the same window with an answer of a wrong kind."""
        stated = self._of(question)
        for alternative in self._alternatives.implausible(stated):
            text = _exchange(stated, alternative)
            if text is not None:
                return Stated(text, alternative.answers)
        raise CannotBuildError("no answer of another kind can take the answer's place")

    def random(self, question: SuiteQuestion, count: int) -> list[str]:
        """Return windows of other questions, of other groups as far as there are any."""
        order = list(self._nearest.passages)
        Random(f"uniknow/random/{self._seed}/{question.id}").shuffle(order)  # noqa: S311
        order.sort(key=lambda text: self._group_of[text] == question.group)
        return first_without_answer(question, order, count, of="passages of the data set")

    def retrieved(self, question: SuiteQuestion, count: int) -> list[str]:
        """Return the nearest windows that do not hold the answer."""
        ranked = self._nearest.ranked(question.question)
        return first_without_answer(question, ranked, count, of="passages of the data set")

    def _of(self, question: SuiteQuestion) -> StatedAnswer:
        if question.id not in self._stated:
            raise CannotBuildError(
                "no source holds an answer" if question.sources else "the question has no source"
            )
        return self._stated[question.id]


def _exchange(stated: StatedAnswer, alternative: Alternative) -> str | None:
    return replace_answer(stated.window, stated.question.answers, alternative, stated.shape.kind)
