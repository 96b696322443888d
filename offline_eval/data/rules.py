"""Regular expressions and lists of words that stand in a file beside the code."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...guard.files import table_beside
from ...guard.language import filled


class Rules:
    """What one module goes by, from `rules.toml` in its folder.

    Args:
        module: its `__file__`.
        part: of the file, the module's name without the underscore.

    Attributes:
        patterns: by name; a list of texts is one of alternatives.
        words: likewise, in small letters.
        ways: patterns of one kind, in the order in which they are tried.
        table: the module's whole part of the file.
    """

    def __init__(self, module: str, part: str) -> None:
        self.table = table = table_beside(module, "rules.toml")[part]
        told, listed = dict(table.get("patterns", {})), table.get("words", {})
        ways: list[str] = told.pop("ways", [])
        single = {
            name: text if isinstance(text, str) else "|".join(text) for name, text in told.items()
        }
        named: dict[str, str] = {**table.get("parts", {}), **single}
        self.patterns: Mapping[str, re.Pattern[str]] = {
            name: re.compile(text) for name, text in filled(named).items() if name in single
        }
        self.ways = tuple(re.compile(filled({**named, "": way})[""]) for way in ways)
        self.words: Mapping[str, frozenset[str]] = {
            name: frozenset(text.split()) for name, text in listed.items()
        }

    def finds(self, text: str, *names: str) -> bool:
        """Whether one of these patterns is found in a text."""
        return any(self.patterns[name].search(text) for name in names)
