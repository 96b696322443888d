"""Tables of the report of a run of replies, and the lines of its CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from ._replies_summary import Cost, CriterionCounts, SystemSummary, Topic
from ._replies_what_if import REPLIES_WORDS

_LONGEST = 60
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
        shown = [
            cell
            if cell.value == UNKNOWN
            else replace(
                cell,
                under=f"{getattr(one, part)}{_SPACE}of{_SPACE}{getattr(one, whole)};\n{cell.under}",
            )
            for cell, one in zip(cells, counts, strict=True)
        ]
        columns.append((heading, shown))
        if whole == "known":
            tiers = [Cell(_tiers(found)) for found in counts]
            columns.append(("Tiers 1\u00a0/\u00a02\u00a0/\u00a03", tiers))
    failed = [shape.out_of_kb.errors + shape.in_kb.errors for shape in shapes.values()]
    if any(failed):
        columns.append(("Errors", [Cell(str(count)) for count in failed]))
    return Table.from_columns(first, list(shapes), columns)


def _tiers(found: ReplyCounts) -> str:
    return UNKNOWN if None in found.tiers else " / ".join(map(str, found.tiers))


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
        shown.append(("Failed replies", [Cell(percent(share)) for share in failed]))
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


def criterion_table(found: CriterionCounts, names: Mapping[str, str]) -> Table:
    """Make a line per system: how often each outcome occurs."""
    totals = {system: sum(counts.values()) for system, counts in found.systems.items()}
    outcomes = next(iter(found.systems.values()), {})
    columns: _Columns = [
        (
            one_line(outcome, _LONGEST).replace("_", " "),
            [
                Cell(str(counts[outcome]), percent(counts[outcome] / totals[system]))
                for system, counts in found.systems.items()
            ],
        )
        for outcome in outcomes
    ]
    columns.append(("Judged", [Cell(str(total)) for total in totals.values()]))
    lines = [names.get(system, one_line(system)) for system in found.systems]
    return Table.from_columns("System", lines, columns)


def cost_table(first: str, costs: Mapping[str, Cost]) -> Table:
    """Make a line per name: what was spent; columns of which nothing is known are left out."""
    columns: _Columns = []
    for heading, name, form in _COSTS:
        values = [getattr(cost, name) for cost in costs.values()]
        if any(value is not None for value in values):
            cells = [Cell(UNKNOWN if one is None else format(one, form)) for one in values]
            columns.append((heading, cells))
    columns.append(("Errors", [_errors(cost) for cost in costs.values()]))
    return Table.from_columns(first, list(costs), columns)


def _errors(cost: Cost) -> Cell:
    kinds = ", ".join(f"{one_line(name)}: {count}" for name, count in cost.errors.items())
    return Cell(str(sum(cost.errors.values())), one_line(kinds, 120))


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

    by_title = grouped(comparisons, title)
    return [(name, _comparisons(own, names, systems)) for name, own in by_title.items()]


def _comparisons(
    comparisons: Sequence[Comparison],
    names: Mapping[str, str],
    systems: Mapping[str, ReplySystem],
) -> Table:
    shown = [name for name in MEASURES if any(name in one.differences for one in comparisons)]
    columns: _Columns = [
        (MEASURES[name].title, [_difference(one, name) for one in comparisons]) for name in shown
    ]
    columns.append(("Cases", [Cell(str(one.pairs)) for one in comparisons]))
    lines = [_compared(one, names, systems) for one in comparisons]
    return Table.from_columns("Compared", lines, columns)


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
    return [
        ("People among each other", _agreement_table(summary)),
        ("Judges against people", _validation_table(summary)),
        ("Rates corrected for the judges’ errors", _corrected_table(summary, names)),
    ]


def _agreement_table(summary: LabelsSummary) -> Table:
    found = summary.agreements
    columns: _Columns = [
        ("Labelled", [Cell(str(one.replies)) for one in found]),
        ("By two or more", [Cell(str(one.by_two)) for one in found]),
        ("Disagreed", [Cell(str(one.disagreements)) for one in found]),
        ("Fleiss’ κ", Cell.column([one.fleiss for one in found], _two)),
        ("Krippendorff’s α", Cell.column([one.alpha for one in found], _two)),
    ]
    if any(len(one.cohen) == 1 for one in found):
        cohen = [
            next(iter(one.cohen.values())) if len(one.cohen) == 1 else Interval() for one in found
        ]
        columns.insert(3, ("Cohen’s κ", Cell.column(cohen, _two)))
    return Table.from_columns("Criterion", [one.criterion for one in found], columns)


def _validation_table(summary: LabelsSummary) -> Table:
    found = summary.validations
    columns: _Columns = [("Labels", [Cell(str(one.n)) for one in found])]
    columns += [
        (name.capitalize(), Cell.column([getattr(one, name) for one in found]))
        for name in ("accuracy", "precision", "recall")
    ]
    columns.append(("κ", Cell.column([one.kappa for one in found], _two)))
    lines = [f"{one.criterion}, {one.judge}" for one in found]
    return Table.from_columns("Criterion, judge", lines, columns)


def _corrected_table(summary: LabelsSummary, names: Mapping[str, str]) -> Table:
    found = summary.corrected
    lines = [
        f"{_RATE_NAMES[one.rate]}: {names.get(one.system or '', one.system) or 'all systems'}"
        for one in found
    ]
    columns: _Columns = [
        ("As judged", Cell.column([one.raw for one in found])),
        ("As people would find it", Cell.column([one.corrected for one in found])),
        ("Labels", [Cell(str(one.labels)) for one in found]),
        ("Judge", [Cell(one.judge) for one in found]),
    ]
    return Table.from_columns("Rate", lines, columns)


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
