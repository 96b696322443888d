"""Rates of the kinds of contexts beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....calibration import Interval, QuestionResamples
from ....guard.decision import Scenario
from ._cases import BEYOND_KINDS, ContextKind
from ._metrics import by_method, count_rows, measured, question_keys
from ._rows import UniKnowRow

_RIGHT, _ABSTAINED, _MISLED, _WRONG = range(4)


@dataclass(frozen=True, slots=True)
class BeyondRates:
    """Rates of one method on contexts of one kind; the first three exclude each other.

    Attributes:
        right: gave an answer that counts as right.
        abstained: abstained.
        misled: gave an answer that only an untrue passage gives.
        wanted: abstained in the scenario `unknown`, answered right in the others; without
            cases of undefined knowledge.
        questions: number of different ones.
        cases: number of them without an error.
    """

    right: Interval
    abstained: Interval
    misled: Interval
    wanted: Interval
    questions: int
    cases: int

    def to_dict(self) -> dict[str, Any]:
        """Return each as value, low, high and n."""
        names = ("right", "abstained", "misled", "wanted")
        found = {name: getattr(self, name).to_dict() for name in names}
        return {**found, "questions": self.questions, "cases": self.cases}


def beyond_rates(
    rows: Sequence[UniKnowRow], *, bootstrap: int = 1000, seed: int = 0
) -> dict[ContextKind, dict[str, BeyondRates]]:
    """Compute the rates by kind and method; kinds without rows are left out.

    Args:
        rows: of a run, in any order.
        bootstrap: number of draws over questions.
        seed: of the draws.
    """
    resamples = QuestionResamples(question_keys(rows), resamples=bootstrap, seed=seed)
    found: dict[ContextKind, dict[str, BeyondRates]] = {}
    for kind in BEYOND_KINDS:
        methods = by_method([row for row in rows if row.context_kind is kind])
        if methods:
            found[kind] = {
                method: _rates(measured(own), resamples) for method, own in methods.items()
            }
    return found


def _rates(rows: Sequence[UniKnowRow], resamples: QuestionResamples) -> BeyondRates:
    counts = count_rows(rows, resamples, _column, 4)
    sorted_rows = [row for row in rows if row.scenario is not None]
    wanted = count_rows(sorted_rows, resamples, lambda row: int(_as_wanted(row)), 2)
    return BeyondRates(
        right=QuestionResamples.share_interval(*counts.share(_RIGHT), counts.questions),
        abstained=QuestionResamples.share_interval(*counts.share(_ABSTAINED), counts.questions),
        misled=QuestionResamples.share_interval(*counts.share(_MISLED), counts.questions),
        wanted=QuestionResamples.share_interval(*wanted.share(1), wanted.questions),
        questions=counts.questions,
        cases=counts.cases,
    )


def _column(row: UniKnowRow) -> int:
    if row.abstained:
        return _ABSTAINED
    if row.right:
        return _RIGHT
    return _MISLED if row.misled else _WRONG


def _as_wanted(row: UniKnowRow) -> bool:
    if row.scenario == Scenario.UNKNOWN:
        return row.abstained
    return row.right
