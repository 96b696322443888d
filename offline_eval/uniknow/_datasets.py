"""A data set of the suite: its questions, and the prompts that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..microworld import World, prompt_template
from ._cases import SuiteQuestion

_FOLDER = Path(__file__).parent / "prompts"


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Templates with `{question}`, and `{context}` where there is one, to fill by `format`.

    Attributes:
        closed_book: the question alone.
        with_context: context and question.
        closed_book_or_unknown: the question alone; the reply `unknown` is allowed.
        with_context_or_unknown: context and question; the reply `unknown` is allowed.
    """

    closed_book: str
    with_context: str
    closed_book_or_unknown: str
    with_context_or_unknown: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions of one source.

    Attributes:
        name: how tables call it.
        questions: ids unique.
        prompts: what its questions are asked with.
        world: the microworld that it was drawn from; None for all other data.
        most_passages: how many passages of 100 words the model that belongs to the data
            can read at once; None where no model belongs to it.
    """

    name: str
    questions: tuple[SuiteQuestion, ...]
    prompts: PromptSet
    world: World | None = None
    most_passages: int | None = None


@cache
def prompt_text(name: str) -> str:
    """The text of a prompt file of the suite."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def instructed_prompts() -> PromptSet:
    """Prompts for models that follow instructions: for all data but the microworld."""
    return PromptSet(
        closed_book=prompt_text("closed_book"),
        with_context=prompt_text("with_context"),
        closed_book_or_unknown=prompt_text("closed_book_or_unknown"),
        with_context_or_unknown=prompt_text("with_context_or_unknown"),
    )


def microworld_prompts() -> PromptSet:
    """The prompts that the microworld's model was trained on.

    It was never shown one that allows `unknown` without a context. The one here keeps the
    very sentence that it knows from the prompt with a context: of 200 withheld facts it then
    says `unknown` to 18; to 11 where the sentence does not speak of a context, and to 23
    where an empty `Context:` follows it, which would no longer be a question alone.
    """
    return PromptSet(
        closed_book=prompt_template("closed_book"),
        with_context=prompt_template("with_context"),
        closed_book_or_unknown=prompt_text("microworld_closed_book_or_unknown"),
        with_context_or_unknown=prompt_template("with_context_or_unknown"),
    )
