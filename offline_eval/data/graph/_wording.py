"""Word drafts as questions in one language, and check each text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from random import Random

from ._drawing import AnswerSet, Draft, Material, Twins, bounds, seeded, shuffled
from .graph import Span, written
from .items import (
    Answer,
    Answerability,
    ChoiceItem,
    Clue,
    QuestionType,
    Triple,
    UaqItem,
    dilemma_options,
)
from .question_templates import SLOT

_ENDS = " ?？.。!！"
_MOST_ALIASES = 20
# How the layout parts the answers of a step.
_BETWEEN = ", "
_WIKIBASE_ENTITY = re.compile(r"https?://.+/entity/([QLP]\d+)$")


class UnfitTextError(Exception):
    """A text came out wrong; the question is left out. Never leaves the package."""


# Twins in one language: the answerable question and the other one; those on the facts.
Written = tuple[tuple[UaqItem, UaqItem], tuple[ChoiceItem, ...]]


class Writer:
    """Words drafts in one language.

    Args:
        material: names and templates.
        language: a language of the settings.
    """

    def __init__(self, material: Material, language: str) -> None:
        self._material, self._language = material, language
        self._labels, self._templates = material.labels, material.templates

    def write(self, twins: Twins, number: str) -> Written:
        """Both questions, and the four-option questions on the facts.

        Args:
            twins: what to word.
            number: becomes part of the ids, such as `inter_ua_7`.

        Raises:
            UnfitTextError: a text names its own answer, cannot be read back, or has a slot left.
        """
        name = twins[0].type.value
        rng = seeded(self._material.settings.seed, "words", self._language, name, number)
        known: dict[AnswerSet, str] = {}
        for part in (*twins[0].parts, *twins[1].parts):
            known[part] = known.get(part) or self._step(part, "question", rng)
        # Twins share the wording of what they share: the same draws for both.
        state = rng.getrandbits(32)
        one, other = (
            self._item(draft, number, [known[part] for part in draft.parts], state)
            for draft in twins[:2]
        )
        linked = (other.qid, one.qid) if one.options else (other.qid,)
        choices = tuple(
            self._choice(fact, f"{name}_fact_{number}_{at}", linked)
            for at, fact in enumerate(twins[2], start=1)
        )
        for item in (one, other):
            self._check(item, choices)
        return (one, other), choices

    # --- texts --------------------------------------------------------------------------------

    def _asked(self, draft: Draft, plain: Sequence[str], rng: Random) -> str:
        asked = draft.parts[0]
        if draft.window is not None:
            return self._dated(asked, draft.window, rng)
        if draft.type is QuestionType.DILEMMA:
            one, two = (self._name(option) for option in draft.options)
            question = plain[0].rstrip(_ENDS)
            return self._worded(
                "dilemma", asked.prop, rng, question=question, option_1=one, option_2=two
            )
        one, two = (self._step(part, "role", rng) for part in draft.parts)
        words = {self._asks(part.prop) for part in draft.parts}
        # Two question words for one answer, such as "who" and "which house": neither will do.
        asks = words.pop() if len(words) == 1 else self._templates.asks("", (), self._language)
        return self._worded("inter", "", rng, role_1=one, role_2=two, asks=asks)

    def _dated(self, asked: AnswerSet, window: tuple[int, int], rng: Random) -> str:
        subject, (start, end) = self._name(asked.key), map(str, window)
        if start == end:
            return self._worded("time_year", asked.prop, rng, subject=subject, year=start)
        return self._worded("time_between", asked.prop, rng, subject=subject, start=start, end=end)

    def _step(self, asked: AnswerSet, name: str, rng: Random | None = None) -> str:
        # Always the same of several wordings, unless they are drawn: one fact, one question.
        return self._worded(name, asked.prop, rng or seeded(0), subject=self._name(asked.key))

    def _worded(self, template: str, prop: str, rng: Random, **values: str) -> str:
        """A finished text.

        Raises:
            UnfitTextError: it is empty, of several lines, or has a slot left.
        """
        profile = self._material.profiles[prop] if prop else None
        kind, label = (profile.kind, profile.labels[self._language]) if profile else (None, "")
        prompt = self._templates.pick(template, self._language, prop, rng, kind)
        asks = {} if "asks" in values else {"asks": self._asks(prop)}
        text = prompt.fill(property=label, **asks, **values).strip()
        if not text or "\n" in text or SLOT.search(text):
            raise UnfitTextError("an unfinished text")
        return text

    def _asks(self, prop: str) -> str:
        classes = self._material.profiles[prop].classes
        return self._templates.asks(prop, classes, self._language)

    def _name(self, node: str) -> str:
        return self._labels.label(node, self._language)

    def _item(self, draft: Draft, number: str, plain: Sequence[str], state: int) -> UaqItem:
        kind = Answerability.ANSWERABLE if draft.answers else Answerability.UNANSWERABLE
        return UaqItem(
            qid=f"{draft.type.value}_{kind.value}_{number}",
            language=self._language,
            type=draft.type,
            kind=kind,
            question=self._asked(draft, plain, seeded(state)),
            answers=tuple(self._answer(node) for node in draft.answers),
            options=tuple(self._name(option) for option in draft.options),
            clues=self._clues(draft, plain),
            triples=tuple(triple for part in draft.parts for triple in self._triples(part)),
        )

    def _answer(self, node: str) -> Answer:
        name = written(node)
        match = _WIKIBASE_ENTITY.fullmatch(name)
        return Answer(
            id=match.group(1) if match else name,
            label=self._name(node),
            aliases=self._labels.aliases(node, self._language)[:_MOST_ALIASES],
        )

    def _clues(self, draft: Draft, plain: Sequence[str]) -> tuple[Clue, ...]:
        if draft.type is not QuestionType.TIME:
            return tuple(
                Clue(question, tuple(self._name(answer) for answer in part.answers))
                for question, part in zip(plain, draft.parts, strict=True)
            )
        asked = draft.parts[0]
        years = bounds(self._material.spans(asked.key, asked.prop))
        return tuple(
            Clue(self._step(asked, name), (str(year),))
            for name, year in zip(("begin", "finish"), years, strict=True)
            if year is not None
        )

    def _triples(self, part: AnswerSet) -> Iterable[Triple]:
        prop = part.prop
        relation = self._material.profiles[prop].labels[self._language]
        for answer in part.answers:
            spans = [one for one in self._material.spans(part.key, prop) if one.value == answer]
            for span in spans or [Span(answer, None, None)]:
                yield Triple(
                    self._name(part.key),
                    relation,
                    self._name(answer),
                    start=str(span.start or ""),
                    end=str(span.end or ""),
                )

    def _choice(self, fact: Draft, qid: str, linked: tuple[str, ...]) -> ChoiceItem:
        (asked,), (target,) = fact.parts, fact.answers
        seed, about = self._material.settings.seed, (written(asked.key), written(target))
        rng = seeded(seed, "choice", asked.prop, *about)
        names = shuffled(fact.options, rng)
        if fact.step == "value":
            names, target = [self._name(node) for node in names], self._name(target)
            dated = fact.window is not None and self._dated(asked, fact.window, rng)
            question = dated or self._step(asked, "question", rng)
        else:
            question = self._step(asked, fact.step)
        if len(set(names)) < len(names):
            raise UnfitTextError("two options are written alike")
        if any(_mentions(name, question) for name in names):
            raise UnfitTextError("a question names one of its options")
        return ChoiceItem(
            qid=qid,
            language=self._language,
            type=fact.type,
            question=question,
            options=tuple(names),
            target=target,
            relevant=linked,
        )

    # --- checks -------------------------------------------------------------------------------

    def _check(self, item: UaqItem, choices: Sequence[ChoiceItem]) -> None:
        if item.type is QuestionType.DILEMMA:
            stem = item.clues[0].question
            if any(_mentions(option, stem) for option in item.options):
                raise UnfitTextError("an option stands in the rest of the question")
            gold = [answer.label for answer in item.answers]
            offered = [option for choice in choices for option in choice.options]
            # As a reader of the files finds them, with the four-option questions and without.
            for known in (gold, [*gold, *offered]):
                if dilemma_options(item.question, known, stem=stem) != item.options:
                    raise UnfitTextError("the options cannot be told apart")
            return
        names = [name for answer in item.answers for name in (answer.label, *answer.aliases)]
        if any(_mentions(name, item.question) for name in names):
            raise UnfitTextError("the question names its answer")
        if item.type is QuestionType.INTER and any(
            _BETWEEN in answer for clue in item.clues for answer in clue.answers
        ):
            raise UnfitTextError("a clue's answers cannot be told apart")


def _mentions(name: str, text: str) -> bool:
    """Whether a name stands in a text, case aside; single letters do not count."""
    return (len(name) > 1 or not name.isascii()) and name.casefold() in text.casefold()
