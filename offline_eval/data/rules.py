"""Regular expressions and lists of words that stand in a file beside the code."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...guard.files import table_beside


class Rules:
    """What one module goes by, from `rules.toml` in its folder.

    Args:
        module: its `__file__`.
        part: of the file, the module's name without the underscore.

    Attributes:
        patterns: by name.
        words: likewise, in small letters.
        ways: patterns of one kind, in the order in which they are tried.
        table: the module's whole part of the file.
    """

    def __init__(self, module: str, part: str) -> None:
        self.table = table = table_beside(module, "rules.toml")[part]
        parts: dict[str, str] = table.get("parts", {})

        def compiled(text: str) -> re.Pattern[str]:
            while (slot := re.search(r"<<(\w+)>>", text)) is not None:
                text = text.replace(slot.group(), parts[slot.group(1)])
            return re.compile(text)

        single, listed = dict(table.get("patterns", {})), table.get("words", {})
        self.ways = tuple(map(compiled, single.pop("ways", ())))
        self.patterns: Mapping[str, re.Pattern[str]] = {
            name: compiled(text) for name, text in single.items()
        }
        self.words: Mapping[str, frozenset[str]] = {
            name: frozenset(text.split()) for name, text in listed.items()
        }

    def finds(self, text: str, *names: str) -> bool:
        """Whether one of these patterns is found in a text."""
        return any(self.patterns[name].search(text) for name in names)
