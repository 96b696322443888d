"""From an instance to the prompt of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..multiple_choice import LETTERS
from ._fitting import WindowedModel, fitted
from ._items import EvidenceKind, Task
from ._naming import sentences_of
from ._plan import Planned
from ._prompts import PromptSet
from ._rows import CLOSED_BOOK, REMOVES, AnswerForm, Instance, Option

_PREFIXES: dict[AnswerForm, str] = {"letters": "", "likelihood": "score_", "free": "free_"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and whether its passages were cut to fit the model's window."""

    prompt: str
    cut: bool


class TaskPrompter:
    """Makes the prompts of the tasks.

    Args:
        prompts: texts.
        form: how answers are taken.
        lm: where it states its window, passages are cut to it.
        answer_tokens: kept free for the answer.
    """

    def __init__(
        self, prompts: PromptSet, form: AnswerForm, lm: object = None, *, answer_tokens: int = 64
    ) -> None:
        self._prompts, self._form, self._lm = prompts, form, lm
        self._answer_tokens = answer_tokens

    def ask(self, planned: Planned) -> Asked:
        """The prompt of a planned question."""
        prompt = self._prompts[self._name(planned)]
        instance = planned.instance
        passages = _passages(planned)
        values = {
            "question": instance.question,
            "options": lettered(instance.options),
            "context": "",
            "second_context": "",
        }

        def fill(texts: Sequence[str]) -> str:
            named = dict(zip(("context", "second_context"), texts, strict=False))
            return prompt.fill(**{**values, **named})

        kept = [
            [s for shown in instance.evidence.values() for s in shown.sentences] for _ in passages
        ]
        return Asked(*fitted(fill, passages, kept, self._lm, self._room(instance)))

    def _room(self, instance: Instance) -> int:
        """Tokens to keep free: an option that is a sentence can have many."""
        lm = self._lm
        if self._form != "likelihood" or not isinstance(lm, WindowedModel):
            return self._answer_tokens
        longest = max(len(lm.token_ids(f" {option.text}")) for option in instance.options)
        return max(self._answer_tokens, longest + 1)

    def _name(self, planned: Planned) -> str:
        if planned.task is Task.KF:
            return "kf"
        name = {CLOSED_BOOK: "closed", REMOVES: "alone"}.get(planned.system)
        return _PREFIXES[self._form] + (name or planned.task.value.lower())


def lettered(options: Sequence[Option]) -> str:
    """The options, one a line, each after its letter.

    Example:
        >>> lettered([Option(text="Rill", role="belief"), Option(text="Bo", role="plausible")])
        '(A) Rill\\n(B) Bo'
    """
    return "\n".join(
        f"({letter}) {option.text}" for letter, option in zip(LETTERS, options, strict=False)
    )


def _passages(planned: Planned) -> list[str]:
    if planned.evidence is None:
        return []
    shown = planned.instance.evidence[planned.evidence]
    if planned.task is not Task.RAG:
        return [shown.passage]
    if planned.evidence is EvidenceKind.NC:
        pair = [shown.passage, shown.second] if shown.second else halves(shown.passage)
    else:
        pair = [planned.instance.evidence[EvidenceKind.NC].passage, shown.passage]
    return pair if planned.instance.agreeing_first else pair[::-1]


def halves(passage: str) -> list[str]:
    """A passage in two, where no second one agrees; one sentence is shown alone."""
    sentences = sentences_of(passage)
    middle = (len(sentences) + 1) // 2
    return [" ".join(sentences[:middle]), " ".join(sentences[middle:])]


def instance_letters(instance: Instance, roles: frozenset[str]) -> tuple[str, ...]:
    """The letters of the options that play one of the parts."""
    return tuple(
        letter
        for letter, option in zip(LETTERS, instance.options, strict=False)
        if option.role in roles
    )
