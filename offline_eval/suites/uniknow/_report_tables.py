"""The tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....calibration import Interval
from ...report.prose import explained
from ...report.tables import Cell, Line, Table
from ...report.text import decimal, percent
from ._cases import ContextKind
from ._metrics import MethodMetrics, PairedDifference, Rates
from ._summary import CONTENT, SITUATIONS, TEXTS, UniKnowSummary

_Methods = Mapping[str, MethodMetrics]


def situation_table(methods: _Methods) -> Table:
    """Make the table of exact match by situation."""
    columns = [*_situations(methods, "{0.title} ({0.letter})")]
    columns.append(("Mean of the four (All)", _em(methods, "all")))
    columns.append(("Both agree (not scored)", _em(methods, "agreement", better=0)))
    notes = (*TEXTS.terms("situations"), *explained("intervals", "best"))
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def overall_table(methods: _Methods) -> Table:
    """Make the table of Rely and its parts."""
    columns = [
        ("Rely", _overall(methods, "rely", decimal)),
        ("Acc", _overall(methods, "acc")),
        ("Truth", _overall(methods, "truth")),
        ("Ans", _overall(methods, "ans", better=0)),
    ]
    notes = explained("acc", "truth", "ans", "rely")
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def error_table(methods: _Methods) -> Table:
    """Make the table of errors by type."""
    columns = [
        (title, Cell.column([found.errors[name] for found in methods.values()], better=-1))
        for name, title in CONTENT["errors"].items()
    ]
    notes = (
        *TEXTS.terms("errors"),
        *explained("context_used_wrongly", "memory_used_wrongly", "needless_abstention"),
        *TEXTS.terms("other_errors"),
    )
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def ablation_table(summary: UniKnowSummary) -> Table:
    """Make the table of the variants of trained methods."""
    variants = {name: found for name, found in summary.methods.items() if name not in summary.main}
    bases = {name.partition("@")[0] for name in variants}
    shown = {name: found for name, found in summary.main.items() if name in bases} | variants
    columns = [("Rely", _overall(shown, "rely", decimal)), *_situations(shown, "{0.title}")]
    return Table.from_columns("Method", list(shown), columns)


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

    def rely(value: float) -> str:
        return decimal(value, 3, signed=True)

    lines = tuple(
        Line(
            f"{found.method} \N{MINUS SIGN} {found.base}",
            (
                Cell.difference(found.metrics["rely"], rely),
                *(Cell.difference(found.metrics[name]) for name in names),
            ),
        )
        for found in differences
    )
    notes = (*TEXTS.terms("differences"), *explained("clear"))
    return Table("Compared", headings, lines, notes=notes)


def published_table(methods: _Methods) -> Table:
    """Make the table of the published numbers, with those of this run beneath."""
    columns = (*(situation.name for situation in SITUATIONS), "all")
    headings = (*(situation.title for situation in SITUATIONS), "Mean of the four", "Rely")

    def here(interval: Interval | None, text: Callable[[float], str]) -> str:
        return "" if interval is None or interval.value is None else f"here {text(interval.value)}"

    lines = []
    for name, published in CONTENT["published"]["methods"].items():
        own = methods.get(name)
        cells = [
            Cell(
                percent(published["em"][column]),
                here(own.scenarios[column]["em"] if own else None, percent),
            )
            for column in columns
        ]
        rely = Cell(
            decimal(published.get("rely_nq")), here(own.overall["rely"] if own else None, decimal)
        )
        lines.append(Line(name, (*cells, rely)))
    return Table("Method", headings, tuple(lines))


def _situations(methods: _Methods, heading: str) -> list[tuple[str, list[Cell]]]:
    return [(heading.format(one), _em(methods, one.name)) for one in SITUATIONS]


def _em(methods: _Methods, scenario: str, *, better: int = 1) -> list[Cell]:
    found = [one.scenarios[scenario]["em"] for one in methods.values()]
    return Cell.column(found, better=better)


def _overall(
    methods: _Methods, name: str, text: Callable[[float], str] = percent, *, better: int = 1
) -> list[Cell]:
    return Cell.column([one.overall[name] for one in methods.values()], text, better=better)
