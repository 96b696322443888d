"""Tables of a report: every number is already written out, with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..run.grouping import value_at
from .text import UNKNOWN, decimal, percent, range_text, short_range, signed_points

if TYPE_CHECKING:
    from ...calibration import Interval

# A line of prose, or a term and what it means.
Text = str | tuple[str, str]

# How numbers of a column are written; `points`, `signed` and `+.3f` are of differences.
FORMS: Mapping[str, Callable[[float], str]] = {
    "": percent,
    "percent": percent,
    "decimal": decimal,
    "two": partial(decimal, digits=2),
    "points": signed_points,
    "signed": partial(decimal, digits=3, signed=True),
}
_DIFFERENCES = ("points", "signed", "+.3f")

# A headline number; see `Table.of_figures`.
Figure = tuple[str, "Interval", str] | tuple[str, "Interval", str, Callable[[float], str]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        value: as text; `–` where it is undefined.
        under: its interval, or what else belongs to it, a line each; may be empty.
        mark: `best` of its column, `clear` for a difference that chance does not explain,
            `big` for a headline number, `text` for prose, `passed` or `failed` for a verdict,
            otherwise empty.
    """

    value: str
    under: str = ""
    mark: str = ""

    @classmethod
    def of(cls, value: object) -> Cell:
        """Make a cell of a text or a count; `–` for None, and a cell is itself."""
        if isinstance(value, Cell):
            return value
        return cls(UNKNOWN if value is None else str(value))

    @classmethod
    def estimate(
        cls, estimate: Interval | None, text: Callable[[float], str] = percent, *, mark: str = ""
    ) -> Cell:
        """Make a cell of an estimate with its interval; `–` where it is undefined."""
        if estimate is None or estimate.value is None:
            return cls(UNKNOWN)
        return cls(text(estimate.value), short_range(estimate, text), mark)

    @classmethod
    def difference(
        cls,
        difference: Interval | None,
        text: Callable[[float], str] = signed_points,
        *,
        better: int = 0,
    ) -> Cell:
        """Make a cell of a difference, marked `clear` if its interval excludes zero.

        Args:
            difference: None where there is none.
            text: how a value is written; in percentage points unless given.
            better: 1 or -1 to mark only differences above or below zero, 0 for both.
        """
        if difference is None or difference.value is None:
            return cls(UNKNOWN)
        value = text(difference.value)
        if difference.low is None or difference.high is None:
            return cls(value)
        above = difference.low > 0 and better >= 0
        below = difference.high < 0 and better <= 0
        return cls(value, range_text(difference, text), "clear" if above or below else "")

    @classmethod
    def column(
        cls,
        estimates: Sequence[Interval | None],
        text: Callable[[float], str] = percent,
        *,
        better: int = 0,
    ) -> list[Cell]:
        """Make a column of estimates, the best one marked.

        Args:
            estimates: one per line.
            text: how a value is written.
            better: 1 where more is better, -1 where less is, 0 where neither.
        """
        known = {one.value for one in estimates if one is not None and one.value is not None}
        # Among fewer than two, and where all are equal, there is no best.
        best = None
        if better and len(known) > 1:
            best = max(known) if better > 0 else min(known)
        marks = [
            "best" if one and best is not None and one.value == best else "" for one in estimates
        ]
        return [
            cls.estimate(one, text, mark=mark) for one, mark in zip(estimates, marks, strict=True)
        ]


def _value(one: Any) -> Any:
    return getattr(one, "value", one)


