"""Differences between two methods on the cases that both answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...calibration import Interval
from ._counts import MethodRow, case_key, measured, question_keys
from ._metrics import headline_shares
from ._resampling import QuestionResamples, difference_interval


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How far one method lies above another.

    Attributes:
        method: whose number stands first.
        base: whose number is taken from it.
        cases: that both measured; the others are left out.
        metrics: by name (`acc`, `truth`, `ans`, `rely`, `em_all`, `em_<scenario>`) the
            difference with its interval.
    """

    method: str
    base: str
    cases: int
    metrics: dict[str, Interval]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        found = {name: interval.to_dict() for name, interval in self.metrics.items()}
        return {"cases": self.cases, **found}


def paired_difference(
    rows: Sequence[MethodRow], method: str, base: str, *, bootstrap: int = 1000, seed: int = 0
) -> PairedDifference:
    """The difference method − base, with bootstrap intervals over questions.

    Both see the same draws: what makes a question hard for both cancels out.

    Args:
        rows: of a run; rows of other methods and with errors are left out.
        method: see `PairedDifference`.
        base: likewise.
        bootstrap: draws over questions.
        seed: of the draws.
    """
    usable = measured(rows)
    first = {case_key(row): row for row in usable if row["method"] == method}
    second = {case_key(row): row for row in usable if row["method"] == base}
    shared = sorted(first.keys() & second.keys())
    ours, theirs = [first[key] for key in shared], [second[key] for key in shared]
    resamples = QuestionResamples(question_keys(ours), resamples=bootstrap, seed=seed)
    above, below = headline_shares(ours, resamples), headline_shares(theirs, resamples)
    return PairedDifference(
        method=method,
        base=base,
        cases=len(shared),
        metrics={
            name: difference_interval(value - below[name][0][0], draws - below[name][0][1], n)
            for name, ((value, draws), n) in above.items()
        },
    )
