"""Labels for other programs: one row per labelled reply."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...guard import InputError
from ...guard.files import atomic_writer
from ..replies import RepliesRun
from ._labels import Labels, read_labels

# A spreadsheet would take what begins with these for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_labels(
    run: RepliesRun, path: str | os.PathLike[str], *, labels: Labels | None = None
) -> int:
    """Write every reply that is in the sample or has a label, as CSV or JSON lines.

    In CSV a text that a spreadsheet would take for a formula gets an apostrophe in front;
    JSON lines hold every text as it is.

    Args:
        run: whose labels they are.
        path: ends in .csv or .jsonl.
        labels: read from the run where None.

    Returns:
        How many replies were written.

    Raises:
        InputError: another suffix, or the file cannot be written.
    """
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".jsonl"):
        raise InputError(
            "is neither CSV nor JSON lines",
            where=f"--export {os.fspath(path)}",
            mend="end the name in .csv or .jsonl",
        )
    found = read_labels(run.folder) if labels is None else labels
    rows = list(_rows(run, found))
    with atomic_writer(path) as stream:
        if kind == ".jsonl":
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        else:
            columns = _columns(found)
            writer = csv.DictWriter(stream, columns, lineterminator="\r\n")
            writer.writeheader()
            writer.writerows({name: _cell(text) for name, text in _flat(row)} for row in rows)
    return len(rows)


def _rows(run: RepliesRun, labels: Labels) -> Iterator[dict[str, Any]]:
    votes = {criterion.name: labels.votes(criterion.name) for criterion in labels.criteria}
    settled = {name: labels.consensus(name) for name in votes}
    sample = () if labels.sample is None else labels.sample.replies
    chances = {reply.reply_id: reply.inclusion_probability for reply in sample}
    wanted = chances.keys() | {reply for vote in votes.values() for reply in vote}
    for reply_id, reply in run.replies.items():
        if reply_id not in wanted:
            continue
        question = run.question_of(reply)
        yield {
            "reply_id": reply_id,
            "question": question.question,
            "expected": question.answer,
            "response": reply.response,
            "inclusion_probability": chances.get(reply_id),
            "labels": {name: dict(vote.get(reply_id, {})) for name, vote in votes.items()},
            "consensus": {name: found.get(reply_id) for name, found in settled.items()},
            "notes": labels.notes(reply_id),
        }


def _columns(labels: Labels) -> list[str]:
    columns = ["reply_id", "question", "expected", "response", "inclusion_probability"]
    for criterion in labels.criteria:
        columns += [f"{criterion.name}: {name}" for name in labels.annotators]
        # An annotator may bear this name too, hence the brackets.
        columns.append(f"{criterion.name} (consensus)")
    return columns + [f"note: {name}" for name in labels.annotators]


def _flat(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if name == "labels":
            for criterion, given in value.items():
                yield from ((f"{criterion}: {who}", outcome) for who, outcome in given.items())
        elif name == "consensus":
            yield from (
                (f"{criterion} (consensus)", outcome) for criterion, outcome in value.items()
            )
        elif name == "notes":
            yield from ((f"note: {who}", note) for who, note in value.items())
        else:
            yield name, value


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # NUL ends a file for some readers of CSV.
    text = value.replace("\x00", "\ufffd")
    return f"'{text}" if text.startswith(_FORMULA) else text
