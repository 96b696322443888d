"""The bundled data sets, each with contexts from its own documents: microworld and facts.

Every fact is asked in several wordings. One half of them finds out what a model knows, the
other half is asked in the evaluation, so that a question is not called known because of the
very prompt that it is evaluated with. `facts.toml` says where the questions come from.
"""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from ....guard.contracts import TextEmbedder
from ...run.calls import OnProgress
from ...testbed import World, default_world
from ...testbed.entities import Fact
from ._cases import PromptSet, Question, prompt_text
from ._matching import holds_answer
from ._windows import NearestPassages


class CannotBuildError(Exception):
    """A context cannot be built; the message is the reason. Never leaves the suite."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A text with the answer that it states.

    Attributes:
        text: the passage.
        answers: what it says the answer is, with aliases.
    """

    text: str
    answers: tuple[str, ...]


class ContextSource(ABC):
    """Makes the passages of one data set; each method may raise `CannotBuildError`.

    Args:
        nearest: ranks passages for the questions that are asked; None if nothing is retrieved.
        seed: of random choices.

    Attributes:
        unit: what passages are called in reasons.
    """

    unit: ClassVar[str]

    def __init__(self, nearest: NearestPassages | None, seed: int) -> None:
        self._nearest, self._seed = nearest, seed

    @abstractmethod
    def original(self, question: Question) -> Stated:
        """Return a passage that holds a gold answer."""

    @abstractmethod
    def conflicting(self, question: Question) -> Stated:
        """Return the same passage with another plausible answer, and without a gold one."""

    @abstractmethod
    def untrue(self, question: Question) -> Stated:
        """Return the same passage with an implausible false answer."""

    @abstractmethod
    def random(self, question: Question, count: int) -> list[str]:
        """Return different random passages without a gold answer."""

    def retrieved(self, question: Question, count: int) -> list[str]:
        """Return the highest-ranked passages without a gold answer, best first."""
        if self._nearest is None:
            raise CannotBuildError("no retriever was set up")
        ranked = self._nearest.ranked(question.question)
        return first_without_answer(question, ranked, count, of=self.unit)

    def distractors(self, question: Question, count: int) -> list[str]:
        """Return as many misleading as random passages, all different, in a shuffled order."""
        near = self.retrieved(question, (count + 1) // 2)
        far = [text for text in self.random(question, count) if text not in near]
        passages = [*near, *far][:count]
        if len(passages) < count:
            raise CannotBuildError("too few passages without the answer")
        Random(f"uniknow/order/{self._seed}/{question.id}").shuffle(passages)  # noqa: S311
        return passages


def nearest_passages(
    texts: Sequence[str],
    questions: Sequence[Question],
    encoder: TextEmbedder | None,
    on_progress: OnProgress | None,
) -> NearestPassages | None:
    """Return what ranks texts for questions; None without an encoder."""
    if encoder is None:
        return None
    return NearestPassages(texts, [one.question for one in questions], encoder, on_progress)


def first_without_answer(
    question: Question, texts: Iterable[str], count: int, *, of: str
) -> list[str]:
    """Return the first `count` texts that do not hold an answer.

    Args:
        question: whose answers must not be there.
        texts: in order of preference.
        count: how many are needed.
        of: what the texts are, for the reason.

    Raises:
        CannotBuildError: there are fewer.
    """
    found = list(islice((t for t in texts if not holds_answer(t, question.answers)), count))
    if len(found) < count:
        raise CannotBuildError(f"too few {of} leave out the answer")
    return found


MICROWORLD = "microworld"
# What fits into the context window of the world's model beside question and answer.
MOST_PASSAGES = 3


def microworld_questions(*, seed: int = 0) -> tuple[Question, ...]:
    """Return one question per fact of the world, in phrasings that training never used.

    Args:
        seed: picks the phrasings.
    """
    world = default_world()
    rng = Random(f"uniknow/phrasings/{seed}")  # noqa: S311
    questions = []
    for fact in world.facts:
        asked = rng.choice(world.questions(fact, held_out=True))
        question = Question(
            id=asked.id,
            question=asked.text,
            answers=(asked.answer, *asked.aliases),
            dataset=MICROWORLD,
            group=fact.subject,
            sources=(world.document_for(fact).text,),
        )
        questions.append(question)
    return tuple(questions)


def fact_of(world: World, question: Question) -> Fact:
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


class MicroworldContexts(ContextSource):
    """Build contexts from the world's own documents.

    Args:
        nearest: see `ContextSource`, as for `seed`.
        seed: picks the random documents.
        world: source of facts and documents.
    """

    unit = "documents"

    def __init__(self, nearest: NearestPassages | None, seed: int, world: World) -> None:
        super().__init__(nearest, seed)
        self._world = world

    def original(self, question: Question) -> Stated:
        """Return the document about the fact's subject."""
        fact = fact_of(self._world, question)
        return Stated(self._world.document_for(fact).text, question.answers)

    def conflicting(self, question: Question) -> Stated:
        """Return the same document with another value of the same kind."""
        return self._contradicted(question, plausible=True)

    def untrue(self, question: Question) -> Stated:
        """Return the same document with an absurd value."""
        return self._contradicted(question, plausible=False)

    def random(self, question: Question, count: int) -> list[str]:
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

    def _contradicted(self, question: Question, *, plausible: bool) -> Stated:
        fact = fact_of(self._world, question)
        value = self._world.contradicting_value(fact, plausible=plausible)
        aliases = self._world.aliases(value, fact.value_kind) if plausible else ()
        text = self._world.contradiction(fact, plausible=plausible).text
        return Stated(text, (value, *aliases))


FACTS = "facts"
FACTS_FILE = Path(__file__).parent / "facts.toml"
_SINGLES = "singles"


@dataclass(frozen=True, slots=True)
class _ListedFact:
    """A fact of the list.

    Attributes:
        id: relation and subject, or where the question comes from.
        group: facts about one subject share it.
        source: where the question comes from, as the head of the file explains.
        questions: wordings, at least two.
        passage: states the fact; `{answer}` stands for the first answer.
        answers: the answer, then its aliases.
        others: wrong answers of the same kind.
    """

    id: str
    group: str
    source: str
    questions: tuple[str, ...]
    passage: str
    answers: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The wordings that are asked in the evaluation."""
        return self.questions[::2]

    @property
    def selecting(self) -> tuple[str, ...]:
        """The wordings that find out what a model knows."""
        return self.questions[1::2]

    @property
    def text(self) -> str:
        """The passage."""
        return _filled(self.passage, self.answers[0])


@cache
def listed_facts() -> Mapping[str, _ListedFact]:
    """Return the bundled facts by id."""
    content = tomllib.loads(FACTS_FILE.read_text(encoding="utf-8"))
    found = [fact for relation in content["relation"] for fact in _of_relation(relation)]
    found += _singles(content[_SINGLES])
    return {fact.id: fact for fact in found}


def _of_relation(relation: Mapping[str, Any]) -> Iterator[_ListedFact]:
    passages = relation["passages"]
    facts = [line.split(" = ") for line in relation["facts"].strip().splitlines()]
    answers = [tuple(listed.split(" | ")) for _, listed in facts]
    for number, (subject, _) in enumerate(facts):
        group = subject.removeprefix("the city of ").casefold()
        passage = passages[number % len(passages)].replace("{subject}", subject)
        others = dict.fromkeys(one[0] for one in answers if not set(one) & set(answers[number]))
        yield _ListedFact(
            id=f"{relation['name']}.{subject.casefold().replace(' ', '_')}",
            group=group,
            source=relation["source"],
            questions=tuple(
                _capitalised(text.replace("{subject}", subject)) for text in relation["questions"]
            ),
            passage=passage,
            answers=answers[number],
            others=tuple(others),
        )


def _singles(singles: Mapping[str, Any]) -> Iterator[_ListedFact]:
    for line in singles["facts"].strip().splitlines():
        name, *questions, listed, passage, other = line.split(" ; ")
        answers = tuple(listed.split(" | "))
        yield _ListedFact(
            id=name,
            group=name,
            source=singles["source"],
            questions=tuple(questions),
            passage=passage.replace(answers[0], "{answer}"),
            answers=answers,
            others=(other,),
        )


def _filled(passage: str, answer: str) -> str:
    return _capitalised(passage.replace("{answer}", answer))


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def fact_questions(*, seed: int = 0) -> tuple[Question, ...]:
    """Return one question per fact, in a wording for the evaluation.

    Args:
        seed: picks the wordings.
    """
    rng = Random(f"uniknow/facts/{seed}")  # noqa: S311
    return tuple(
        Question(
            id=fact.id,
            question=rng.choice(fact.evaluated),
            answers=fact.answers,
            dataset=FACTS,
            group=fact.group,
            sources=(fact.text,),
            selecting=fact.selecting,
        )
        for fact in listed_facts().values()
    )


def fact_prompts() -> PromptSet:
    """Return prompts that the model continues, with examples of short answers."""
    return PromptSet(**{one.name: prompt_text(f"{FACTS}_{one.name}") for one in fields(PromptSet)})


class FactContexts(ContextSource):
    """Build contexts from the passages of the list."""

    unit = "passages of the list"

    def original(self, question: Question) -> Stated:
        """Return the passage that states the fact."""
        return Stated(listed_facts()[question.id].text, question.answers)

    def conflicting(self, question: Question) -> Stated:
        """Return the same passage with the answer to another question of the relation."""
        return self._contradicted(question, listed_facts()[question.id].others)

    def untrue(self, question: Question) -> Stated:
        """Return the same passage with the answer of another relation."""
        own = question.id.partition(".")[0]
        others = (
            fact.answers[0]
            for fact in listed_facts().values()
            if fact.id.partition(".")[0] != own and not holds_answer(fact.text, question.answers)
        )
        return self._contradicted(question, tuple(dict.fromkeys(others)))

    def random(self, question: Question, count: int) -> list[str]:
        """Return passages about other subjects, without the answer."""
        others = (one for one in listed_facts().values() if one.group != question.group)
        texts = list(dict.fromkeys(fact.text for fact in others))
        Random(f"uniknow/random/{self._seed}/{question.id}").shuffle(texts)  # noqa: S311
        return first_without_answer(question, texts, count, of=self.unit)

    def _contradicted(self, question: Question, others: Sequence[str]) -> Stated:
        fact = listed_facts()[question.id]
        shuffled = list(others)
        Random(f"uniknow/other/{self._seed}/{fact.id}").shuffle(shuffled)  # noqa: S311
        for other in shuffled:
            text = _filled(fact.passage, other)
            if not holds_answer(text, question.answers):
                return Stated(text, (other,))
        raise CannotBuildError("no other answer can take the answer's place")
