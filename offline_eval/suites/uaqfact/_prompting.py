"""From a question to what the model is asked: few-shot examples, clues, facts, options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ....guard.errors import InputError
from ....guard.prompts import Prompt
from ...data.graph import ChoiceItem, QuestionType, UaqData, UaqItem
from .._prompts import WindowedModel

NO_ANSWER = "##None##"
LETTERS = ("A", "B", "C", "D")
# Of a list of answers: Wikidata knows hundreds of translators of one book.
_MOST_ANSWERS = 10
# Without these a model is not asked what it is measured by.
_NEEDED = frozenset(("question", "facts", *(f"option_{letter.lower()}" for letter in LETTERS)))


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt with what it is made of.

    Attributes:
        prompt: as the model gets it.
        shots: few-shot examples in it: as many as asked for, or as fit the model's window.
    """

    prompt: str
    shots: int


def embedded_prompts() -> Prompts:
    """Prompts for the bundled language model, which reads the words that it was taught."""
    with resources.as_file(resources.files(f"{__package__}.embedded_prompts")) as folder:
        return Prompts(folder)


class Prompts:
    """The suite's prompts, each replaceable by a file of the same name.

    Args:
        folder: with the user's own files, such as `answer_en.txt`; what is missing there is
            taken from the bundled ones.

    Raises:
        InputError: the folder is none, or holds a text file of no such name, or a file
            has slots that are not filled, or lacks one that the question needs.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        if folder is not None and not Path(folder).is_dir():
            raise InputError("is no folder", where=os.fspath(folder), hint="name one with prompts")
        if folder is not None:
            _refuse_strangers(Path(folder))
        self._prompts = {name: _prompt(name, folder) for name in _names()}

    @property
    def sha256(self) -> dict[str, str]:
        """Name → hash, for manifests."""
        return {name: prompt.sha256 for name, prompt in sorted(self._prompts.items())}

    def of(self, name: str, language: str) -> Prompt:
        """The prompt in a language; one without prompts of its own gets the English ones."""
        return self._prompts.get(f"{name}_{language}", self._prompts[f"{name}_en"])


class Prompter:
    """Makes prompts for one set of questions and one model.

    Args:
        data: with the few-shot examples.
        prompts: texts.
        shots: examples wanted per prompt.
        model: where it states its window, prompts have as many examples as fit.
        answer_tokens: kept free for the answer.
    """

    def __init__(
        self,
        data: UaqData,
        prompts: Prompts,
        *,
        shots: int = 4,
        model: object = None,
        answer_tokens: int = 64,
    ) -> None:
        self._data, self._prompts, self._shots = data, prompts, shots
        self._count: Callable[[str], int] | None = None
        if isinstance(model, WindowedModel) and model.context_window is not None:
            self._room = model.context_window - answer_tokens
            token_ids = model.token_ids
            self._count = lambda text: len(token_ids(text))

    def question(self, item: UaqItem) -> Asked:
        """Task 1: the question after examples."""
        prompt = self._prompts.of("answer", item.language)
        examples = [
            f"{_turn(example.language, example.question)} {_target(example)}\n\n"
            for example in self._examples(self._data.examples, item)
        ]
        return self._fitted(
            lambda shown: prompt.fill(examples=shown, question=item.question), examples
        )

    def with_clue(self, item: UaqItem) -> Asked:
        """Task 3: the question, and the reasoning up to the answer, after examples likewise.

        Raises:
            InputError: the question has no clue.
        """
        prompt = self._prompts.of("answer", item.language)
        examples = [
            f"{_turn(item.language, example.question)} {self.clue(example)} {_target(example)}\n\n"
            for example in self._examples(self._data.clue_examples, item)
            if example.clues
        ]
        clue = self.clue(item)
        return self._fitted(
            lambda shown: f"{prompt.fill(examples=shown, question=item.question)} {clue}", examples
        )

    def with_facts(self, item: UaqItem, facts: Sequence[str]) -> Asked:
        """Task 3: the question after facts, one a line; no examples, as none has facts."""
        prompt = self._prompts.of("facts", item.language)
        lines = "\n".join(f"- {fact}" for fact in facts) or "-"
        return Asked(prompt.fill(examples="", facts=lines, question=item.question), 0)

    def choice(self, item: ChoiceItem) -> Asked:
        """Task 2: four options, no examples."""
        options = {
            f"option_{letter.lower()}": option
            for letter, option in zip(LETTERS, item.options, strict=True)
        }
        prompt = self._prompts.of("choice", item.language)
        return Asked(prompt.fill(question=item.question, **options), 0)

    def bare_choice(self, item: ChoiceItem) -> str:
        """Task 2 without the options: the question as in task 1, without examples."""
        prompt = self._prompts.of("answer", item.language)
        return prompt.fill(examples="", question=item.question)

    def clue(self, item: UaqItem) -> str:
        """The reasoning that leads to the answer.

        Raises:
            InputError: the question has none, or too few steps for its type.
        """
        steps = 2 if item.type is QuestionType.INTER else 1
        if len(item.clues) < steps:
            raise InputError(f"the question has no clue of {steps} steps", where=item.key)
        stop = "。" if item.language == "zh" else "."
        values = {
            "options": _between(item.language).join(item.options),
            "steps": " ".join(f"{step}{stop}" for step in clue_facts(item)),
        }
        for number, clue in enumerate(item.clues[:2], start=1):
            values[f"question_{number}"] = clue.question
            values[f"answers_{number}"] = ", ".join(clue.answers[:_MOST_ANSWERS])
        return self._prompts.of(f"clue_{item.type.value}", item.language).fill(**values)

    def _examples(
        self, examples: Mapping[tuple[str, QuestionType], tuple[UaqItem, ...]], item: UaqItem
    ) -> tuple[UaqItem, ...]:
        return examples.get((item.language, item.type), ())[: self._shots]

    def _fitted(self, fill: Callable[[str], str], examples: Sequence[str]) -> Asked:
        """With as many of the examples as fit, the last ones left out first."""
        for shots in range(len(examples), 0, -1):
            prompt = fill("".join(examples[:shots]))
            if self._count is None or self._count(prompt) <= self._room:
                return Asked(prompt, shots)
        return Asked(fill(""), 0)


def clue_facts(item: UaqItem) -> list[str]:
    """What is known about a question, one fact a line: its triples, or else its clues."""
    if item.triples:
        return [str(triple) for triple in item.triples]
    return [f"{clue.question} {', '.join(clue.answers[:_MOST_ANSWERS])}" for clue in item.clues]


def _turn(language: str, question: str) -> str:
    if language == "zh":
        return f"问题：{question}\n答案："
    return f"Q: {question}\nA:"


def _target(example: UaqItem) -> str:
    return example.answers[0].label if example.answers else NO_ANSWER


def _between(language: str) -> str:
    return "、" if language == "zh" else ", "


def _names() -> list[str]:
    folder = resources.files(f"{__package__}.prompts")
    return sorted(file.name[:-4] for file in folder.iterdir() if file.name.endswith(".txt"))


def _refuse_strangers(folder: Path) -> None:
    known = _names()
    for path in sorted(folder.glob("*.txt")):
        if path.stem not in known:
            raise InputError(
                "no prompt is called that", where=str(path), hint=f"one of: {', '.join(known)}"
            )


def _prompt(name: str, folder: str | os.PathLike[str] | None) -> Prompt:
    text = resources.files(f"{__package__}.prompts").joinpath(f"{name}.txt").read_text("utf-8")
    bundled = Prompt(name, text.rstrip("\n"))
    if folder is None or not Path(folder, f"{name}.txt").exists():
        return bundled
    own = Prompt.load(Path(folder, f"{name}.txt"))
    lacking = sorted((bundled.slots - own.slots) & _NEEDED)
    if lacking:
        raise InputError(
            f"the prompt lacks the slots {', '.join(lacking)}",
            where=str(Path(folder, f"{name}.txt")),
            hint="write {" + lacking[0] + "} where it is to stand",
        )
    strangers = sorted(own.slots - bundled.slots)
    if strangers:
        raise InputError(
            f"the prompt has slots that are not filled: {', '.join(strangers)}",
            where=str(Path(folder, f"{name}.txt")),
            hint=f"slots that are filled: {', '.join(sorted(bundled.slots))}",
        )
    return own
