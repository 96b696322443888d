"""Names of nodes: which are fit for a question, and which overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ._graph import Kind, KnowledgeGraph, folded, kind_of, local_name, written

_LONGEST_LABELS = 100
# Below this many letters, an alias is found within almost every name. Chinese says more in two.
_LEAST_LETTERS, _LEAST_SIGNS = 3, 2
_IDENTIFIER = re.compile(r"[QPLqpl]\d+")
# What makes a name that only repeats the IRI's last part, such as "item_7", no name.
_CODE = re.compile(r"[\d_]")
_SLOT = re.compile(r"\{\w+\}")
# Words that the layout or the suite's prompts use for "no answer".
_RESERVED = frozenset({"none", "-1", "##none##"})


class Labels:
    """Names for questions in all languages at once.

    Args:
        graph: with the names.
        languages: a node is fit for a question only when it has a name in each.
    """

    def __init__(self, graph: KnowledgeGraph, languages: Sequence[str]) -> None:
        self._graph, self._languages = graph, tuple(languages)
        self._labels: dict[str, dict[str, str]] = {language: {} for language in languages}
        self._fit: dict[str, bool] = {}
        self._folded: dict[str, frozenset[str]] = {}
        self._owners = _owners(graph)

    def label(self, node: str, language: str) -> str:
        """The name in a language; empty when there is none that is fit."""
        known = self._labels[language].get(node)
        if known is None:
            known = self._labels[language][node] = self._label(node, language)
        return known

    def _label(self, node: str, language: str) -> str:
        if kind_of(node) in (Kind.YEAR, Kind.NUMBER):
            return written(node)
        if kind_of(node) is not Kind.ENTITY:
            return ""
        name = self._graph.labels[language].get(node, "")
        return name if self._is_name(node, name) else ""

    def fit(self, node: str) -> bool:
        """Whether the node has a name in every language."""
        if node not in self._fit:
            self._fit[node] = all(self.label(node, language) for language in self._languages)
        return self._fit[node]

    def unique(self, node: str) -> bool:
        """Whether none of its labels is also a name of another node.

        A question about one of two namesakes may be meant about the other.
        """
        return all(
            self._owners.get(folded(self.label(node, language)), node) == node
            for language in self._languages
        )

    def names(self, node: str) -> tuple[str, ...]:
        """Labels and aliases."""
        value = written(node)
        if kind_of(node) is Kind.NUMBER:
            return (value, f"{int(value):,}") if value.isdecimal() else (value,)
        if kind_of(node) is Kind.YEAR:
            return (value,)
        labels = [self.label(node, language) for language in self._languages]
        found = dict.fromkeys(label for label in labels if label)
        return tuple(dict.fromkeys((*found, *self._graph.aliases.get(node, ()))))

    def aliases(self, node: str, language: str) -> tuple[str, ...]:
        """Names beside the label in a language."""
        label = self.label(node, language)
        return tuple(name for name in self.names(node) if name != label)

    def same_name(self, left: Iterable[str], right: Iterable[str]) -> bool:
        """Whether a node of one side and one of the other share a name."""
        names: set[str] = set()
        for node in left:
            names |= self._all_folded(node)
        return any(names & self._all_folded(node) for node in right)

    def overlap(self, one: str, other: str) -> bool:
        """Whether the two share a name, or one of their names is part of one of the other's."""
        left, right = self._all_folded(one), self._all_folded(other)
        if left & right:
            return True
        labels = {
            (folded(self.label(one, language)), folded(self.label(other, language)))
            for language in self._languages
        }
        if any(a in b or b in a for a, b in labels if a and b):
            return True
        return any((_long(a) and a in b) or (_long(b) and b in a) for a in left for b in right)

    def within(self, node: str, text: str, language: str) -> bool:
        """Whether a text names the node."""
        searched = folded(text)
        label = folded(self.label(node, language))
        return (bool(label) and label in searched) or any(
            _long(name) and name in searched for name in self._all_folded(node)
        )

    def _all_folded(self, node: str) -> frozenset[str]:
        if node not in self._folded:
            self._folded[node] = frozenset(folded(name) for name in self.names(node))
        return self._folded[node]

    def _is_name(self, node: str, name: str) -> bool:
        return (
            0 < len(name) <= _LONGEST_LABELS
            and any(letter.isalnum() for letter in name)
            and name != node
            and not (name == local_name(node) and _CODE.search(name))
            and folded(name) not in _RESERVED
            and not _IDENTIFIER.fullmatch(name)
            and not _SLOT.search(name)
            and "://" not in name
        )


def _owners(graph: KnowledgeGraph) -> dict[str, str]:
    """Folded name → the node that has it; empty where several do."""
    found: dict[str, str] = {}
    for node, names in graph.aliases.items():
        for name in {folded(name) for name in names}:
            found[name] = node if found.get(name, node) == node else ""
    return found


def _long(name: str) -> bool:
    return len(name) >= (_LEAST_LETTERS if name.isascii() else _LEAST_SIGNS)
