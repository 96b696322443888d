"""The data sets: files of questions, and the bundled ones with contexts of their own documents.

Every fact is asked in several wordings. One half of them finds out what a model knows, the
other half is asked in the evaluation, so that a question is not called known because of the
very prompt that it is evaluated with. `facts.toml` says where the questions come from.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from ....guard.errors import InputError
from ...data.answers.matching import holds_answer
from ...data.formats.reading_comprehension import read_reading_comprehension
from ...testbed import World, default_world
from ...testbed.entities import Fact
from ._cases import Dataset, PromptSet, Question

# A text with the answer that it states, and its aliases.
Stated = tuple[str, tuple[str, ...]]


Contradiction = Callable[[Question, bool], Stated]
# What makes the passages of a data set; the message of an `InputError` is why there is none.
#
# A passage that states the answer; the same with another answer, plausible or not; and passages
# about other things, in order of preference.
Makers = tuple[Callable[[Question], Stated], Contradiction, Callable[[Question], Iterable[str]]]


def without_answer(question: Question, texts: Iterable[str], count: int) -> list[str]:
    """Return the first different texts, in order of preference, that do not hold an answer."""
    found: dict[str, None] = {}
    for text in texts:
        if not holds_answer(text, question.answers):
            found[text] = None
            if len(found) == count:
                return list(found)
    raise InputError("too few other passages leave out the answer")


def _first_source(question: Question) -> Stated:
    return question.sources[0], question.answers


MICROWORLD = "microworld"
# What fits into the context window of the world's model beside question and answer.
MOST_PASSAGES = 3
# Draws of random documents until enough differ.
_DRAWS = 60


def microworld_questions(*, seed: int = 0) -> tuple[Question, ...]:
    """Return one question per fact of the world, in phrasings that training never used.

    Args:
        seed: picks the phrasings.
    """
    world = default_world()
    rng = Random(f"uniknow/phrasings/{seed}")  # noqa: S311
    drawn = [(fact, rng.choice(world.questions(fact, held_out=True))) for fact in world.facts]
    return tuple(
        Question(
            id=asked.id,
            question=asked.text,
            answers=(asked.answer, *asked.aliases),
            dataset=MICROWORLD,
            group=fact.subject,
            sources=(world.document_for(fact).text,),
        )
        for fact, asked in drawn
    )


def fact_of(question: Question) -> Fact:
    """Return the fact that a question of the microworld asks for; else raise KeyError."""
    return default_world().fact(question.id.rpartition(".q")[0])


def microworld_contexts(seed: int) -> Makers:
    """Make contexts from the world's own documents."""
    world = default_world()

    def contradicting(question: Question, plausible: bool) -> Stated:
        """The same document with another value of the same kind, or an absurd one."""
        fact = fact_of(question)
        value = world.contradicting_value(fact, plausible=plausible)
        aliases = world.aliases(value, fact.value_kind) if plausible else ()
        return world.contradiction(fact, plausible=plausible).text, (value, *aliases)

    def random(question: Question) -> Iterator[str]:
        """Documents that name neither the subject nor the value."""
        fact = fact_of(question)
        rng = Random(f"uniknow/random/{seed}/{fact.id}")  # noqa: S311
        return (world.irrelevant_document(fact, "random", rng).text for _ in range(_DRAWS))

    return _first_source, contradicting, random


FACTS = "facts"
FACTS_FILE = Path(__file__).parent / "facts.toml"


