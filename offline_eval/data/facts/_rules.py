"""The tables of `rules.toml`: regular expressions and words, by the module that uses them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple


class Rules(NamedTuple):
    """What one module goes by.

    Attributes:
        patterns: by name.
        words: likewise, in small letters.
        ways: patterns of one kind, in the order in which they are tried.
    """

    patterns: Mapping[str, re.Pattern[str]]
    words: Mapping[str, frozenset[str]]
    ways: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, module: str) -> Rules:
        """The rules of a module, by its name without the underscore."""
        table = _tables()[module]
        parts: dict[str, str] = table.get("parts", {})

        def compiled(text: str) -> re.Pattern[str]:
            while (slot := re.search(r"<<(\w+)>>", text)) is not None:
                text = text.replace(slot.group(), parts[slot.group(1)])
            return re.compile(text)

        patterns = {name: text for name, text in table["patterns"].items() if name != "ways"}
        return cls(
            {name: compiled(text) for name, text in patterns.items()},
            {name: frozenset(text.split()) for name, text in table.get("words", {}).items()},
            tuple(map(compiled, table["patterns"].get("ways", ()))),
        )


@lru_cache
def _tables() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("rules.toml").read_text("utf-8")
    return tomllib.loads(text)
