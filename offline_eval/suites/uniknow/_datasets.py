"""A data set of the suite: its questions, and the prompts that they are asked with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...testbed import World
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
        trained: `with_context` of models trained on it, which need no examples of an answer;
            empty if it is the same.
        trained_or_unknown: `with_context_or_unknown` of such models, likewise.
    """

    closed_book: str
    with_context: str
    closed_book_or_unknown: str
    with_context_or_unknown: str
    trained: str = ""
    trained_or_unknown: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions of one source.

    Attributes:
        name: used in tables and case ids.
        questions: with unique ids.
        prompts: what its questions are asked with.
        world: the microworld that it was drawn from; None for all other data.
        most_passages: how many passages of 100 words the model that belongs to the data
            can read at once; None if no model belongs to it.
    """

    name: str
    questions: tuple[SuiteQuestion, ...]
    prompts: PromptSet
    world: World | None = None
    most_passages: int | None = None


@cache
def prompt_text(name: str) -> str:
    """Return the text of a prompt file of the suite."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def instructed_prompts() -> PromptSet:
    """Return the prompts for models that follow instructions: for all data but the microworld."""
    return PromptSet(
        closed_book=prompt_text("closed_book"),
        with_context=prompt_text("with_context"),
        closed_book_or_unknown=prompt_text("closed_book_or_unknown"),
        with_context_or_unknown=prompt_text("with_context_or_unknown"),
    )