def _cells(values: Sequence[Any], form: str = "", better: int = 0) -> Sequence[object]:
    """Make the cells of a column; without a form, what is no estimate is shown as it is."""
    text = FORMS.get(form) or f"{{:{form}}}".format
    if not all(hasattr(one, "low") for one in values if one is not None):
        return [None if one is None else text(one) for one in values] if form else values
    if form in _DIFFERENCES:
        return [Cell.difference(one, text, better=better) for one in values]
    return Cell.column(values, text, better=better)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table.

    Attributes:
        name: in the first column.
        cells: one per further column.
        mark: `chosen` or `later` (not reached), otherwise empty.
    """

    name: str
    cells: tuple[Cell, ...]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        name: heading of the first column.
        columns: headings of the others.
        lines: with as many cells each as there are columns.
        caption: title; may be empty.
        notes: beneath the table, in small type.
    """

    name: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    caption: str = ""
    notes: tuple[Text, ...] = ()

    @classmethod
    def from_columns(
        cls,
        name: str,
        names: Sequence[str],
        columns: Sequence[tuple[str, Sequence[object]]],
        *,
        caption: str = "",
        notes: tuple[Text, ...] = (),
        chosen: str | None = None,
    ) -> Table:
        """Make a table from its columns.

        Args:
            name: heading of the names.
            names: one per line.
            columns: heading, and per line a cell or what `Cell.of` takes.
            caption: see the class.
            notes: see the class.
            chosen: name of the line that is marked as such; None for none.
        """
        marks = {chosen: "chosen"}
        lines = tuple(
            Line(line, tuple(Cell.of(of[position]) for _, of in columns), marks.get(line, ""))
            for position, line in enumerate(names)
        )
        return cls(name, tuple(heading for heading, _ in columns), lines, caption, notes)

    @classmethod
    def of_lines(
        cls,
        name: str,
        lines: Mapping[str, Any] | Iterable[tuple[str, Any]],
        columns: Iterable[Sequence[Any]],
        **options: Any,
    ) -> Table:
        """Make a table of what some lines have at the same places.

        Args:
            name: heading of the first column.
            lines: by name, or after it; mappings or objects.
            columns: heading, dotted path within a line, and as needed how a number is written
                (a name in `FORMS`, or a format) and which way is better: 1 for more, -1 for
                less. A path that ends in `?` leaves the column out where no line has a value.
            options: as of `from_columns`.
        """
        made = []
        pairs = list(lines.items() if isinstance(lines, Mapping) else lines)
        for heading, path, *how in columns:
            values = [value_at(line, path.rstrip("?")) for _, line in pairs]
            if not path.endswith("?") or any(_value(one) is not None for one in values):
                made.append((heading, _cells(values, *how)))
        return cls.from_columns(name, [line for line, _ in pairs], made, **options)

    @classmethod
    def of_text(cls, columns: Sequence[str], lines: Sequence[Sequence[str | int]]) -> Table:
        """Make a table of prose and counts.

        Args:
            columns: all headings, that of the first column included.
            lines: a text per column; an `int` is set as a number.
        """
        cells = [
            [Cell(str(x), "", "text" if isinstance(x, str) else "") for x in rest]
            for _, *rest in lines
        ]
        made = tuple(Line(str(line[0]), tuple(c)) for line, c in zip(lines, cells, strict=True))
        return cls(columns[0], tuple(columns[1:]), made)

    @classmethod
    def of_figures(
        cls,
        lines: Iterable[Figure],
        *,
        name: str = "Measure",
        unit: str = "Questions",
    ) -> Table:
        """Make the table of headline numbers.

        Args:
            lines: what was measured, the estimate, what it says in a sentence or two, and how a
                value is written, in percent unless it says so; the most important one first.
            name: heading of the names.
            unit: heading of the numbers of questions.
        """
        columns = ("Value", "95 % interval", unit, "What it means")
        made = []
        for line in lines:
            title, estimate, meaning = line[:3]
            text = line[3] if len(line) == 4 else percent
            value = UNKNOWN if estimate.value is None else text(estimate.value)
            shown = Cell(value, mark="big"), Cell(range_text(estimate, text))
            cells = (*shown, Cell(str(estimate.n)), Cell(meaning, mark="text"))
            made.append(Line(title, cells))
        return cls(name, columns, tuple(made))
