"""Measure and export what annotators labelled."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from ....calibration import Interval
from ....guard.errors import InputError
from ....guard.files import atomic_writer
from ...run import RepliesRun
from .._chance_agreement import cohens_kappa, fleiss_kappa, krippendorff_alpha
from ._labels import Labels


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement on one criterion. No number is weighted: it is of the labelled replies.

    Attributes:
        criterion: its name.
        annotators: all who labelled by it.
        replies: labelled by at least one.
        by_two: labelled by at least two.
        by_all: labelled by all annotators.
        disagreements: replies with different outcomes.
        cohen: kappa per pair of annotators, over the replies that both labelled.
        fleiss: kappa over the replies that all annotators labelled, which it needs.
        alpha: nominal, over all replies with two labels or more.
        ordinal_alpha: for outcomes in order; None for others.
    """

    criterion: str
    annotators: tuple[str, ...]
    replies: int
    by_two: int
    by_all: int
    disagreements: int
    cohen: Mapping[tuple[str, str], Interval]
    fleiss: Interval
    alpha: Interval
    ordinal_alpha: Interval | None

    @classmethod
    def of(
        cls,
        labels: Labels,
        criterion: str,
        *,
        run: RepliesRun | None = None,
        resamples: int = 1000,
        seed: int = 0,
    ) -> Agreement:
        """Measure how far all annotators agree on one criterion, before any settling.

        Args:
            labels: of a run.
            criterion: name of one of theirs; nothing is known of one that nobody labelled by.
            run: of the labels: replies to one question are then drawn together, as they are
                likely to be alike, and each `n` counts questions. Otherwise replies are taken
                for independent.
            resamples: draws for each interval.
            seed: of the draws.
        """
        draws: dict[str, int] = {"resamples": resamples, "seed": seed}
        votes = labels.votes(criterion)
        who = tuple(
            name for name in labels.annotators if any(name in vote for vote in votes.values())
        )
        table = [[vote.get(name) for name in who] for vote in votes.values()]
        groups = None if run is None else [_question(run, reply) for reply in votes]
        complete = [place for place, row in enumerate(table) if None not in row]
        order = next(
            (c.outcomes for c in labels.criteria if c.name == criterion and c.ordinal), None
        )
        return cls(
            criterion=criterion,
            annotators=who,
            replies=len(table),
            by_two=sum(len(vote) > 1 for vote in votes.values()),
            by_all=len(complete),
            disagreements=len(labels.disagreements(criterion)),
            cohen={
                (who[a], who[b]): cohens_kappa(
                    [row[a] for row in table], [row[b] for row in table], groups=groups, **draws
                )
                for a, b in combinations(range(len(who)), 2)
            },
            fleiss=fleiss_kappa(
                [table[place] for place in complete],
                groups=None if groups is None else [groups[place] for place in complete],
                **draws,
            ),
            alpha=krippendorff_alpha(table, order=None, groups=groups, **draws),
            ordinal_alpha=(
                None
                if order is None
                else krippendorff_alpha(table, order=order, groups=groups, **draws)
            ),
        )


def _question(run: RepliesRun, reply_id: str) -> str:
    # A label of a reply that the run has not stands by itself.
    reply = run.replies.get(reply_id)
    return reply_id if reply is None else run.case_of(reply).question_id


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
            hint="end the name in .csv or .jsonl",
        )
    found = Labels.read(run.folder) if labels is None else labels
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
