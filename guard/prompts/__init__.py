"""Prompt templates as files with a name and a hash, replaceable by the user.

Example:
    >>> prompt = Prompt(name="mine", text="Q: {question}\\nA:")
    >>> prompt.fill(question="Why {braces}?")
    'Q: Why {braces}?\\nA:'
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ..errors import InputError
from ..files import read_text, text_sha256

__all__ = ["Prompt"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt template with `{name}` slots.

    Attributes:
        name: how runs and fingerprints call it.
        text: the template.
    """

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """Hexadecimal sha256 of the template."""
        return text_sha256(self.text)

    @property
    def slots(self) -> frozenset[str]:
        """Names of the slots in the template."""
        return frozenset(re.findall(r"\{(\w+)\}", self.text))

    def require_slots(
        self, filled: Collection[str], needed: Collection[str] | None = None, *, where: str = ""
    ) -> None:
        """Check the slots of a prompt that somebody wrote.

        Args:
            filled: all slots that something fills.
            needed: slots without which it does not ask what is asked for; by default all of them.
            where: named in the error; by default the prompt.

        Raises:
            InputError: nothing fills a slot, or one that is needed is not there.
        """
        if strange := sorted(self.slots.difference(filled)):
            what = f"the prompt has a slot {{{strange[0]}}}, which nothing fills"
            hint = f"slots that are filled: {', '.join(sorted(filled))}"
        elif lacking := sorted(set(filled if needed is None else needed) - self.slots):
            what, hint = f"the prompt has no slot {{{lacking[0]}}}", f"put {{{lacking[0]}}} in"
        else:
            return
        raise InputError(what, where=where or self.name, hint=hint)

    def fill(self, **values: str) -> str:
        """The template with its slots filled; braces inside the values stay as they are.

        Raises:
            InputError: a slot has no value.
        """
        missing = self.slots - set(values)
        if missing:
            what = f"prompt {self.name!r} has slots without a value: {', '.join(sorted(missing))}"
            raise InputError(what, hint=f"slots that are filled: {', '.join(sorted(values))}")
        # One pass, so that a value that looks like a slot is never filled in turn.
        return re.sub(r"\{(\w+)\}", lambda match: values[match.group(1)], self.text)

    @classmethod
    def bundled(cls, name: str) -> Prompt:
        """A prompt that ships with the guard: `closed_book`, `with_context`, `p_true`,
        `verbalized`, `sufficiency`, `sufficiency_zh`, `rewrite_question`, `small_talk`, or its
        `small_talk_patterns`.

        Raises:
            InputError: there is none of that name.
        """
        folder = resources.files(__package__)
        names = sorted(file.name[:-4] for file in folder.iterdir() if file.name.endswith(".txt"))
        if name not in names:
            raise InputError(f"no prompt named {name!r}", hint=f"one of: {', '.join(names)}")
        text = folder.joinpath(f"{name}.txt").read_text(encoding="utf-8")
        return cls(name=name, text=text.rstrip("\n"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Prompt:
        """A prompt from the user's own file; its name is the file's.

        Raises:
            InputError: the file cannot be read.
        """
        return cls(name=Path(path).stem, text=read_text(path).rstrip("\n"))
