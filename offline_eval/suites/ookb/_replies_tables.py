"""Tables of the report of a run of replies, and the lines of its CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...judging.rated import Evidence, RatedReply
from ...report.tables import Cell, Table
from ...report.text import UNKNOWN
from ...run.replies import Judgement
from ._replies_summary import Counts

SPACE = "\u00a0"
Columns = list[tuple[str, Sequence[object]]]
# Heading, whether the knowledge base holds the answer, rate, and which way is better.
_RATES = (
    ("Abstained, answer not in KB", False, "abstention_rate", 1),
    ("Right of those answered", False, "factuality_rate", 1),
    ("Wrong answers of all", False, "wrong_answer_rate", -1),
    ("False abstentions, answer in KB", True, "false_abstention_rate", -1),
    ("Right of those answered, in KB", True, "factuality_rate", 1),
)


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
