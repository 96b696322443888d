"""Tables of the report of a run of replies, and the lines of its CSV file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....calibration import Interval
from ...report.tables import Cell, Table
from ...report.text import UNKNOWN, decimal, one_line, p_value, percent
from ...run.grouping import grouped
from ...run.replies import ReplySystem
from ._replies import (
    FACTORS,
    OFF,
    SEPARATOR,
    Evidence,
    JudgedReply,
    ReplyCounts,
    ReplyShape,
    change,
    distinct,
    varying,
)
from ._replies_differences import MEASURES, Comparison
from ._replies_labels import LabelsSummary
from ._replies_summary import Cost, SystemSummary, Topic
from ._replies_what_if import REPLIES_WORDS

_LONGEST = 60
_SPACE = "\u00a0"
_TIERS = "Tiers 1\u00a0/\u00a02\u00a0/\u00a03"
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
_Columns = list[tuple[str, Sequence[Cell]]]
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


def shape_table(first: str, shapes: Mapping[str, ReplyShape], *, best: bool = True) -> Table:
    """Make a table of rates and counts, a line per name.

    Args:
        first: heading of the names.
        shapes: in the order of the lines.
        best: mark the best of each column.
    """
    columns: _Columns = []
    for heading, side, rate, part, whole, better in _RATES:
        counts: list[ReplyCounts] = [getattr(shape, side) for shape in shapes.values()]
        if not any(one.n for one in counts):
            continue
        cells = Cell.column([getattr(one, rate) for one in counts], better=better * best)
        shown = []
        for one, cell in zip(counts, cells, strict=True):
            of = f"{getattr(one, part)}{_SPACE}of{_SPACE}{getattr(one, whole)};\n{cell.under}"
            shown.append(cell if cell.value == UNKNOWN else replace(cell, under=of))
        columns.append((heading, shown))
        if whole == "known":
            tiers = [
                None if None in one.tiers else " / ".join(map(str, one.tiers)) for one in counts
            ]
            columns.append((_TIERS, _cells(one or UNKNOWN for one in tiers)))
    failed = [shape.out_of_kb.errors + shape.in_kb.errors for shape in shapes.values()]
    if any(failed):
        columns.append(("Errors", _cells(failed)))
    return Table.from_columns(first, list(shapes), columns)


def _cells(values: Iterable[object]) -> list[Cell]:
    return [Cell(str(value)) for value in values]


def glance_table(first: str, systems: Mapping[str, SystemSummary]) -> Table:
    """Make the short table that opens a report of several systems: a number per question.

    Args:
        first: heading of the names.
        systems: by name, in the order of the lines.
    """
    shapes = [one.fair(None) or one.shape for one in systems.values()]
    shown: _Columns = []
    for heading, side, name, better in _GLANCE:
        rates = [getattr(getattr(shape, side), name) for shape in shapes]
        if any(rate.value is not None for rate in rates):
            cells = Cell.column(rates, better=better)
            shown.append((heading, [replace(cell, under="") for cell in cells]))
    failed = [one.failed for one in systems.values()]
    if any(failed):
        shown.append(("Failed replies", _cells(map(percent, failed))))
    return Table.from_columns(first, list(systems), shown)


def topic_table(topics: Sequence[Topic]) -> Table:
    """Make a line per topic, the systems that are counted together."""
    shapes = {f"{one.topic} ({one.questions})": one.replies for one in topics}
    return shape_table("Topic (questions)", shapes, best=False)


def judge_table(shapes: Mapping[str, ReplyShape]) -> Table:
    """Make a line per judge, all systems together."""
    words = {name: REPLIES_WORDS.text("judge", name) for name in shapes}
    named = distinct([name if name == said else f"{name}: {said}" for name, said in words.items()])
    return shape_table("Judge", dict(zip(named, shapes.values(), strict=True)), best=False)


def criterion_table(systems: Mapping[str, Mapping[str, int]], names: Mapping[str, str]) -> Table:
    """Make a line per system: how often each outcome occurs."""
    columns: _Columns = []
    totals = [sum(counts.values()) for counts in systems.values()]
    for outcome in next(iter(systems.values()), {}):
        counts = [one[outcome] for one in systems.values()]
        shares = [percent(count / total) for count, total in zip(counts, totals, strict=True)]
        cells = [Cell(str(count), share) for count, share in zip(counts, shares, strict=True)]
        columns.append((one_line(outcome, _LONGEST).replace("_", " "), cells))
    columns.append(("Judged", _cells(totals)))
    lines = [names.get(system, one_line(system)) for system in systems]
    return Table.from_columns("System", lines, columns)


def cost_table(first: str, costs: Mapping[str, Cost]) -> Table:
    """Make a line per name: what was spent; columns of which nothing is known are left out."""
    columns: _Columns = []
    for heading, name, form in _COSTS:
        values = [getattr(cost, name) for cost in costs.values()]
        if any(value is not None for value in values):
            texts = [UNKNOWN if one is None else format(one, form) for one in values]
            columns.append((heading, _cells(texts)))
    errors = []
    for cost in costs.values():
        kinds = ", ".join(f"{one_line(name)}: {count}" for name, count in cost.errors.items())
        errors.append(Cell(str(sum(cost.errors.values())), one_line(kinds, 120)))
    return Table.from_columns(first, list(costs), [*columns, ("Errors", errors)])


def heading_of(factors: Sequence[str]) -> str:
    """Head a column of systems by the factors in their names."""
    return SEPARATOR.join(name for name in FACTORS if name in factors).capitalize()


def comparison_tables(
    comparisons: Sequence[Comparison],
    names: Mapping[str, str],
    systems: Mapping[str, ReplySystem],
) -> list[tuple[str, Table]]:
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
            (measure.title, [_difference(one, key) for one in own])
            for key, measure in MEASURES.items()
            if any(key in one.differences for one in own)
        ]
        columns.append(("Cases", _cells(one.pairs for one in own)))
        lines = [_compared(one, names, systems) for one in own]
        tables.append((name, Table.from_columns("Compared", lines, columns)))
    return tables


def _compared(
    found: Comparison, names: Mapping[str, str], systems: Mapping[str, ReplySystem]
) -> str:
    if found.factor in FACTORS:
        factors = varying(tuple(systems.values()))
        changed = change(systems[found.base], systems[found.other], found.factor, factors)
        if changed:
            return changed
    base, other = (names.get(one, one_line(one, _LONGEST)) for one in (found.base, found.other))
    return other if found.run and base == other else f"{base} → {other}"


def _difference(found: Comparison, measure: str) -> Cell:
    one = found.differences.get(measure)
    if one is None:
        return Cell(UNKNOWN)
    cell = Cell.difference(one.difference)
    n = "" if measure != "factuality" else f"; n{_SPACE}={_SPACE}{one.difference.n}"
    under = f"{cell.under};\np{_SPACE}{p_value(one.p_adjusted)}{n}"
    return Cell(cell.value, under, "clear" if one.shown else "")


def label_tables(summary: LabelsSummary, names: Mapping[str, str]) -> list[tuple[str, Table]]:
    """Make tables of what people's labels say, each with its title.

    Args:
        summary: of the labels.
        names: of systems, by id.
    """
    people, judges, rates = summary.agreements, summary.validations, summary.corrected
    agreement: _Columns = [
        ("Labelled", _cells(one.replies for one in people)),
        ("By two or more", _cells(one.by_two for one in people)),
        ("Disagreed", _cells(one.disagreements for one in people)),
        ("Fleiss’ κ", Cell.column([one.fleiss for one in people], _two)),
        ("Krippendorff’s α", Cell.column([one.alpha for one in people], _two)),
    ]
    cohen = [next(iter(one.cohen.values())) if len(one.cohen) == 1 else None for one in people]
    if any(cohen):
        cells = Cell.column([one or Interval() for one in cohen], _two)
        agreement.insert(3, ("Cohen’s κ", cells))
    validation: _Columns = [
        ("Labels", _cells(one.n for one in judges)),
        *(
            (name.capitalize(), Cell.column([getattr(one, name) for one in judges]))
            for name in ("accuracy", "precision", "recall")
        ),
        ("κ", Cell.column([one.kappa for one in judges], _two)),
    ]
    corrected: _Columns = [
        ("As judged", Cell.column([one.raw for one in rates])),
        ("As people would find it", Cell.column([one.corrected for one in rates])),
        ("Labels", _cells(one.labels for one in rates)),
        ("Judge", _cells(one.judge for one in rates)),
    ]
    judged = [f"{one.criterion}, {one.judge}" for one in judges]
    named = [
        f"{_RATE_NAMES[one.rate]}: {names.get(one.system or '', one.system) or 'all systems'}"
        for one in rates
    ]
    tables = (
        ("People among each other", "Criterion", [one.criterion for one in people], agreement),
        ("Judges against people", "Criterion, judge", judged, validation),
        ("Rates corrected for the judges’ errors", "Rate", named, corrected),
    )
    return [
        (title, Table.from_columns(first, lines, columns))
        for title, first, lines, columns in tables
        if lines
    ]


def _two(value: float) -> str:
    return decimal(value, 2)


# Columns of `replies.csv`, and where a reply has them; empty where something on the way is None.
_COLUMNS = {
    "reply_id": "row.reply_id",
    "system_id": "system.system_id",
    "model": "system.model",
    "prompt": "system.prompt",
    "retrieval": "system.retrieval",
    "guard": "system.guard",
    "replayed": "system.replayed",
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
    "reason": "row.reason",
    "relevance": "row.relevance",
    "confidence": "row.confidence",
    "calls": "row.calls",
    "input_tokens": "row.input_tokens",
    "output_tokens": "row.output_tokens",
    "seconds": "row.seconds",
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
    for reply in evidence.every:
        outcomes = (evidence.said(reply, criterion).get(judge) for criterion, judge in verdicts)
        yield [
            *(_value(reply, path) for path in _COLUMNS.values()),
            *(None if found is None else found.outcome for found in outcomes),
        ]


def _value(reply: JudgedReply, path: str) -> object:
    value: Any = reply
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return "; ".join(value) if isinstance(value, tuple) else value
