"""The prompts of the build, with what their slots must be."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib import resources

from ...guard import InputError
from ...guard.prompts import Prompt

_PACKAGE = "prompts"


def _bundled(name: str) -> Prompt:
    text = resources.files(__package__).joinpath(_PACKAGE, f"{name}.txt").read_text("utf-8")
    return Prompt(name=name, text=text.rstrip("\n"))


def fact_prompt() -> Prompt:
    """The bundled prompt that asks for facts; slots `sentences` (needed) and `topic`."""
    return _bundled("facts")


def question_prompt() -> Prompt:
    """The bundled prompt for a question; slots `fact` (needed), `passage` and `topic`."""
    return _bundled("question")


@dataclass(frozen=True, slots=True)
class BuildPrompts:
    """The prompts of one build.

    Attributes:
        facts: asks for the facts in numbered `{sentences}` under the heading `{topic}`.
        question: asks for a question about a `{fact}` from a `{passage}`.
        as_json: tells a model without structured output the `{schema}`.
        mend: tells a model the `{faults}` of its reply.

    Raises:
        InputError: a prompt lacks its slot, or has one that nothing fills.
    """

    facts: Prompt = field(default_factory=fact_prompt)
    question: Prompt = field(default_factory=question_prompt)
    as_json: Prompt = field(default_factory=lambda: _bundled("as_json"))
    mend: Prompt = field(default_factory=lambda: _bundled("mend"))

    def __post_init__(self) -> None:
        _check(self.facts, "sentences", {"sentences", "topic"})
        _check(self.question, "fact", {"fact", "passage", "topic"})
        _check(self.as_json, "schema", {"schema"})
        _check(self.mend, "faults", {"faults"})

    def sha256(self, prompt: Prompt) -> str:
        """Hash of `prompt` with those that go along with it."""
        joint = "\0".join([prompt.text, self.as_json.text, self.mend.text])
        return hashlib.sha256(joint.encode("utf-8", "replace")).hexdigest()


def _check(prompt: Prompt, needed: str, known: set[str]) -> None:
    if needed not in prompt.slots:
        raise InputError(
            f"the prompt has no slot {{{needed}}}", where=prompt.name, mend=f"put {{{needed}}} in"
        )
    if strange := sorted(prompt.slots - known):
        raise InputError(
            f"the prompt has a slot {{{strange[0]}}}, which nothing fills",
            where=prompt.name,
            mend=f"slots that are filled: {', '.join(sorted(known))}",
        )
