"""Tables of the report: every number with its interval, nothing left to compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....calibration import Interval
from ...uniknow._beyond import BeyondRates
from ...uniknow._cases import ContextKind
from ...uniknow._metrics import MethodMetrics
from ...uniknow._paired import PairedDifference
from ...uniknow._published import PUBLISHED_ROWS, PublishedRow
from .._escaping import one_line
from .._grid import MINUS, NOTHING, Cell, Line, Table, cells_of, signed
from .._numbers import decimal, percent
from ._names import SITUATIONS, method_name
from ._summary import UniKnowSummary


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    of: Callable[[MethodMetrics], Interval]
    words: Callable[[float], str] = percent
    # 1 where more is better, -1 where less is, 0 where neither.
    better: int = 1


def situation_table(methods: Mapping[str, MethodMetrics]) -> Table:
    """Exact match by situation."""
    return _table(
        methods,
        [
            *(
                _Column(f"{situation.title} ({situation.letter})", _em(situation.name))
                for situation in SITUATIONS
            ),
            _Column("Mean of the four (All)", _em("all")),
            _Column("Both agree (not scored)", _em("agreement"), better=0),
        ],
    )


def overall_table(methods: Mapping[str, MethodMetrics]) -> Table:
    """Rely and what it is made of."""
    return _table(
        methods,
        [
            _Column("Rely", lambda found: found.overall.rely, decimal),
            _Column("Acc", lambda found: found.overall.acc),
            _Column("Truth", lambda found: found.overall.truth),
            _Column("Ans", lambda found: found.overall.ans, better=0),
        ],
    )


def error_table(methods: Mapping[str, MethodMetrics]) -> Table:
    """Share of each type of error."""
    titles = {
        "contextual": "Context used wrongly",
        "parametric": "Memory used wrongly",
        "false_abstention": "Declined without need",
        "other": "Other",
    }
    return _table(
        methods,
        [_Column(title, _error(name), better=-1) for name, title in titles.items()],
    )


def ablation_table(summary: UniKnowSummary) -> Table:
    """The variants of trained methods."""
    variants = {name: found for name, found in summary.methods.items() if name not in summary.main}
    bases = {name.partition("@")[0] for name in variants}
    shown = {name: found for name, found in summary.main.items() if name in bases} | variants
    return _table(
        shown,
        [
            _Column("Rely", lambda found: found.overall.rely, decimal),
            *(_Column(situation.title, _em(situation.name)) for situation in SITUATIONS),
        ],
    )


def beyond_table(by_method: Mapping[str, BeyondRates], kind: ContextKind) -> Table:
    """What each method did with one kind of context beyond the paper."""
    rates = list(by_method.values())
    columns: list[tuple[str, list[Interval], int]] = [
        ("As wanted", [one.wanted for one in rates], 1),
        ("Right answer", [one.right for one in rates], 0),
        ("Declined", [one.abstained for one in rates], 0),
    ]
    if kind is ContextKind.UNTRUE:
        columns.append(("Misled", [one.misled for one in rates], -1))
    marked = [cells_of(found, percent, better) for _, found, better in columns]
    return Table(
        "Method",
        tuple(heading for heading, _, _ in columns),
        tuple(
            Line(one_line(name), "", tuple(column[position] for column in marked))
            for position, name in enumerate(by_method)
        ),
    )


def difference_table(differences: Sequence[PairedDifference]) -> Table:
    """Guard minus base, on the same cases."""
    names = ["em_all", *(f"em_{situation.name}" for situation in SITUATIONS)]
    headings = ("Rely", "Mean of the four", *(situation.title for situation in SITUATIONS))
    lines = tuple(
        Line(
            f"{found.method} {MINUS} {found.base}",
            f"{found.cases} cases",
            (
                _difference(found.metrics["rely"], 1.0, 3),
                *(_difference(found.metrics[name], 100.0, 1) for name in names),
            ),
        )
        for found in differences
    )
    return Table("Compared", headings, lines)


def published_table(methods: Mapping[str, MethodMetrics]) -> Table:
    """What the paper published, with this run's number under each."""
    columns = (*(situation.name for situation in SITUATIONS), "all")
    headings = (*(situation.title for situation in SITUATIONS), "Mean of the four")

    def line(row: PublishedRow) -> Line:
        own = methods.get(row.method)
        cells = [
            Cell(
                percent(row.em[name]),
                "" if own is None else _here(own.scenarios[name].em, percent),
            )
            for name in columns
        ]
        rely = "" if own is None else _here(own.overall.rely, decimal)
        return Line(row.method, "", (*cells, Cell(decimal(row.rely_nq), rely)))

    return Table("Method", (*headings, "Rely"), tuple(line(row) for row in PUBLISHED_ROWS))


def _table(methods: Mapping[str, MethodMetrics], columns: Sequence[_Column]) -> Table:
    marked = [
        cells_of([column.of(found) for found in methods.values()], column.words, column.better)
        for column in columns
    ]
    return Table(
        "Method",
        tuple(column.heading for column in columns),
        tuple(
            Line(
                one_line(name),
                one_line(method_name(name).meaning),
                tuple(cells[position] for cells in marked),
            )
            for position, name in enumerate(methods)
        ),
    )


def _difference(interval: Interval, scale: float, digits: int) -> Cell:
    if interval.value is None or interval.low is None or interval.high is None:
        return Cell(NOTHING)
    low, value, high = (
        signed(scale * number, digits) for number in (interval.low, interval.value, interval.high)
    )
    clear = interval.low > 0 or interval.high < 0
    return Cell(value, f"{low} to {high}", "clear" if clear else "")


def _here(interval: Interval, words: Callable[[float], str]) -> str:
    return "" if interval.value is None else f"here {words(interval.value)}"


def _em(scenario: str) -> Callable[[MethodMetrics], Interval]:
    return lambda found: found.scenarios[scenario].em


def _error(name: str) -> Callable[[MethodMetrics], Interval]:
    return lambda found: found.errors[name]
