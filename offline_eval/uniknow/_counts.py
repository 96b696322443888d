"""Rows of a run as counts per question: what all metrics are computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._resampling import Floats, QuestionResamples

# A row of `rows.jsonl`; see `MethodMetrics` for the fields that count here.
MethodRow = Mapping[str, Any]
QuestionKey = tuple[str, str]


def question_key(row: MethodRow) -> QuestionKey:
    """Data set and question: what is resampled."""
    return row["dataset"], row["question_id"]


def case_key(row: MethodRow) -> str:
    """Id of the case, method aside: the same for all methods."""
    return str(row["case_id"]).removeprefix(f"{row['method']}|")


def question_keys(rows: Sequence[MethodRow]) -> list[QuestionKey]:
    """The questions of all rows, in an order that does not depend on that of the rows."""
    return sorted({question_key(row) for row in rows})


def measured(rows: Sequence[MethodRow]) -> list[MethodRow]:
    """Rows without an error: a failed call is no answer."""
    return [row for row in rows if row.get("error") is None]


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of some columns: over all questions, and per bootstrap draw.

    Attributes:
        total: shape (columns,).
        draws: shape (resamples, columns).
        questions: that have a case at all.
        cases: all of them.
    """

    total: Floats
    draws: Floats
    questions: int
    cases: int

    def share(self, *columns: int) -> tuple[float, Floats]:
        """What the columns hold of all, NaN where there is nothing; and the same per draw."""
        wanted = list(columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = self.total[wanted].sum() / self.total.sum()
            drawn = self.draws[:, wanted].sum(axis=1) / self.draws.sum(axis=1)
        return float(value), drawn


def count_rows(
    rows: Sequence[MethodRow],
    resamples: QuestionResamples,
    column_of: Callable[[MethodRow], int],
    columns: int,
) -> Counts:
    """Counts of rows by column; every row falls in exactly one.

    Args:
        rows: without errors; their questions must be among those of `resamples`.
        resamples: draws over questions.
        column_of: the column of a row, below `columns`.
        columns: how many there are.
    """
    counts = np.zeros((resamples.count, columns))
    for row in rows:
        counts[resamples.position(question_key(row)), column_of(row)] += 1
    present = counts.sum(axis=1) > 0
    return Counts(
        total=counts.sum(axis=0),
        draws=resamples.totals(counts),
        questions=int(present.sum()),
        cases=len(rows),
    )
