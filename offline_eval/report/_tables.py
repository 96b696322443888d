"""Tables of the reports: every number with its interval, nothing left to compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...calibration import Interval

NOTHING = "–"
MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of a table.

    Attributes:
        value: in words; `–` where it is undefined.
        under: its interval, or what stands beside it; may be empty.
        mark: `best` of its column, `clear` for a difference that chance does not explain,
            otherwise empty.
    """

    value: str
    under: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its name, a few words on it, and a cell per column."""

    name: str
    meaning: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        name: heading of the first column.
        columns: headings of the others.
        lines: with as many cells each as there are columns.
    """

    name: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


def table_of(
    first: str, names: Sequence[str], columns: Sequence[tuple[str, Sequence[Cell]]]
) -> Table:
    """A table from its columns.

    Args:
        first: heading of the names.
        names: one per line.
        columns: heading and a cell per line.
    """
    return Table(
        first,
        tuple(heading for heading, _ in columns),
        tuple(
            Line(name, "", tuple(cells[position] for _, cells in columns))
            for position, name in enumerate(names)
        ),
    )


def interval_under(interval: Interval, words: Callable[[float], str]) -> str:
    """The interval in few signs, empty where it is undefined."""
    if interval.low is None or interval.high is None:
        return ""
    low, high = words(interval.low), words(interval.high)
    # The unit once, after both ends.
    unit = "\u00a0%"
    if low.endswith(unit) and high.endswith(unit):
        low = low.removesuffix(unit)
    return f"{low}{DASH}{high}"


def cells_of(
    intervals: Sequence[Interval], words: Callable[[float], str], better: int
) -> list[Cell]:
    """A column of estimates, the best one marked.

    Args:
        intervals: one per line.
        words: how a value is written.
        better: 1 where more is better, -1 where less is, 0 where neither.
    """
    known = [interval.value for interval in intervals if interval.value is not None]
    # Among fewer than two, and where all are equal, there is no best.
    best = None
    if better and len(known) > 1 and min(known) < max(known):
        best = max(known) if better > 0 else min(known)
    return [
        Cell(NOTHING)
        if interval.value is None
        else Cell(
            words(interval.value),
            interval_under(interval, words),
            "best" if interval.value == best else "",
        )
        for interval in intervals
    ]


def signed(value: float, digits: int) -> str:
    """With its sign; a true minus, so that it is read and aligned as one.

    Example:
        >>> signed(0.25, 2), signed(-0.0001, 2)
        ('+0.25', '0.00')
    """
    rounded = round(value, digits) + 0.0
    sign = "+" if rounded > 0 else MINUS if rounded < 0 else ""
    return f"{sign}{abs(rounded):.{digits}f}"
