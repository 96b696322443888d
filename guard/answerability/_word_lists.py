"""Word lists written as texts."""

from __future__ import annotations


def listed(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())
