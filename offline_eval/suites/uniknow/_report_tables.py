"""Tables of the report: every number with its interval, nothing left to compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....calibration import Interval
from ....guard.decision import Scenario
from ...report import (
    MINUS,
    NOTHING,
    Cell,
    Line,
    Table,
    cells_of,
    decimal,
    one_line,
    percent,
    shortened,
    signed,
)
from ._beyond import BeyondRates
from ._cases import ContextKind
from ._comparison import PUBLISHED_ROWS, PairedDifference, PublishedRow
from ._metrics import MethodMetrics, measured
from ._outcomes import ERROR_TYPES, Outcome, outcome_of
from ._report_names import KIND_TITLES, SITUATIONS, in_order, method_name, variant_of
from ._report_summary import Evidence, UniKnowSummary
from ._rows import CaseRow, UniKnowRow


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
            Line(one_line(name), tuple(column[position] for column in marked))
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
        return Line(row.method, (*cells, Cell(decimal(row.rely_nq), rely)))

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
                tuple(cells[position] for cells in marked),
                meaning=one_line(method_name(name).meaning),
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


SHOWN = 10
_QUESTION_LIMIT, _PASSAGE_LIMIT, _REPLY_LIMIT, _ANSWERS = 300, 700, 120, 4
OUTCOME_WORDS = {
    Outcome.RIGHT: "right",
    Outcome.RIGHT_ABSTENTION: "rightly declined",
    Outcome.FALSE_ABSTENTION: "declined without need",
    Outcome.CONTEXTUAL: "context used wrongly",
    Outcome.PARAMETRIC: "memory used wrongly",
    Outcome.OTHER: "wrong",
}
_TITLES = {
    **{situation.name: situation.title for situation in SITUATIONS},
    "agreement": "Both agree",
}


@dataclass(frozen=True, slots=True)
class ShownReply:
    """A reply, with the methods that gave it and what it was."""

    text: str
    outcome: str
    wrong: bool
    methods: str


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A case as it is shown.

    Attributes:
        case_id: as stored, method aside.
        question: shortened.
        situation: which scenario, in words.
        wanted: what would have been right.
        passages: of the context, shortened.
        replies: equal ones together, those of most methods first.
    """

    case_id: str
    question: str
    situation: str
    wanted: str
    passages: tuple[str, ...]
    replies: tuple[ShownReply, ...]


@dataclass(frozen=True, slots=True)
class WorstOfKind:
    """The worst cases with one kind of context.

    Attributes:
        title: of the kind.
        meaning: what it is.
        cases: how many of the kind some method got wrong.
        shown: the worst of them.
    """

    title: str
    meaning: str
    cases: int
    shown: tuple[ShownCase, ...]


def worst_cases(evidence: Evidence) -> list[WorstOfKind]:
    """Per kind of context the cases that most methods got wrong; ablations do not vote."""
    rows: dict[str, list[tuple[UniKnowRow, Outcome]]] = {}
    contexts = evidence.contexts()
    for row in measured(evidence.rows):
        key = row.case_key
        if variant_of(row.method) is None and key in evidence.cases:
            rows.setdefault(key, []).append((row, outcome_of(row, contexts[key])))
    found = []
    for kind in ContextKind:
        of_kind = {key: own for key, own in rows.items() if own[0][0].context_kind == kind}
        wrong = {key: count for key, own in of_kind.items() if (count := _wrong(own))}
        chosen = sorted(wrong, key=lambda key: (-wrong[key], key))[:SHOWN]
        if chosen:
            shown = tuple(_shown(key, evidence.cases[key], of_kind[key]) for key in chosen)
            found.append(WorstOfKind(*KIND_TITLES[kind], len(wrong), shown))
    return found


def _wrong(rows: Sequence[tuple[UniKnowRow, Outcome]]) -> int:
    return sum(outcome in ERROR_TYPES for _, outcome in rows)


def _shown(key: str, case: CaseRow, rows: Sequence[tuple[UniKnowRow, Outcome]]) -> ShownCase:
    scenario = rows[0][0].scenario
    grouped: dict[tuple[str, Outcome], list[str]] = {}
    for row, outcome in rows:
        text = shortened(row.answer or "", _REPLY_LIMIT)
        grouped.setdefault((text, outcome), []).append(row.method)
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    return ShownCase(
        case_id=one_line(key),
        question=shortened(case.question, _QUESTION_LIMIT),
        situation=_TITLES.get(scenario or "", "Not settled whether the model knows it"),
        wanted=_wanted(case, scenario),
        passages=tuple(shortened(passage, _PASSAGE_LIMIT) for passage in case.passages),
        replies=tuple(
            ShownReply(
                text or "(no answer)",
                OUTCOME_WORDS[outcome],
                outcome in ERROR_TYPES,
                ", ".join(one_line(name) for name in in_order(methods)),
            )
            for (text, outcome), methods in ordered
        ),
    )


def _wanted(case: CaseRow, scenario: str | None) -> str:
    if scenario == Scenario.UNKNOWN:
        return f"to decline (the answer would be: {_answers(case.answers)})"
    return _answers(case.context_answers or case.answers)


def _answers(answers: Sequence[str]) -> str:
    unique = list(dict.fromkeys(shortened(answer, _REPLY_LIMIT) for answer in answers))
    rest = f" (and {len(unique) - _ANSWERS} other wordings)" if len(unique) > _ANSWERS else ""
    return " / ".join(unique[:_ANSWERS]) + rest
