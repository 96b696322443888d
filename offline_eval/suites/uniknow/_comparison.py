"""Differences between two methods, and the numbers that the paper published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ....calibration import Interval, QuestionResamples
from ._metrics import headline_shares, measured, question_keys
from ._rows import UniKnowRow


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A method's exact match averaged over the paper's seven data sets.

    Attributes:
        method: by its name in this suite.
        em: per scenario and `all`, in [0, 1]; `all` is the mean of the four.
        rely_nq: Rely on NaturalQuestions; None if not published.
    """

    method: str
    em: Mapping[str, float]
    rely_nq: float | None


@dataclass(frozen=True, slots=True)
class PublishedAblation:
    """Rely on TriviaQA of the full training, and with kinds of contexts left out of it."""

    without: tuple[str, ...]
    rely: float


PUBLISHED_MODEL = "Llama3-8B"

_COLUMNS = ("all", "conflict", "parametric_only", "external_only", "unknown")


def _row(method: str, *em: float, rely_nq: float | None = None) -> PublishedRow:
    return PublishedRow(
        method, MappingProxyType(dict(zip(_COLUMNS, em, strict=True))), rely_nq=rely_nq
    )


PUBLISHED_ROWS = (
    _row("naive", 0.543, 0.591, 0.852, 0.662, 0.067, rely_nq=0.444),
    _row("prompting", 0.573, 0.506, 0.730, 0.594, 0.461, rely_nq=0.635),
    _row("coiecd", 0.560, 0.725, 0.738, 0.708, 0.069),
    _row("coiecd_prompt", 0.588, 0.698, 0.605, 0.685, 0.364, rely_nq=0.632),
    _row("retrobust", 0.506, 0.363, 0.908, 0.613, 0.140),
    _row("kaft", 0.657, 0.856, 0.879, 0.766, 0.125, rely_nq=0.614),
    _row("lm_uniknow", 0.767, 0.878, 0.671, 0.774, 0.746, rely_nq=0.740),
)

PUBLISHED_ABLATION = (
    PublishedAblation((), 0.842),
    PublishedAblation(("conflicting",), 0.703),
    PublishedAblation(("retrieved",), 0.733),
    PublishedAblation(("conflicting", "retrieved"), 0.708),
)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How far one method is above another.

    Attributes:
        method: the first method.
        base: the method that is subtracted.
        cases: number of cases that both answered without an error.
        metrics: by name (`acc`, `truth`, `ans`, `rely`, `em_all`, `em_<scenario>`) the
            difference with its interval.
    """

    method: str
    base: str
    cases: int
    metrics: dict[str, Interval]

    def to_dict(self) -> dict[str, Any]:
        """Return the differences for JSON, without NaN."""
        found = {name: interval.to_dict() for name, interval in self.metrics.items()}
        return {"cases": self.cases, **found}


def paired_difference(
    rows: Sequence[UniKnowRow], method: str, base: str, *, bootstrap: int = 1000, seed: int = 0
) -> PairedDifference:
    """Compute the difference method − base, with bootstrap intervals over questions.

    Both use the same draws, so that the difficulty of a question cancels out.

    Args:
        rows: of a run; rows of other methods and rows with errors are ignored.
        method: see `PairedDifference`.
        base: likewise.
        bootstrap: number of draws over questions.
        seed: of the draws.
    """
    usable = measured(rows)
    first = {row.case_key: row for row in usable if row.method == method}
    second = {row.case_key: row for row in usable if row.method == base}
    shared = sorted(first.keys() & second.keys())
    ours, theirs = [first[key] for key in shared], [second[key] for key in shared]
    resamples = QuestionResamples(question_keys(ours), resamples=bootstrap, seed=seed)
    above, below = headline_shares(ours, resamples), headline_shares(theirs, resamples)
    return PairedDifference(
        method=method,
        base=base,
        cases=len(shared),
        metrics={
            name: QuestionResamples.difference_interval(
                value - below[name][0][0], draws - below[name][0][1], n
            )
            for name, ((value, draws), n) in above.items()
        },
    )
