"""The tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....calibration import Interval
from ...report.prose import explained
from ...report.tables import Cell, Line, Table
from ...report.text import decimal, percent
from ._cases import ContextKind
from ._metrics import (
    PUBLISHED_EM,
    PUBLISHED_RELY,
    MethodMetrics,
    PairedDifference,
    Rates,
)
from ._summary import (
    SITUATIONS,
    UniKnowSummary,
)

_SITUATIONS = (
    "Share of cases in which the method did what was wanted. Where intervals overlap widely, the "
    "best method is not shown to be better than the next. “Both agree” is the context that states "
    "what the model knows anyway: it is easy, and enters no other number of this report."
)
_DIFFERENCES = (
    "First method minus second, on the cases that both answered; Rely as a number, the others in "
    "percentage points."
)


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    of: Callable[[MethodMetrics], Interval]
    text: Callable[[float], str] = percent
    # 1 where more is better, -1 where less is, 0 where neither.
    better: int = 1


def situation_table(methods: Mapping[str, MethodMetrics]) -> Table:
    """Make the table of exact match by situation."""
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
        notes=(_SITUATIONS, *explained("intervals", "best")),
    )


def overall_table(methods: Mapping[str, MethodMetrics]) -> Table:
    """Make the table of Rely and its parts."""
    return _table(
        methods,
        [
            _Column("Rely", lambda found: found.overall["rely"], decimal),
            _Column("Acc", lambda found: found.overall["acc"]),
            _Column("Truth", lambda found: found.overall["truth"]),
            _Column("Ans", lambda found: found.overall["ans"], better=0),
        ],
        notes=explained("acc", "truth", "ans", "rely"),
    )


def error_table(methods: Mapping[str, MethodMetrics]) -> Table:
    """Make the table of errors by type."""
    titles = {
        "contextual": "Context used wrongly",
        "parametric": "Memory used wrongly",
        "false_abstention": "False abstention",
        "other": "Other",
    }
    return _table(
        methods,
        [_Column(title, _error(name), better=-1) for name, title in titles.items()],
        notes=(
            "Share of all scored cases; ★ is the lowest of its column.",
            *explained("context_used_wrongly", "memory_used_wrongly", "needless_abstention"),
            ("Other", "made up where neither held the answer, or an empty reply."),
        ),
    )


def ablation_table(summary: UniKnowSummary) -> Table:
    """Make the table of the variants of trained methods."""
    variants = {name: found for name, found in summary.methods.items() if name not in summary.main}
    bases = {name.partition("@")[0] for name in variants}
    shown = {name: found for name, found in summary.main.items() if name in bases} | variants
    return _table(
        shown,
        [
            _Column("Rely", lambda found: found.overall["rely"], decimal),
            *(_Column(situation.title, _em(situation.name)) for situation in SITUATIONS),
        ],
    )


def beyond_table(by_method: Mapping[str, Rates], kind: ContextKind) -> Table:
    """Make the table of one kind of context beyond the paper."""
    rates = list(by_method.values())
    columns = [
        ("As wanted", Cell.column([one["wanted"] for one in rates], better=1)),
        ("Right answer", Cell.column([one["right"] for one in rates])),
        ("Abstained", Cell.column([one["abstained"] for one in rates])),
    ]
    if kind is ContextKind.UNTRUE:
        columns.append(("Misled", Cell.column([one["misled"] for one in rates], better=-1)))
    return Table.from_columns("Method", list(by_method), columns)


def difference_table(differences: Sequence[PairedDifference]) -> Table:
    """Make the table of guard minus base, on the same cases."""
    names = ["em_all", *(f"em_{situation.name}" for situation in SITUATIONS)]
    headings = ("Rely", "Mean of the four", *(situation.title for situation in SITUATIONS))
    lines = tuple(
        Line(
            f"{found.method} \N{MINUS SIGN} {found.base}",
            (
                Cell.difference(
                    found.metrics["rely"], lambda value: decimal(value, 3, signed=True)
                ),
                *(Cell.difference(found.metrics[name]) for name in names),
            ),
        )
        for found in differences
    )
    return Table("Compared", headings, lines, notes=(_DIFFERENCES, *explained("clear")))


def published_table(methods: Mapping[str, MethodMetrics]) -> Table:
    """Make the table of the published numbers, with those of this run beneath."""
    columns = (*(situation.name for situation in SITUATIONS), "all")
    headings = (*(situation.title for situation in SITUATIONS), "Mean of the four")

    def line(name: str) -> Line:
        own, published = methods.get(name), PUBLISHED_EM[name]
        cells = [
            Cell(
                percent(published[column]),
                "" if own is None else _here(own.scenarios[column]["em"], percent),
            )
            for column in columns
        ]
        rely = "" if own is None else _here(own.overall["rely"], decimal)
        return Line(name, (*cells, Cell(decimal(PUBLISHED_RELY.get(name)), rely)))

    return Table("Method", (*headings, "Rely"), tuple(map(line, PUBLISHED_EM)))


def _table(
    methods: Mapping[str, MethodMetrics],
    columns: Sequence[_Column],
    *,
    notes: tuple[str | tuple[str, str], ...] = (),
) -> Table:
    return Table.from_columns(
        "Method",
        list(methods),
        [
            (
                column.heading,
                Cell.column(
                    [column.of(found) for found in methods.values()],
                    column.text,
                    better=column.better,
                ),
            )
            for column in columns
        ],
        notes=notes,
    )


def _here(interval: Interval, text: Callable[[float], str]) -> str:
    return "" if interval.value is None else f"here {text(interval.value)}"


def _em(scenario: str) -> Callable[[MethodMetrics], Interval]:
    return lambda found: found.scenarios[scenario]["em"]


def _error(name: str) -> Callable[[MethodMetrics], Interval]:
    return lambda found: found.errors[name]
