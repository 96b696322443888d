"""A data set of the suite: its questions, and the prompts that go with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from ....guard.contracts import TextEmbedder
from ...testbed import Fact, World, default_world, prompt_template
from ...testbed import Question as WorldQuestion
from ._cases import SuiteQuestion
from ._context_sets import CannotBuildError, Stated
from ._occurrences import holds_answer
from ._windows import NearestPassages, Progress

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


MICROWORLD = "microworld"
# What fits into the context window of the world's model beside question and answer.
_MOST_PASSAGES = 3


def microworld_dataset(
    *, name: str = MICROWORLD, world: World | None = None, seed: int = 0
) -> Dataset:
    """One question per fact of the world, each in a phrasing that training never used.

    Args:
        name: of the data set.
        world: the default one by default, which the bundled model was taught.
        seed: picks the phrasings.
    """
    world = default_world() if world is None else world
    rng = Random(f"uniknow/phrasings/{seed}")  # noqa: S311
    questions = tuple(
        _suite_question(world, fact, rng.choice(world.questions(fact, held_out=True)), name)
        for fact in world.facts
    )
    return Dataset(name, questions, microworld_prompts(), world, _MOST_PASSAGES)


def training_phrasings(
    dataset: Dataset, questions: Sequence[SuiteQuestion] | None = None
) -> tuple[SuiteQuestion, ...]:
    """Further questions for the same facts, in the phrasings that training may use.

    Args:
        dataset: only the microworld knows several phrasings; all other data give none.
        questions: of `dataset`; all of them by default.

    Returns:
        New questions, ids of their own, with the group, answers and sources of theirs, in
        the order given; contexts are built for them as for any other question.
    """
    world = dataset.world
    if world is None:
        return ()
    return tuple(
        _suite_question(world, fact, phrased, question.dataset)
        for question in (dataset.questions if questions is None else questions)
        for fact in [fact_of(world, question)]
        for phrased in world.questions(fact, held_out=False)
    )


def fact_of(world: World, question: SuiteQuestion) -> Fact:
    """The fact that a question of the microworld asks for; KeyError for any other question."""
    return world.fact(question.id.rpartition(".q")[0])


class MicroworldContexts:
    """Contexts from the world's own documents.

    Args:
        world: where facts and documents come from.
        questions: those that contexts are wanted for.
        encoder: retrieves among all documents; None where nothing is to be retrieved.
        seed: picks the random documents.
        on_progress: called while texts are encoded.
    """

    def __init__(
        self,
        world: World,
        questions: Sequence[SuiteQuestion],
        encoder: TextEmbedder | None,
        *,
        seed: int,
        on_progress: Progress | None = None,
    ) -> None:
        self._world, self._seed = world, seed
        self._nearest: NearestPassages | None = None
        if encoder is not None:
            self._nearest = NearestPassages(
                [document.text for document in world.documents],
                [question.question for question in questions],
                encoder,
                on_progress,
            )

    def original(self, question: SuiteQuestion) -> Stated:
        """The document about the fact's subject."""
        fact = fact_of(self._world, question)
        return Stated(self._world.document_for(fact).text, question.answers)

    def conflicting(self, question: SuiteQuestion) -> Stated:
        """The same document with another value of the same kind."""
        return self._contradicted(question, plausible=True)

    def untrue(self, question: SuiteQuestion) -> Stated:
        """The same document with an absurd value."""
        return self._contradicted(question, plausible=False)

    def random(self, question: SuiteQuestion, count: int) -> list[str]:
        """Documents that name neither the subject nor the value."""
        fact = fact_of(self._world, question)
        rng = Random(f"uniknow/random/{self._seed}/{fact.id}")  # noqa: S311
        found: dict[str, None] = {}
        for _ in range(20 * count):
            if len(found) == count:
                return list(found)
            found[self._world.irrelevant_document(fact, "random", rng).text] = None
        if len(found) < count:
            raise CannotBuildError("too few documents leave out the subject and the answer")
        return list(found)

    def retrieved(self, question: SuiteQuestion, count: int) -> list[str]:
        """The nearest documents that do not hold the answer."""
        if self._nearest is None:
            raise CannotBuildError("no retriever was set up")
        found = list(_first(self._without_answer(question), count))
        if len(found) < count:
            raise CannotBuildError("too few documents leave out the answer")
        return found

    def _without_answer(self, question: SuiteQuestion) -> Iterator[str]:
        assert self._nearest is not None
        for text in self._nearest.ranked(question.question):
            if not holds_answer(text, question.answers):
                yield text

    def _contradicted(self, question: SuiteQuestion, *, plausible: bool) -> Stated:
        fact = fact_of(self._world, question)
        value = self._world.contradicting_value(fact, plausible=plausible)
        aliases = self._world.aliases(value, fact.value_kind) if plausible else ()
        text = self._world.contradiction(fact, plausible=plausible).text
        return Stated(text, (value, *aliases))


def _first(texts: Iterator[str], count: int) -> Iterator[str]:
    for _, text in zip(range(count), texts, strict=False):
        yield text


def _suite_question(world: World, fact: Fact, asked: WorldQuestion, name: str) -> SuiteQuestion:
    return SuiteQuestion(
        id=asked.id,
        question=asked.text,
        answers=(asked.answer, *asked.aliases),
        dataset=name,
        group=fact.subject,
        sources=(world.document_for(fact).text,),
    )
