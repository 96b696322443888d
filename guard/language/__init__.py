"""Words by what they do, in English and Chinese: one table for all rules, `words.toml`."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

_TABLE: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("words.toml").read_text("utf-8")
)


def section(name: str) -> Any:
    """Return a section of the table: its entries by name, or a list of them.

    Example:
        >>> section("units")["km"]
        'km kilometer kilometers kilometre kilometres'
    """
    return _TABLE[name]


def word_list(name: str, entry: str) -> list[str]:
    """Return the words of an entry in their order.

    Example:
        >>> word_list("dates", "weekdays")[0]
        'monday'
    """
    return str(_TABLE[name][entry]).split()


def listed(name: str, entry: str) -> frozenset[str]:
    """Return the words of an entry.

    Example:
        >>> "never" in listed("negation", "negators")
        True
    """
    return frozenset(word_list(name, entry))
