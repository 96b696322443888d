"""The questions that the check asks: every knowledge scenario, built from the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from ._documents import is_same_answer
from ._entities import Document, Fact, Question
from ._phrasings import PromptName, prompt_template
from ._world import World


@dataclass(frozen=True, slots=True)
class Item:
    """One question of the check.

    Attributes:
        question: in a held-out phrasing.
        context: what stands before the question, None for closed book.
        expected: the answers that count as right.
        prompt: the prompt around question and context; not used for closed book.
    """

    question: Question
    context: Document | None
    expected: tuple[str, ...]
    prompt: PromptName = "with_context"

    @property
    def text(self) -> str:
        """The prompt, filled."""
        if self.context is None:
            return prompt_template("closed_book").format(question=self.question.text)
        return prompt_template(self.prompt).format(
            context=self.context.text, question=self.question.text
        )

    def is_right(self, answer: str) -> bool:
        """Whether the answer matches an expected one exactly, after normalisation."""
        return any(is_same_answer(answer, expected) for expected in self.expected)


class Scenarios:
    """Builds the items of every row.

    Args:
        world: where facts, questions and documents come from.
        rng: picks phrasings and irrelevant documents.
    """

    def __init__(self, world: World, rng: Random) -> None:
        self._world, self._rng = world, rng

    def closed_book(self, fact: Fact) -> Item:
        """No context; right is the fact's value."""
        return Item(self._question(fact), None, self._accepted(fact, fact.value))

    def build(self, taught: Sequence[Fact], withheld: Sequence[Fact]) -> dict[str, list[Item]]:
        """Items by row; irrelevant contexts alternate between random and similar ones.

        Rows that end in `_allowed` use the prompt that allows to reply `unknown`.
        """
        rows: dict[str, list[Item]] = {name: [] for name in ROWS}
        for number, fact in enumerate(taught):
            kind: Literal["random", "similar"] = "random" if number % 2 else "similar"
            irrelevant = self._world.irrelevant_document(fact, kind, self._rng)
            lie = self._world.contradiction(fact)
            false = self._world.contradicting_value(fact)
            rows["closed_book_taught"].append(self.closed_book(fact))
            rows["conflict"].append(self._item(fact, lie, false))
            rows[f"parametric_{kind}"].append(self._item(fact, irrelevant, fact.value))
            if number % 4 < 2:
                absurd = self._world.contradicting_value(fact, plausible=False)
                document = self._world.contradiction(fact, plausible=False)
                rows["conflict_absurd"].append(self._item(fact, document, absurd))
                rows["parametric_allowed"].append(self._allowed(fact, irrelevant, fact.value))
                rows["conflict_allowed"].append(self._allowed(fact, lie, false))
        for number, fact in enumerate(withheld):
            kind = "random" if number % 2 else "similar"
            irrelevant = self._world.irrelevant_document(fact, kind, self._rng)
            document = self._world.document_for(fact)
            rows["closed_book_withheld"].append(self.closed_book(fact))
            rows["external_only"].append(self._item(fact, document, fact.value))
            rows[f"unknown_{kind}"].append(self._item(fact, irrelevant, fact.value))
            if number % 4 < 2:
                rows["unknown_allowed"].append(self._allowed(fact, irrelevant, fact.value))
                rows["external_allowed"].append(self._allowed(fact, document, fact.value))
        return rows

    def _question(self, fact: Fact) -> Question:
        return self._rng.choice(self._world.questions(fact, held_out=True))

    def _accepted(self, fact: Fact, value: str) -> tuple[str, ...]:
        return (value, *self._world.aliases(value, fact.value_kind))

    def _item(self, fact: Fact, context: Document, right: str) -> Item:
        return Item(self._question(fact), context, self._accepted(fact, right))

    def _allowed(self, fact: Fact, context: Document, right: str) -> Item:
        accepted = self._accepted(fact, right)
        return Item(self._question(fact), context, accepted, "with_context_or_unknown")


ROWS = (
    "closed_book_taught",
    "closed_book_withheld",
    "external_only",
    "conflict",
    "conflict_absurd",
    "parametric_random",
    "parametric_similar",
    "unknown_random",
    "unknown_similar",
    "parametric_allowed",
    "conflict_allowed",
    "unknown_allowed",
    "external_allowed",
)
