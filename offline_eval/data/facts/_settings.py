"""Settings of a build, and its prompts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ....guard.errors import InputError
from ....guard.prompts import Prompt

# The slot that each prompt needs, and others that are filled.
_SLOTS = {
    "facts": ("sentences", ("topic",)),
    "question": ("fact", ("passage", "topic")),
    "as_json": ("schema", ()),
    "repair": ("faults", ()),
}


_FOLDER = Path(__file__).with_name("prompts")
_BUNDLED = {name: Prompt.load(_FOLDER / f"{name}.txt") for name in _SLOTS}


@dataclass(frozen=True, slots=True)
class BuildPrompts:
    """The prompts of one build.

    Attributes:
        facts: asks for the facts in numbered `{sentences}` (needed) under the heading `{topic}`.
        question: asks for a question about a `{fact}` (needed) from a `{passage}`.
        as_json: tells a model without structured output the `{schema}`.
        repair: tells a model the `{faults}` of its reply.

    Raises:
        InputError: a prompt lacks its slot, or has one that nothing fills.
    """

    facts: Prompt = _BUNDLED["facts"]
    question: Prompt = _BUNDLED["question"]
    as_json: Prompt = _BUNDLED["as_json"]
    repair: Prompt = _BUNDLED["repair"]

    def __post_init__(self) -> None:
        for name, (needed, further) in _SLOTS.items():
            prompt: Prompt = getattr(self, name)
            known = {needed, *further}
            if needed not in prompt.slots:
                raise InputError(
                    f"the prompt has no slot {{{needed}}}",
                    where=prompt.name,
                    hint=f"put {{{needed}}} in",
                )
            if strange := sorted(prompt.slots - known):
                raise InputError(
                    f"the prompt has a slot {{{strange[0]}}}, which nothing fills",
                    where=prompt.name,
                    hint=f"slots that are filled: {', '.join(sorted(known))}",
                )

    def sha256(self, prompt: Prompt) -> str:
        """Hash of `prompt` with those that go along with it."""
        joint = "\0".join([prompt.text, self.as_json.text, self.repair.text])
        return hashlib.sha256(joint.encode("utf-8", "replace")).hexdigest()


NO_MODEL = "none"


@dataclass(frozen=True)
class BuildSettings:
    """Settings that decide the questions.

    Attributes:
        model: name of the model that is asked; `none` for rules alone. What was asked
            under one name is not asked again under it.
        prompts: what it is asked with.
        sentences_per_call: most sentences in one request for facts.
        max_repairs: how often a faulty reply is sent back.
        chunk_size: most words in a chunk, the passage of a question; see `load_chunks`.
        chunk_overlap: most words that two neighbouring chunks share.

    Raises:
        InputError: a number is out of range.
    """

    model: str = NO_MODEL
    prompts: BuildPrompts = BuildPrompts()
    sentences_per_call: int = 12
    max_repairs: int = 2
    chunk_size: int = 150
    chunk_overlap: int = 0

    @classmethod
    def of_prompts(
        cls, facts: Path | None = None, question: Path | None = None, **settings: Any
    ) -> Self:
        """Make settings with prompts from files.

        Args:
            facts: file of the prompt for facts; None for the bundled one.
            question: likewise, for questions.
            settings: all others.

        Raises:
            InputError: a file cannot be read, or a prompt lacks its slot.
        """
        files = {"facts": facts, "question": question}
        prompts = {name: Prompt.load(path) for name, path in files.items() if path is not None}
        return cls(prompts=BuildPrompts(**prompts), **settings)

    @property
    def asks_model(self) -> bool:
        """Whether a model is asked."""
        return self.model != NO_MODEL

    def __post_init__(self) -> None:
        check_sizes(self.chunk_size, self.chunk_overlap)
        if not 1 <= self.sentences_per_call <= 100:
            raise InputError(
                "must be between 1 and 100", where="sentences_per_call", hint="12 does well"
            )
        if self.max_repairs < 0:
            raise InputError("must not be negative", where="max_repairs", hint="0 for none")
        if not self.model:
            raise InputError("must not be empty", where="model", hint=f"`{NO_MODEL}` for none")


def check_sizes(chunk_size: int, chunk_overlap: int) -> None:
    """Check that chunks can be cut.

    Raises:
        InputError: a size is out of range.
    """
    if chunk_size < 1:
        raise InputError("must be at least 1", where="chunk_size", hint="150 does well")
    if not 0 <= chunk_overlap < chunk_size:
        raise InputError(
            "must be at least 0 and less than the size of a chunk",
            where="chunk_overlap",
            hint="0 for none",
        )
