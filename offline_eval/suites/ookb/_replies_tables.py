"""Tables of the report of a run of replies, and the lines of its CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...judging.rated import Evidence, RatedReply
from ...report.document import Section
from ...report.tables import Cell, Table
from ...report.text import UNKNOWN, decimal, one_line
from ...run.replies import Judgement
from ._replies_summary import Counts

SPACE = "\u00a0"
Columns = list[tuple[str, Sequence[object]]]
_CORRECTED = {
    "abstention_rate": "Abstained, answer not in KB",
    "factuality_rate": "Right of those answered",
    "false_abstention_rate": "False abstentions",
}
# Heading, whether the knowledge base holds the answer, rate, and which way is better.
_RATES = (
    ("Abstained, answer not in KB", False, "abstention_rate", 1),
    ("Right of those answered", False, "factuality_rate", 1),
    ("Wrong answers of all", False, "wrong_answer_rate", -1),
    ("False abstentions, answer in KB", True, "false_abstention_rate", -1),
    ("Right of those answered, in KB", True, "factuality_rate", 1),
)
_COSTS = {
    "rows": ("Rows", ","),
    "calls": ("Calls", ","),
    "input_tokens": ("Tokens in", ","),
    "output_tokens": ("Tokens out", ","),
    "seconds_p50": ("Seconds, median", ".2f"),
    "seconds_p95": ("Seconds, 95 % under", ".2f"),
}


def counts_table(first: str, given: Mapping[str, Counts | None], *, best: bool = True) -> Table:
    """Make a table of rates and counts, a line per name.

    Args:
        first: heading of the names.
        given: in the order of the lines; None for no line.
        best: mark the best of each column.
    """
    columns: Columns = []
    lines = {name: counts for name, counts in given.items() if counts is not None}
    for heading, in_kb, rate, better in _RATES:
        counts = [one["in_kb"] if in_kb else one for one in lines.values()]
        if not any(one["n"] for one in counts):
            continue
        cells = Cell.column([one[rate] for one in counts], better=better * best)
        columns.append((heading, list(map(partial(_counted, rate), cells, counts))))
        if rate == "wrong_answer_rate":
            tiers = [[one[name] for name in Judgement.TIERS] for one in counts]
            shown = [None if None in of else " / ".join(map(str, of)) for of in tiers]
            columns.append((f"Tiers 1{SPACE}/{SPACE}2{SPACE}/{SPACE}3", shown))
    failed = [one["errors"] + one["in_kb"]["errors"] for one in lines.values()]
    if any(failed):
        columns.append(("Errors", failed))
    return Table.from_columns(first, list(lines), columns)


def _counted(rate: str, cell: Cell, counts: Counts) -> Cell:
    """Write beneath a rate, above its interval, of how many replies it is."""
    if cell.value == UNKNOWN:
        return cell
    tiers, unjudged = [counts[name] for name in Judgement.TIERS], counts["unjudged"]
    if rate == "factuality_rate":
        hits, n = sum(tiers[:2]), sum(tiers)
    elif rate == "wrong_answer_rate":
        hits, n = tiers[2], counts["n"] - unjudged[Judgement.FACTUALITY]
    else:
        hits, n = counts["abstained"], counts["n"] - unjudged[Judgement.ABSTENTION]
    return replace(cell, under=f"{hits}{SPACE}of{SPACE}{n};\n{cell.under}")


def label_tables(labels: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Section]:
    """Make tables of what people's labels say of each other and of judges, each with its title."""
    people, judges, rates = labels["agreement"], labels["judges"], labels["corrected"]
    of = list(people.values())
    # One pair of people has Cohen's κ; of more there is a number per pair, in report.json.
    cohen = [next(iter(one.cohen.values())) if len(one.cohen) == 1 else None for one in of]
    agreement: Columns = [
        ("Labelled", [one.replies for one in of]),
        ("By two or more", [one.by_two for one in of]),
        ("Disagreed", [one.disagreements for one in of]),
        *([("Cohen’s κ", [Cell.estimate(one, _two) for one in cohen])] if any(cohen) else ()),
        ("Fleiss’ κ", Cell.column([one.fleiss for one in of], _two)),
        ("Krippendorff’s α", Cell.column([one.alpha for one in of], _two)),
    ]
    against: Columns = [
        ("Labels", [one["n"] for one in judges]),
        *(
            (name.capitalize(), Cell.column([one[name] for one in judges]))
            for name in ("accuracy", "precision", "recall")
        ),
        ("κ", Cell.column([one["kappa"] for one in judges], _two)),
    ]
    corrected: Columns = [
        ("As judged", Cell.column([one["raw"] for one in rates])),
        ("As people would find it", Cell.column([one["corrected"] for one in rates])),
        ("Labels", [one["labels"] for one in rates]),
        ("Judge", [one["judge"] for one in rates]),
    ]
    of_judge = [f"{one['criterion']}, {one['judge']}" for one in judges]
    of_rate = [
        f"{_CORRECTED[one['rate']]}: {names.get(one['system'] or '', 'all systems')}"
        for one in rates
    ]
    for title, heading, lines, columns in (
        ("People among each other", "Criterion", list(people), agreement),
        ("Judges against people", "Criterion, judge", of_judge, against),
        ("Rates corrected for the judges’ errors", "Rate", of_rate, corrected),
    ):
        if lines:
            yield Section(title, (Table.from_columns(heading, lines, columns),))


_two = partial(decimal, digits=2)


def cost_table(first: str, costs: Mapping[str, Mapping[str, Any]]) -> Table:
    """Make a line per name: what was spent; columns of which nothing is known are left out."""
    columns: Columns = []
    for name, (heading, form) in _COSTS.items():
        values = [cost[name] for cost in costs.values()]
        if any(value is not None for value in values):
            columns.append((heading, [None if v is None else format(v, form) for v in values]))
    errors = []
    for cost in costs.values():
        kinds = ", ".join(f"{one_line(name)}: {count}" for name, count in cost["errors"].items())
        errors.append(Cell(str(sum(cost["errors"].values())), one_line(kinds, 120)))
    return Table.from_columns(first, list(costs), [*columns, ("Errors", errors)])


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
    for reply in evidence.every:
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
