"""Tables of the report of a run of replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....calibration import Interval
from ...report import Cell, Line, Table, one_line, percent
from ...run import ReplySystem
from ._replies_costs import Cost
from ._replies_differences import MEASURES, Comparison
from ._replies_evidence import CriterionCounts, Evidence, ReplyCounts, ReplyShape
from ._replies_names import FACTORS, OFF, SEPARATOR, change, distinct, varying
from ._replies_prose import judge_words, p_words
from ._replies_summary import SystemSummary
from ._replies_topics import Topic

_LONGEST = 60
_SPACE = "\u00a0"
_UNKNOWN = "–"


def shape_table(first: str, shapes: Mapping[str, ReplyShape], *, best: bool = True) -> Table:
    """Make a table of rates and counts, a line per name.

    Args:
        first: heading of the names.
        shapes: in the order of the lines.
        best: mark the best of each column.
    """
    out = [shape.out_of_kb for shape in shapes.values()]
    in_kb = [shape.in_kb for shape in shapes.values()]
    mark = 1 if best else 0
    columns: list[tuple[str, Sequence[Cell]]] = []
    if any(found.n for found in out):
        columns += [
            ("Abstained, answer not in KB", _abstention(out, mark)),
            ("Right of those answered", _factuality(out, mark)),
            ("Wrong answers of all", _wrong(out, -mark)),
            ("Tiers 1\u00a0/\u00a02\u00a0/\u00a03", [Cell(_tiers(found)) for found in out]),
        ]
    if any(found.n for found in in_kb):
        columns += [
            ("False abstentions, answer in KB", _abstention(in_kb, -mark)),
            ("Right of those answered, in KB", _factuality(in_kb, mark)),
        ]
    if any(found.errors for found in (*out, *in_kb)):
        failed = [a.errors + b.errors for a, b in zip(out, in_kb, strict=True)]
        columns.append(("Errors", [Cell(str(count)) for count in failed]))
    return Table.from_columns(first, list(shapes), columns)


def glance_table(first: str, systems: Mapping[str, SystemSummary]) -> Table:
    """Make the short table that opens a report of several systems: a number per question.

    Args:
        first: heading of the names.
        systems: by name, in the order of the lines.
    """
    shapes = [one.fair(None) or one.shape for one in systems.values()]
    out, in_kb = [shape.out_of_kb for shape in shapes], [shape.in_kb for shape in shapes]
    columns = [
        ("Wrong answers, answer not in KB", [found.wrong_answer_rate for found in out], -1),
        ("Abstains, answer not in KB", [found.abstention_rate for found in out], 1),
        ("Abstains falsely, answer in KB", [found.abstention_rate for found in in_kb], -1),
    ]
    shown: list[tuple[str, Sequence[Cell]]] = [
        (heading, [replace(cell, under="") for cell in Cell.column(rates, better=better)])
        for heading, rates, better in columns
        if any(rate.value is not None for rate in rates)
    ]
    failed = [one.failed for one in systems.values()]
    if any(failed):
        shown.append(("Failed replies", [Cell(percent(share)) for share in failed]))
    return Table.from_columns(first, list(systems), shown)


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
    titles = {
        "guard": "The guard against none",
        "model": "Another model",
        "retrieval": "Another retrieval",
        "prompt": "Another prompt",
        "several": "Against the first system",
    }
    grouped: dict[str, list[Comparison]] = {}
    for found in comparisons:
        title = f"Against the run “{found.run}”" if found.run else titles[found.factor]
        if found.factor == "guard" and systems[found.base].guard != OFF:
            title = "Another guard"
        grouped.setdefault(title, []).append(found)
    return [(title, _comparisons(own, names, systems)) for title, own in grouped.items()]


def topic_table(topics: Sequence[Topic]) -> Table:
    """Make a line per topic, the systems that are counted together."""
    shapes = {f"{topic.name} ({topic.questions})": topic.shape for topic in topics}
    return shape_table("Topic (questions)", shapes, best=False)


def judge_table(shapes: Mapping[str, ReplyShape]) -> Table:
    """A line per judge, all systems together."""
    named = distinct(
        [name if judge_words(name) == name else f"{name}: {judge_words(name)}" for name in shapes]
    )
    return shape_table("Judge", dict(zip(named, shapes.values(), strict=True)), best=False)


def criterion_table(found: CriterionCounts, names: Mapping[str, str]) -> Table:
    """How often each outcome occurs, a line per system."""
    lines = []
    for system, counts in found.systems.items():
        total = sum(counts.values())
        cells = tuple(
            Cell(str(counts.get(outcome, 0)), percent(counts.get(outcome, 0) / total))
            for outcome in found.outcomes
        )
        lines.append(Line(names.get(system, one_line(system)), (*cells, Cell(str(total)))))
    columns = tuple(one_line(outcome, _LONGEST).replace("_", " ") for outcome in found.outcomes)
    return Table("System", (*columns, "Judged"), tuple(lines))


def cost_table(first: str, costs: Mapping[str, Cost]) -> Table:
    """What was spent, a line per name; columns of which nothing is known are left out."""
    columns: list[tuple[str, list[Cell]]] = [
        ("Rows", [Cell(f"{cost.rows:,}") for cost in costs.values()]),
        ("Calls", [_count(cost.calls) for cost in costs.values()]),
        ("Tokens in", [_count(cost.input_tokens) for cost in costs.values()]),
        ("Tokens out", [_count(cost.output_tokens) for cost in costs.values()]),
        ("Seconds, median", [_seconds(cost.seconds_p50) for cost in costs.values()]),
        ("Seconds, 95 % under", [_seconds(cost.seconds_p95) for cost in costs.values()]),
        ("Errors", [_errors(cost) for cost in costs.values()]),
    ]
    known = [column for column in columns if any(cell.value != _UNKNOWN for cell in column[1])]
    return Table.from_columns(first, list(costs), known)


def metered(costs: Mapping[str, Cost]) -> bool:
    """Whether anything is known of what was spent."""
    return any(
        known is not None
        for cost in costs.values()
        for known in (cost.calls, cost.input_tokens, cost.output_tokens, cost.seconds_p50)
    )


def heading_of(evidence: Evidence, factors: Sequence[str]) -> str:
    """Heading of a column of systems: the factors in their names."""
    known = [name for name in FACTORS if name in factors]
    return SEPARATOR.join(known).capitalize() if len(evidence.run.systems) > 1 else "System"


def _abstention(counts: Sequence[ReplyCounts], better: int) -> list[Cell]:
    parts = [(found.abstained, found.n - found.unjudged_abstention) for found in counts]
    return _with_counts([found.abstention_rate for found in counts], parts, better)


def _factuality(counts: Sequence[ReplyCounts], better: int) -> list[Cell]:
    parts = [
        (None if total is None else total - (found.tiers["tier_3"] or 0), total)
        for found in counts
        for total in (_tiered(found),)
    ]
    return _with_counts([found.factuality_rate for found in counts], parts, better)


def _wrong(counts: Sequence[ReplyCounts], better: int) -> list[Cell]:
    parts = [(found.tiers["tier_3"], found.n - found.unjudged_factuality) for found in counts]
    return _with_counts([found.wrong_answer_rate for found in counts], parts, better)


def _with_counts(
    rates: Sequence[Interval], parts: Sequence[tuple[int | None, int | None]], better: int
) -> list[Cell]:
    return [
        cell
        if cell.value == _UNKNOWN
        else Cell(cell.value, f"{part}{_SPACE}of{_SPACE}{whole};\n{cell.under}", cell.mark)
        for cell, (part, whole) in zip(Cell.column(rates, better=better), parts, strict=True)
    ]


def _tiered(found: ReplyCounts) -> int | None:
    known = [count for count in found.tiers.values() if count is not None]
    return sum(known) if known else None


def _tiers(found: ReplyCounts) -> str:
    if _tiered(found) is None:
        return _UNKNOWN
    return " / ".join(str(count) for count in found.tiers.values())


def _comparisons(
    comparisons: Sequence[Comparison],
    names: Mapping[str, str],
    systems: Mapping[str, ReplySystem],
) -> Table:
    shown = [
        measure
        for measure in MEASURES
        if any(measure.name in found.differences for found in comparisons)
    ]
    lines = []
    for found in comparisons:
        name = _compared(found, names, systems)
        lines.append(
            Line(
                name,
                (*(_difference(found, measure.name) for measure in shown), Cell(str(found.pairs))),
            )
        )
    return Table("Compared", (*(measure.title for measure in shown), "Cases"), tuple(lines))


def _compared(
    found: Comparison, names: Mapping[str, str], systems: Mapping[str, ReplySystem]
) -> str:
    told_apart = found.factor in FACTORS and (
        one_line(getattr(systems[found.base], found.factor), _LONGEST)
        != one_line(getattr(systems[found.other], found.factor), _LONGEST)
    )
    if told_apart:
        factors = varying(tuple(systems.values()))
        return change(systems[found.base], systems[found.other], found.factor, factors)
    base, other = (names.get(one, one_line(one, _LONGEST)) for one in (found.base, found.other))
    return other if found.run and base == other else f"{base} → {other}"


def _difference(found: Comparison, measure: str) -> Cell:
    one = found.differences.get(measure)
    if one is None:
        return Cell(_UNKNOWN)
    cell = Cell.difference(one.difference)
    n = "" if measure != "factuality" else f"; n{_SPACE}={_SPACE}{one.difference.n}"
    under = f"{cell.under};\np{_SPACE}{p_words(one.p_adjusted)}{n}"
    return Cell(cell.value, under, "clear" if one.shown else "")


def _count(value: int | None) -> Cell:
    return Cell(_UNKNOWN if value is None else f"{value:,}")


def _seconds(value: float | None) -> Cell:
    return Cell(_UNKNOWN if value is None else f"{value:.2f}")


def _errors(cost: Cost) -> Cell:
    kinds = ", ".join(f"{one_line(name)}: {count}" for name, count in cost.errors.items())
    return Cell(str(sum(cost.errors.values())), one_line(kinds, 120))
