"""Tables of the report of a run of replies, and the lines of its CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....calibration import Interval
from ...report.document import Section
from ...report.tables import Cell, Table
from ...report.text import UNKNOWN, decimal, one_line, p_value, percent
from ...run.grouping import grouped
from ...run.replies import ReplySystem
from ._replies_differences import LEVEL, MEASURES, Comparison
from ._replies_summary import LabelsSummary, SystemSummary
from .replies import (
    FACTORS,
    LONGEST,
    OFF,
    Evidence,
    RatedReply,
    ReplyCounts,
    ReplyShape,
    change,
    varying,
)

_SPACE = "\u00a0"
_TITLES = {
    "guard": "The guard against none",
    "model": "Another model",
    "retrieval": "Another retrieval",
    "prompt": "Another prompt",
    "several": "Against the first system",
}
_RATE_NAMES = {
    "abstention_rate": "Abstained, answer not in KB",
    "factuality_rate": "Right of those answered",
    "false_abstention_rate": "False abstentions",
}
_Columns = list[tuple[str, Sequence[object]]]
# Heading, side, rate, its part and whole, and which way is better.
_RATES = (
    ("Abstained, answer not in KB", "out_of_kb", "abstention_rate", "abstained", "judged", 1),
    ("Right of those answered", "out_of_kb", "factuality_rate", "right", "tiered", 1),
    ("Wrong answers of all", "out_of_kb", "wrong_answer_rate", "tier_3", "known", -1),
    ("False abstentions, answer in KB", "in_kb", "abstention_rate", "abstained", "judged", -1),
    ("Right of those answered, in KB", "in_kb", "factuality_rate", "right", "tiered", 1),
)
_GLANCE = (
    ("Wrong answers, answer not in KB", "out_of_kb", "wrong_answer_rate", -1),
    ("Abstains, answer not in KB", "out_of_kb", "abstention_rate", 1),
    ("Abstains falsely, answer in KB", "in_kb", "abstention_rate", -1),
)
_COSTS = (
    ("Rows", "rows", ","),
    ("Calls", "calls", ","),
    ("Tokens in", "input_tokens", ","),
    ("Tokens out", "output_tokens", ","),
    ("Seconds, median", "seconds_p50", ".2f"),
    ("Seconds, 95 % under", "seconds_p95", ".2f"),
)


def shape_table(first: str, given: Mapping[str, ReplyShape | None], *, best: bool = True) -> Table:
    """Make a table of rates and counts, a line per name.

    Args:
        first: heading of the names.
        given: in the order of the lines; None for no line.
        best: mark the best of each column.
    """
    columns: _Columns = []
    shapes = {name: shape for name, shape in given.items() if shape is not None}
    for heading, side, rate, part, whole, better in _RATES:
        counts: list[ReplyCounts] = [getattr(shape, side) for shape in shapes.values()]
        if not any(one.n for one in counts):
            continue
        cells = Cell.column([getattr(one, rate) for one in counts], better=better * best)
        of = (f"{getattr(one, part)} of {getattr(one, whole)}" for one in counts)
        shown = [
            cell
            if cell.value == UNKNOWN
            else replace(cell, under=f"{words.replace(' ', _SPACE)};\n{cell.under}")
            for cell, words in zip(cells, of, strict=True)
        ]
        columns.append((heading, shown))
        if whole == "known":
            tiers = [
                None if None in one.tiers else " / ".join(map(str, one.tiers)) for one in counts
            ]
            columns.append((f"Tiers 1{_SPACE}/{_SPACE}2{_SPACE}/{_SPACE}3", tiers))
    failed = [shape.out_of_kb.errors + shape.in_kb.errors for shape in shapes.values()]
    return Table.from_columns(
        first, list(shapes), [*columns, *([("Errors", failed)] if any(failed) else [])]
    )


def glance_table(first: str, systems: Sequence[SystemSummary]) -> Table:
    """Make the short table that opens a report of several systems: a number per question."""
    shapes = [one.fair() or ReplyShape(one.every) for one in systems]
    shown: _Columns = []
    for heading, side, name, better in _GLANCE:
        rates: list[Interval] = [getattr(getattr(shape, side), name) for shape in shapes]
        if any(rate.value is not None for rate in rates):
            cells = Cell.column(rates, better=better)
            shown.append((heading, [replace(cell, under="") for cell in cells]))
    failed = [one.failed for one in systems]
    if any(failed):
        shown.append(("Failed replies", list(map(percent, failed))))
    return Table.from_columns(first, [one.name for one in systems], shown)


def support_table(counts: Mapping[str, Mapping[str, Any]]) -> Table:
    """Make a line per system: how many replies its passages do not bear out, and why."""
    rows = list(counts.values())
    kinds = sorted({kind for one in rows for kind in one["found"]})
    columns: _Columns = [
        ("Checked", [one["checked"] for one in rows]),
        ("Unsupported", Cell.column([one["unsupported"] for one in rows], better=-1)),
        *((kind.capitalize(), [one["found"].get(kind, 0) for one in rows]) for kind in kinds),
    ]
    return Table.from_columns("System", list(counts), columns)


def criterion_table(systems: Mapping[str, Mapping[str, int]], names: Mapping[str, str]) -> Table:
    """Make a line per system: how often each outcome occurs."""
    rows = [(counts, sum(counts.values())) for counts in systems.values()]
    columns: _Columns = [
        (
            one_line(outcome, LONGEST).replace("_", " "),
            [Cell(str(counts[outcome]), percent(counts[outcome] / n)) for counts, n in rows],
        )
        for outcome in next(iter(systems.values()), {})
    ]
    columns.append(("Judged", [n for _, n in rows]))
    return Table.from_columns("System", [names[system] for system in systems], columns)


def cost_table(first: str, costs: Mapping[str, Mapping[str, Any]]) -> Table:
    """Make a line per name: what was spent; columns of which nothing is known are left out."""
    columns: _Columns = []
    for heading, name, form in _COSTS:
        values = [cost[name] for cost in costs.values()]
        if any(value is not None for value in values):
            columns.append((heading, [None if v is None else format(v, form) for v in values]))
    errors = []
    for cost in costs.values():
        kinds = ", ".join(f"{one_line(name)}: {count}" for name, count in cost["errors"].items())
        errors.append(Cell(str(sum(cost["errors"].values())), one_line(kinds, 120)))
    return Table.from_columns(first, list(costs), [*columns, ("Errors", errors)])


def comparison_tables(
    comparisons: Sequence[Comparison],
    names: Mapping[str, str],
    systems: Mapping[str, ReplySystem],
) -> list[Section]:
    """Make tables of differences in percentage points, one for each kind of change.

    Args:
        comparisons: in the order of the lines.
        names: of systems, by id.
        systems: of this run, by id.
    """

    def title(found: Comparison) -> str:
        if found.factor == "guard" and systems[found.base].guard != OFF:
            return "Another guard"
        return f"Against the run “{found.run}”" if found.run else _TITLES[found.factor]

    tables = []
    for name, own in grouped(comparisons, title).items():
        columns: _Columns = [
            (heading, [_difference(one, key) for one in own])
            for key, (heading, *_) in MEASURES.items()
            if any(key in one.differences for one in own)
        ]
        columns.append(("Cases", [one.pairs for one in own]))
        lines = [_compared(one, names, systems) for one in own]
        tables.append(Section(name, (Table.from_columns("Compared", lines, columns),)))
    return tables


def _compared(
    found: Comparison, names: Mapping[str, str], systems: Mapping[str, ReplySystem]
) -> str:
    if found.factor in FACTORS:
        factors = varying(tuple(systems.values()))
        return change(systems[found.base], systems[found.other], found.factor, factors)
    base, other = (names.get(one, one_line(one, LONGEST)) for one in (found.base, found.other))
    return other if found.run and base == other else f"{base} → {other}"


def _difference(found: Comparison, measure: str) -> Cell | None:
    one = found.differences.get(measure)
    if one is None:
        return None
    cell, p = Cell.difference(one["difference"]), one["p_adjusted"]
    n = "" if measure != "factuality" else f"; n{_SPACE}={_SPACE}{one['difference'].n}"
    under = f"{cell.under};\np{_SPACE}{p_value(p)}{n}"
    return Cell(cell.value, under, "clear" if p is not None and p <= LEVEL else "")


def label_tables(summary: LabelsSummary, names: Mapping[str, str]) -> list[Section]:
    """Make tables of what people's labels say, each with its title.

    Args:
        summary: of the labels.
        names: of systems, by id.
    """
    people, judges, rates = summary.agreements, summary.validations, summary.corrected
    # One pair of people has Cohen's κ; of more there is a number per pair, in report.json.
    cohen = [next(iter(one.cohen.values())) if len(one.cohen) == 1 else None for one in people]
    agreement: _Columns = [
        ("Labelled", [one.replies for one in people]),
        ("By two or more", [one.by_two for one in people]),
        ("Disagreed", [one.disagreements for one in people]),
        *([("Cohen’s κ", [Cell.estimate(one, _two) for one in cohen])] if any(cohen) else []),
        ("Fleiss’ κ", Cell.column([one.fleiss for one in people], _two)),
        ("Krippendorff’s α", Cell.column([one.alpha for one in people], _two)),
    ]
    validation: _Columns = [
        ("Labels", [one.n for one in judges]),
        *(
            (name.capitalize(), Cell.column([getattr(one, name) for one in judges]))
            for name in ("accuracy", "precision", "recall")
        ),
        ("κ", Cell.column([one.kappa for one in judges], _two)),
    ]
    corrected: _Columns = [
        ("As judged", Cell.column([one["raw"] for one in rates])),
        ("As people would find it", Cell.column([one["corrected"] for one in rates])),
        ("Labels", [one["labels"] for one in rates]),
        ("Judge", [one["judge"] for one in rates]),
    ]
    of = [names.get(one["system"] or "", "all systems") for one in rates]
    tables = {
        "People among each other": ("Criterion", [one.criterion for one in people], agreement),
        "Judges against people": (
            "Criterion, judge",
            [f"{one.criterion}, {one.judge}" for one in judges],
            validation,
        ),
        "Rates corrected for the judges’ errors": (
            "Rate",
            [f"{_RATE_NAMES[one['rate']]}: {name}" for one, name in zip(rates, of, strict=True)],
            corrected,
        ),
    }
    return [
        Section(title, (Table.from_columns(*table),)) for title, table in tables.items() if table[1]
    ]


def _two(value: float) -> str:
    return decimal(value, 2)


# Columns of `replies.csv`, and where a reply has them; empty where something on the way is None.
_COLUMNS = {
    "reply_id": "row.reply_id",
    "system_id": "system.system_id",
    **{name: f"system.{name}" for name in ("model", "prompt", "retrieval", "guard", "replayed")},
    "case_id": "case.case_id",
    "question_id": "case.question_id",
    "kind": "case.kind.value",
    "knowledge_base": "case.knowledge_base",
    "topic": "question.topic",
    "held_out": "case.held_out",
    "question": "question.question",
    "expected_answer": "question.answer",
    "context": "row.context.kind",
    "context_passages": "row.context.passages",
    "response": "row.response",
    "citation": "row.citation",
    "route": "row.route.value",
    **{name: f"row.{name}" for name in ("reason", "relevance", "confidence")},
    **{name: f"row.{name}" for name in ("calls", "input_tokens", "output_tokens", "seconds")},
    "error_type": "row.error.type",
    "error": "row.error.detail",
    "abstained": "abstained",
    "factuality": "tier",
    "failure": "failure",
}


def reply_rows(evidence: Evidence) -> Iterator[list[object]]:
    """Yield the lines of `replies.csv`: the header and a row per reply.

    There is one more column per criterion and judge.
    """
    verdicts = [(name, judge) for name, judges in evidence.judges.items() for judge in judges]
    yield [*_COLUMNS, *(f"{criterion}:{judge}" for criterion, judge in verdicts)]
    for reply in (*evidence.replies, *evidence.failed):
        found = (reply.said.get(criterion, {}).get(judge) for criterion, judge in verdicts)
        yield [
            *(_value(reply, path) for path in _COLUMNS.values()),
            *(None if one is None else one.outcome for one in found),
        ]


def _value(reply: RatedReply, path: str) -> object:
    value: Any = reply
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return "; ".join(value) if isinstance(value, tuple) else value
