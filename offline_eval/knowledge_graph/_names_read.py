"""Names of nodes in the languages asked for, chosen among all that a graph gives.

In this order: a name in the language itself, in a variant of it (`zh-hans` for `zh`), without a
language (or for all of them, `mul`), in a language that the user lets stand in. Of several, the
one of the preferred property, then the first in the alphabet; the others are aliases.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._graph import Ids
from ._terms import ALIASES, LABELS, clean_name

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
