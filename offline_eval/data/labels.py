"""What the label of a source names: a page, and perhaps a part of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TypeVar

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Name = TypeVar("Name", bound=Hashable)

# A fragment holds no "/", which belongs to a page; "C#.md" is a page, too.
_FRAGMENT = re.compile(
    r"(?P<page>.+?)(?:#(?P<section>(?!\.)[^/#]*)|::(?P<chunk>\d+)|:(?P<lines>\d+(?:-\d+)?))"
)
_HOST = re.compile(r"\w+://[^/]*:\d+")


@dataclass(frozen=True, slots=True)
class Label:
    """A source as questions and documents name it: a page, with or without a fragment.

    A fragment names a part of the page: `page#section`, `page::3` (a chunk), `page:12` or
    `page:12-20` (lines).

    Attributes:
        page: parts of its path.
        kind: of the fragment: `section`, `chunk` or `lines`; empty for a whole page.
        section: its name.
        span: first and last number of a chunk or of lines.

    Example:
        >>> Label.of("docs/plans.md#prices")
        Label(page=('docs', 'plans.md'), kind='section', section='prices', span=(0, 0))
    """

    page: tuple[str, ...]
    kind: str = ""
    section: str = ""
    span: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, value: object) -> Label | None:
        """Read a label; None where it names nothing."""
        text = str(value).strip() if isinstance(value, str | int) else ""
        return _read(text.replace("\\", "/"))

    @property
    def whole(self) -> Label:
        """The page alone."""
        return Label(self.page)

    def overlaps(self, other: Label) -> bool:
        """Return whether two labels name something in common.

        Pages are the same if the path of one ends with that of the other. On one page two
        sections are the same by name, chunks by number, and lines overlap by their numbers;
        fragments of different kinds, or a fragment and none, cannot be told apart.
        """
        size = min(len(self.page), len(other.page))
        if not size or self.page[-size:] != other.page[-size:]:
            return False
        if self.kind != other.kind:
            return True
        meets = self.span[0] <= other.span[1] and other.span[0] <= self.span[1]
        return meets and self.section == other.section

    @staticmethod
    def merged(labels: Iterable[Label]) -> dict[Label, Label]:
        """Return for each label the first of those that it overlaps, directly or by others."""
        distinct = dict.fromkeys(labels)
        on_page: dict[tuple[str, ...], list[Label]] = defaultdict(list)
        for one in distinct:
            on_page[one.page].append(one)
        ends = {one: [one.page[at:] for at in range(len(one.page))] for one in distinct}
        return units(
            {
                one: [other for end in ends[one] for other in on_page[end] if one.overlaps(other)]
                for one in distinct
            }
        )


@lru_cache(maxsize=65536)
def _read(text: str) -> Label | None:
    found = None if _HOST.fullmatch(text) else _FRAGMENT.fullmatch(text)
    page = PurePosixPath(text if found is None else found["page"]).parts
    if not page:
        return None
    if found is None or not (kind := found.lastgroup) or not (part := found[kind]):
        return Label(page)
    if kind == "section":
        return Label(page, kind, part)
    first, _, last = part.partition("-")
    low, high = sorted((int(first), int(last or first)))
    return Label(page, kind, span=(low, high))


def units(parts: Mapping[Name, Iterable[Hashable]]) -> dict[Name, Name]:
    """Put together what shares a part, directly or through others.

    Args:
        parts: of each name.

    Returns:
        For each name the first one of its unit, in the order of `parts`.

    Example:
        >>> units({"a": "xy", "b": "z", "c": "y"})
        {'a': 'a', 'b': 'b', 'c': 'a'}
    """
    columns: dict[Hashable, int] = {}
    edges = [
        (row, len(parts) + columns.setdefault(part, len(columns)))
        for row, own in enumerate(parts.values())
        for part in own
    ]
    if not edges:
        return {name: name for name in parts}
    size, ends = len(parts) + len(columns), tuple(np.array(edges).T)
    graph = coo_array((np.ones(len(edges)), ends), shape=(size, size))
    unit_of = connected_components(graph, directed=False)[1].tolist()
    first: dict[int, Name] = {}
    return {name: first.setdefault(unit_of[row], name) for row, name in enumerate(parts)}
