"""Group rows, count them, and look up what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Group items by a key; keys and items stay in their order.

    Example:
        >>> grouped([3, 1, 4, 1], lambda number: number % 2)
        {1: [3, 1, 1], 0: [4]}
    """
    found: dict[_Key, list[_Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def batched(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Yield so many items at a time, in their order; the last are fewer.

    Example:
        >>> list(batched("abcde", 2))
        ['ab', 'cd', 'e']
    """
    for start in range(0, len(items), size):
        yield items[start : start + size]


def most_frequent(names: Iterable[str]) -> dict[str, int]:
    """Count names, the most frequent first.

    Example:
        >>> most_frequent(["timeout", "overload", "value", "overload"])
        {'overload': 2, 'timeout': 1, 'value': 1}
    """
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def value_at(line: Any, path: str) -> Any:
    """Return what stands at a dotted path of mappings and objects, None where there is nothing.

    Example:
        >>> [value_at(row, "error.type") for row in ({"error": {"type": "x"}}, {"error": None})]
        ['x', None]
    """
    for name in path.split("."):
        if line is None:
            return None
        if isinstance(line, dict | Mapping):
            line = line.get(name)
        else:
            line = line[name] if hasattr(type(line), "__getitem__") else getattr(line, name)
    return line


def error_types(rows: Iterable[Any]) -> dict[str, int]:
    """Count the errors of rows (`RowError | None`) by type, the most frequent first."""
    return most_frequent(row.error.type for row in rows if row.error is not None)
