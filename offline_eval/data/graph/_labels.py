"""Names of nodes: which are fit for a question, and which overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ._graph import ALIASES, LABELS, Ids, Kind, KnowledgeGraph, clean_name, folded, local_name

_ALIAS_RANK = len(LABELS)
_LONGEST = 200

Rank = tuple[int, int, str]


class NameReader:
    """Keeps the best name of each node, and the others as aliases.

    Args:
        languages: asked for.
        fallback: that may stand in, in order.
    """

    def __init__(self, languages: Sequence[str], fallback: Sequence[str]) -> None:
        self._languages, self._fallback = tuple(languages), tuple(fallback)
        self._ranks: dict[str | None, tuple[tuple[str, int], ...]] = {}
        self._best: dict[str, dict[int, Rank]] = {language: {} for language in languages}
        self._all: dict[int, set[str]] = {}

    def role(self, predicate: str) -> int | None:
        """The place of a predicate among those that give names; None for any other."""
        if predicate in LABELS:
            return LABELS.index(predicate)
        return _ALIAS_RANK if predicate in ALIASES else None

    def wants(self, language: str | None) -> bool:
        """Whether names with this tag are kept."""
        if language not in self._ranks:
            self._ranks[language] = tuple(self._matches(language))
        return bool(self._ranks[language])

    def add(self, node: int, text: str, language: str | None, role: int) -> None:
        """One name with its tag, which must be wanted."""
        name = clean_name(text)
        if not name or len(name) > _LONGEST:
            return
        self._all.setdefault(node, set()).add(name)
        if role == _ALIAS_RANK:
            return
        for wanted, closeness in self._ranks[language]:
            rank = closeness, role, name
            best = self._best[wanted].get(node)
            if best is None or rank < best:
                self._best[wanted][node] = rank

    def chosen(self, rank: Ids) -> tuple[dict[str, dict[int, str]], dict[int, tuple[str, ...]]]:
        """Labels by language, and all names; nodes as `rank` renumbers them.

        Nodes that are renumbered to the same one share their names.
        """
        labels: dict[str, dict[int, str]] = {}
        for language, found in self._best.items():
            merged: dict[int, Rank] = {}
            for node, best in found.items():
                at = int(rank[node])
                if at not in merged or best < merged[at]:
                    merged[at] = best
            labels[language] = {node: best[2] for node, best in merged.items()}
        names: dict[int, set[str]] = {}
        for node, texts in self._all.items():
            names.setdefault(int(rank[node]), set()).update(texts)
        self._best, self._all = {}, {}
        return labels, {node: tuple(sorted(texts)) for node, texts in names.items()}

    def _matches(self, tag: str | None) -> list[tuple[str, int]]:
        found = []
        for wanted in self._languages:
            if tag is not None and tag.casefold() == wanted.casefold():
                found.append((wanted, 0))
            elif tag is not None and tag.casefold().startswith(wanted.casefold() + "-"):
                found.append((wanted, 1))
            elif tag is None or tag == "mul":
                found.append((wanted, 2))
            elif tag in self._fallback:
                found.append((wanted, 3 + self._fallback.index(tag)))
        return found


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
        self._labels: dict[str, dict[int, str]] = {language: {} for language in languages}
        self._fit: dict[int, bool] = {}
        self._folded: dict[int, frozenset[str]] = {}
        self._owners = _owners(graph)

    def label(self, node: int, language: str) -> str:
        """The name in a language; empty when there is none that is fit."""
        known = self._labels[language].get(node)
        if known is None:
            known = self._labels[language][node] = self._label(node, language)
        return known

    def _label(self, node: int, language: str) -> str:
        if self._graph.kind(node) in (Kind.YEAR, Kind.NUMBER):
            return self._graph.nodes[node]
        if self._graph.kind(node) is not Kind.ENTITY:
            return ""
        name = self._graph.labels[language].get(node, "")
        return name if self._is_name(node, name) else ""

    def fit(self, node: int) -> bool:
        """Whether the node has a name in every language."""
        if node not in self._fit:
            self._fit[node] = all(self.label(node, language) for language in self._languages)
        return self._fit[node]

    def unique(self, node: int) -> bool:
        """Whether none of its labels is also a name of another node.

        A question about one of two namesakes may be meant about the other.
        """
        return all(
            self._owners.get(folded(self.label(node, language)), node) == node
            for language in self._languages
        )

    def names(self, node: int) -> tuple[str, ...]:
        """Labels and aliases."""
        written = self._graph.nodes[node]
        if self._graph.kind(node) is Kind.NUMBER:
            return (written, f"{int(written):,}") if written.isdecimal() else (written,)
        if self._graph.kind(node) is Kind.YEAR:
            return (written,)
        labels = [self.label(node, language) for language in self._languages]
        found = dict.fromkeys(label for label in labels if label)
        return tuple(dict.fromkeys((*found, *self._graph.aliases.get(node, ()))))

    def aliases(self, node: int, language: str) -> tuple[str, ...]:
        """Names beside the label in a language."""
        label = self.label(node, language)
        return tuple(name for name in self.names(node) if name != label)

    def same_name(self, left: Iterable[int], right: Iterable[int]) -> bool:
        """Whether a node of one side and one of the other share a name."""
        names: set[str] = set()
        for node in left:
            names |= self._all_folded(node)
        return any(names & self._all_folded(node) for node in right)

    def overlap(self, one: int, other: int) -> bool:
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

    def within(self, node: int, text: str, language: str) -> bool:
        """Whether a text names the node."""
        searched = folded(text)
        label = folded(self.label(node, language))
        return (bool(label) and label in searched) or any(
            _long(name) and name in searched for name in self._all_folded(node)
        )

    def _all_folded(self, node: int) -> frozenset[str]:
        if node not in self._folded:
            self._folded[node] = frozenset(folded(name) for name in self.names(node))
        return self._folded[node]

    def _is_name(self, node: int, name: str) -> bool:
        iri = self._graph.nodes[node]
        return (
            0 < len(name) <= _LONGEST_LABELS
            and any(letter.isalnum() for letter in name)
            and name != iri
            and not (name == local_name(iri) and _CODE.search(name))
            and folded(name) not in _RESERVED
            and not _IDENTIFIER.fullmatch(name)
            and not _SLOT.search(name)
            and "://" not in name
        )


def _owners(graph: KnowledgeGraph) -> dict[str, int]:
    """Folded name → the node that has it; -1 where several do."""
    found: dict[str, int] = {}
    for node, names in graph.aliases.items():
        for name in {folded(name) for name in names}:
            found[name] = node if found.get(name, node) == node else -1
    return found


def _long(name: str) -> bool:
    return len(name) >= (_LEAST_LETTERS if name.isascii() else _LEAST_SIGNS)
