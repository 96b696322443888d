"""What the kinds of contexts beyond the paper led to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....calibration import Interval, QuestionResamples, share_interval
from ....guard.decision import Scenario
from ._cases import PAPER_KINDS, ContextKind
from ._metrics import MethodRow, count_rows, measured, question_keys

BEYOND_KINDS = tuple(kind for kind in ContextKind if kind not in PAPER_KINDS)

_RIGHT, _ABSTAINED, _MISLED, _WRONG = range(4)


@dataclass(frozen=True, slots=True)
class BeyondRates:
    """What a method did with the contexts of one kind; the first three exclude each other.

    Attributes:
        right: gave an answer that counts as right.
        abstained: declined.
        misled: gave an answer that only an untrue passage gives.
        wanted: did what was wanted: declined in the scenario `unknown`, answered right in
            the others; cases of undefined knowledge aside.
        questions: different ones.
        cases: measured, that is, without an error.
    """

    right: Interval
    abstained: Interval
    misled: Interval
    wanted: Interval
    questions: int
    cases: int

    def to_dict(self) -> dict[str, Any]:
        """Each as value, low, high and n."""
        names = ("right", "abstained", "misled", "wanted")
        found = {name: getattr(self, name).to_dict() for name in names}
        return {**found, "questions": self.questions, "cases": self.cases}


def beyond_rates(
    rows: Sequence[MethodRow], *, bootstrap: int = 1000, seed: int = 0
) -> dict[ContextKind, dict[str, BeyondRates]]:
    """Rates by kind and method; a kind that the rows do not hold is left out.

    Args:
        rows: of a run, as for `uniknow_metrics`.
        bootstrap: draws over questions.
        seed: of the draws.
    """
    resamples = QuestionResamples(question_keys(rows), resamples=bootstrap, seed=seed)
    found: dict[ContextKind, dict[str, BeyondRates]] = {}
    for kind in BEYOND_KINDS:
        by_method: dict[str, list[MethodRow]] = {}
        for row in rows:
            if row["context_kind"] == kind:
                by_method.setdefault(row["method"], []).append(row)
        if by_method:
            found[kind] = {
                method: _rates(measured(own), resamples) for method, own in by_method.items()
            }
    return found


def _rates(rows: Sequence[MethodRow], resamples: QuestionResamples) -> BeyondRates:
    counts = count_rows(rows, resamples, _column, 4)
    sorted_rows = [row for row in rows if row["scenario"] is not None]
    wanted = count_rows(sorted_rows, resamples, lambda row: int(_as_wanted(row)), 2)
    return BeyondRates(
        right=share_interval(*counts.share(_RIGHT), counts.questions),
        abstained=share_interval(*counts.share(_ABSTAINED), counts.questions),
        misled=share_interval(*counts.share(_MISLED), counts.questions),
        wanted=share_interval(*wanted.share(1), wanted.questions),
        questions=counts.questions,
        cases=counts.cases,
    )


def _column(row: Mapping[str, Any]) -> int:
    if row["abstained"]:
        return _ABSTAINED
    if row["right"]:
        return _RIGHT
    return _MISLED if row["misled"] else _WRONG


def _as_wanted(row: Mapping[str, Any]) -> bool:
    if row["scenario"] == Scenario.UNKNOWN:
        return bool(row["abstained"])
    return bool(row["right"])