@dataclass(frozen=True, slots=True)
class _ListedFact:
    """A fact of the list.

    Attributes:
        id: relation and subject, or where the question comes from.
        group: facts about one subject share it.
        source: where the question comes from, as the head of the file explains.
        questions: wordings, at least two: in turns one that is asked in the evaluation, and one
            that finds out what a model knows.
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
    def text(self) -> str:
        """The passage."""
        return self.stating(self.answers[0])

    def stating(self, answer: str) -> str:
        """The passage with some answer."""
        return _capitalised(self.passage.replace("{answer}", answer))


@cache
def listed_facts() -> Mapping[str, _ListedFact]:
    """Return the bundled facts by id."""
    content = tomllib.loads(FACTS_FILE.read_text(encoding="utf-8"))
    found = [fact for relation in content["relation"] for fact in _of_relation(relation)]
    for line in content["singles"]["facts"].strip().splitlines():
        name, *questions, listed, passage, other = line.split(" ; ")
        answers = tuple(listed.split(" | "))
        passage = passage.replace(answers[0], "{answer}")
        about = name, name, content["singles"]["source"], tuple(questions)
        found.append(_ListedFact(*about, passage, answers, (other,)))
    return {fact.id: fact for fact in found}


def _of_relation(relation: Mapping[str, Any]) -> Iterator[_ListedFact]:
    passages = relation["passages"]
    facts = [line.split(" = ") for line in relation["facts"].strip().splitlines()]
    answers = [tuple(listed.split(" | ")) for _, listed in facts]
    for number, (subject, _) in enumerate(facts):
        texts = (text.replace("{subject}", subject) for text in relation["questions"])
        others = dict.fromkeys(one[0] for one in answers if not set(one) & set(answers[number]))
        yield _ListedFact(
            id=f"{relation['name']}.{subject.casefold().replace(' ', '_')}",
            group=subject.removeprefix("the city of ").casefold(),
            source=relation["source"],
            questions=tuple(map(_capitalised, texts)),
            passage=passages[number % len(passages)].replace("{subject}", subject),
            answers=answers[number],
            others=tuple(others),
        )


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
            question=rng.choice(fact.questions[::2]),
            answers=fact.answers,
            dataset=FACTS,
            group=fact.group,
            sources=(fact.text,),
            selecting=fact.questions[1::2],
        )
        for fact in listed_facts().values()
    )


def fact_contexts(seed: int) -> Makers:
    """Make contexts from the passages of the list."""
    listed = listed_facts()

    def contradicting(question: Question, plausible: bool) -> Stated:
        """The same passage with another answer of the relation, or of another one."""
        fact, relation = listed[question.id], question.id.partition(".")[0]
        beyond = {
            one.answers[0]: None
            for one in listed.values()
            if one.id.partition(".")[0] != relation and not holds_answer(one.text, fact.answers)
        }
        shuffled = list(fact.others if plausible else beyond)
        Random(f"uniknow/other/{seed}/{fact.id}").shuffle(shuffled)  # noqa: S311
        for other in shuffled:
            text = fact.stating(other)
            if not holds_answer(text, question.answers):
                return text, (other,)
        raise InputError("no other answer can take the answer's place")

    def random(question: Question) -> list[str]:
        """Passages about other subjects."""
        others = (one for one in listed.values() if one.group != question.group)
        texts = list(dict.fromkeys(fact.text for fact in others))
        Random(f"uniknow/random/{seed}/{question.id}").shuffle(texts)  # noqa: S311
        return texts

    return _first_source, contradicting, random


def _prompts_of(spec: str | os.PathLike[str]) -> PromptSet:
    """Return the prompts of a data set.

    Those of the list of facts are continued, with examples of short answers; all files have
    prompts for models that follow instructions.

    The microworld's model was trained on its prompts, without a closed-book one that allows
    `unknown`. The one here reuses the sentence from the prompt with a context: of 200 withheld
    facts the model then says `unknown` to 18; to 11 if the sentence does not mention a context,
    and to 23 if an empty `Context:` follows it, which would no longer be a closed-book prompt.
    """
    spec, folder = os.fspath(spec), Path(__file__).parent / "prompts"
    start = f"{spec}_" if spec in (MICROWORLD, FACTS) else ""
    files = {one.name: folder / f"{start}{one.name}.txt" for one in fields(PromptSet)}
    found = {name: path.read_text("utf-8") for name, path in files.items() if path.is_file()}
    if spec == MICROWORLD:
        for name in ("closed_book", "with_context", "with_context_or_unknown"):
            found[name] = World.prompt(name)
    return PromptSet(**found)


_BUNDLED = {MICROWORLD: microworld_questions, FACTS: fact_questions}


def read_dataset(
    spec: str | os.PathLike[str], *, limit: int | None = None, seed: int = 0
) -> Dataset:
    """Read a data set of the suite.

    Args:
        spec: `microworld`, `facts`, or a file: MRQA `.jsonl` or `.jsonl.gz`, SQuAD-style
            `.json`, or JSON lines with `question` and `answers` (or `answer`), `context` or
            `passages`, `id` and `group`. The content decides which format it is, not the name.
        limit: at most that many questions, drawn by `seed`, in their order; all by default.
        seed: also picks the phrasing of each bundled question.

    Returns:
        At least one question.

    Raises:
        InputError: no such file, or something in it is wrong; the message names file and
            line, or the place inside a JSON document.
    """
    bundled = _BUNDLED.get(os.fspath(spec))
    if bundled is not None:
        questions = bundled(seed=seed)
    else:
        path = Path(spec)
        name = path.name.split(".")[0] or path.name
        questions = tuple(
            Question(one.id, one.question, one.answers, name, one.group, one.passages)
            for one in read_reading_comprehension(path)
        )
    if limit is not None and limit < len(questions):
        picked = Random(f"uniknow/limit/{seed}").sample(range(len(questions)), limit)  # noqa: S311
        questions = tuple(questions[index] for index in sorted(picked))
    named = "" if bundled is None else os.fspath(spec)
    return Dataset(questions[0].dataset, questions, _prompts_of(spec), named)
