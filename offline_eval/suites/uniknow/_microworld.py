"""The microworld as a data set of the suite, with contexts from its own documents."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ....guard.contracts import TextEmbedder
from ...run import OnProgress
from ...testbed import Fact, World, default_world
from ._cases import SuiteQuestion
from ._context_source import CannotBuildError, Stated, first_without_answer
from ._datasets import PromptSet, prompt_text
from ._windows import NearestPassages

MICROWORLD = "microworld"
# What fits into the context window of the world's model beside question and answer.
MOST_PASSAGES = 3


def microworld_questions(*, seed: int = 0) -> tuple[SuiteQuestion, ...]:
    """Return one question per fact of the world, in phrasings that training never used.

    Args:
        seed: picks the phrasings.
    """
    world = default_world()
    rng = Random(f"uniknow/phrasings/{seed}")  # noqa: S311
    questions = []
    for fact in world.facts:
        asked = rng.choice(world.questions(fact, held_out=True))
        question = SuiteQuestion(
            id=asked.id,
            question=asked.text,
            answers=(asked.answer, *asked.aliases),
            dataset=MICROWORLD,
            group=fact.subject,
            sources=(world.document_for(fact).text,),
        )
        questions.append(question)
    return tuple(questions)


def fact_of(world: World, question: SuiteQuestion) -> Fact:
    """Return the fact that a question of the microworld asks for; else raise KeyError."""
    return world.fact(question.id.rpartition(".q")[0])


def microworld_prompts() -> PromptSet:
    """Return the prompts that the microworld's model was trained on.

    Its training held no closed-book prompt that allows `unknown`. The one here reuses the
    sentence from the prompt with a context: of 200 withheld facts the model then says
    `unknown` to 18; to 11 if the sentence does not mention a context, and to 23 if an empty
    `Context:` follows it, which would no longer be a closed-book prompt.
    """
    return PromptSet(
        closed_book=World.prompt("closed_book"),
        with_context=World.prompt("with_context"),
        closed_book_or_unknown=prompt_text("microworld_closed_book_or_unknown"),
        with_context_or_unknown=World.prompt("with_context_or_unknown"),
    )


class MicroworldContexts:
    """Build contexts from the world's own documents.

    Args:
        world: source of facts and documents.
        questions: those that contexts are wanted for.
        encoder: retrieves among all documents; None if nothing is to be retrieved.
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
        on_progress: OnProgress | None = None,
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
        """Return the document about the fact's subject."""
        fact = fact_of(self._world, question)
        return Stated(self._world.document_for(fact).text, question.answers)

    def conflicting(self, question: SuiteQuestion) -> Stated:
        """Return the same document with another value of the same kind."""
        return self._contradicted(question, plausible=True)

    def untrue(self, question: SuiteQuestion) -> Stated:
        """Return the same document with an absurd value."""
        return self._contradicted(question, plausible=False)

    def random(self, question: SuiteQuestion, count: int) -> list[str]:
        """Return documents that name neither the subject nor the value."""
        fact = fact_of(self._world, question)
        rng = Random(f"uniknow/random/{self._seed}/{fact.id}")  # noqa: S311
        found: dict[str, None] = {}
        for _ in range(20 * count):
            if len(found) == count:
                break
            found[self._world.irrelevant_document(fact, "random", rng).text] = None
        if len(found) < count:
            raise CannotBuildError("too few documents leave out the subject and the answer")
        return list(found)

    def retrieved(self, question: SuiteQuestion, count: int) -> list[str]:
        """Return the nearest documents that do not hold the answer."""
        if self._nearest is None:
            raise CannotBuildError("no retriever was set up")
        ranked = self._nearest.ranked(question.question)
        return first_without_answer(question, ranked, count, of="documents")

    def _contradicted(self, question: SuiteQuestion, *, plausible: bool) -> Stated:
        fact = fact_of(self._world, question)
        value = self._world.contradicting_value(fact, plausible=plausible)
        aliases = self._world.aliases(value, fact.value_kind) if plausible else ()
        text = self._world.contradiction(fact, plausible=plausible).text
        return Stated(text, (value, *aliases))
