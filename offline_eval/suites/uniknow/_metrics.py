"""The suite's metrics per method, each with a bootstrap interval over questions.

From the counts of right (Nc), wrong (Ni) and abstained (Na) cases, N their sum:

    Acc = Nc/N    Truth = (Nc+Na)/N    Ans = (Nc+Ni)/N    Rely = Ans·Truth + (1−Ans)·Acc
    EM  = Nc/N, in the scenario `unknown` Na/N; over all: the mean of the four scenarios

With x = Na/N, Rely is Acc + x(1−x): abstaining adds at most a quarter, and nothing for a
method that always abstains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....calibration import Interval
from ....calibration.statistics import QuestionResamples
from ....guard.decision import Scenario
from ....guard.matching import normalise_answer
from ...run.grouping import grouped
from ._cases import BEYOND_KINDS, PAPER_KINDS, ContextKind, Knowledge, QuestionKey, UniKnowRow
from ._matching import stands_in

_HOLDING_SCENARIOS = (Scenario.CONFLICT, Scenario.AGREEMENT, Scenario.EXTERNAL_ONLY)
_HOLDING_KINDS = (
    ContextKind.ORIGINAL,
    ContextKind.CONFLICTING,
    ContextKind.ONE_OF_K,
    ContextKind.TWO_IN_CONFLICT,
)


class Outcome(StrEnum):
    """The outcome of a case that did not fail; every case has exactly one.

    The four errors are the paper's classes, defined so that a program can tell them apart:

    - `RIGHT`: the answer that was wanted; by luck also in the scenario `unknown`, as Acc
      counts it.
    - `RIGHT_ABSTENTION`: abstained, and the context does not hold the answer and the model
      does not know it, or only sometimes does.
    - `FALSE_ABSTENTION`: abstained although the context holds the answer or the model
      knows it.
    - `CONTEXTUAL`: the context was used wrongly: a wrong answer although it held the
      right one, or a wrong answer that occurs in a context without the right one.
    - `PARAMETRIC`: memory was used wrongly: the gold answer although the context says
      another, or, with a context that holds no answer, a wrong answer that does not
      occur in it, to a question of which the model knows something.
    - `OTHER`: the rest: an invented answer that neither context nor memory holds, an empty
      reply, or an untrue answer that was believed.
    """

    RIGHT = "right"
    RIGHT_ABSTENTION = "right_abstention"
    FALSE_ABSTENTION = "false_abstention"
    CONTEXTUAL = "contextual"
    PARAMETRIC = "parametric"
    OTHER = "other"


ERROR_TYPES = (
    Outcome.CONTEXTUAL,
    Outcome.PARAMETRIC,
    Outcome.FALSE_ABSTENTION,
    Outcome.OTHER,
)


def outcome_of(row: UniKnowRow, context: str | None = None) -> Outcome:
    """Return the outcome of one case.

    Args:
        row: without an error.
        context: text of its context; without it, no wrong answer counts as taken from a
            context that does not hold the right one.
    """
    holds = context_holds_answer(row)
    if row.abstained:
        must_answer = holds or row.knowledge is Knowledge.KNOWN
        return Outcome.FALSE_ABSTENTION if must_answer else Outcome.RIGHT_ABSTENTION
    if row.right:
        return Outcome.RIGHT
    if row.misled or not normalise_answer(row.answer):
        return Outcome.OTHER
    if row.parametric:
        return Outcome.PARAMETRIC
    if holds or (context is not None and stands_in(row.answer, context)):
        return Outcome.CONTEXTUAL
    return Outcome.OTHER if row.knowledge is Knowledge.UNKNOWN else Outcome.PARAMETRIC


def context_holds_answer(row: UniKnowRow) -> bool:
    """Return whether the row's context states what counts as the right answer."""
    if row.scenario is None:
        return row.context_kind in _HOLDING_KINDS
    return row.scenario in _HOLDING_SCENARIOS


def question_keys(rows: Sequence[UniKnowRow]) -> list[QuestionKey]:
    """Return the questions of all rows, sorted, so that the order of the rows does not matter."""
    return sorted({row.question_key for row in rows})


def measured(rows: Sequence[UniKnowRow]) -> list[UniKnowRow]:
    """Return the rows without an error: a failed call is not an answer."""
    return [row for row in rows if row.error is None]


# A share as estimated, and per bootstrap draw; NaN without cases.
Sampled = tuple[float, NDArray[np.float64]]
_Holds = Mapping[str, Callable[[UniKnowRow], bool]]


class Shares:
    """Shares of some cases by name, each with its interval.

    Args:
        rows: without errors; their questions must be among those of `resamples`.
        resamples: draws over questions.
        holds: by name, whether a row counts.

    Attributes:
        sampled: the shares, as estimated and per draw.
        intervals: the same, with their intervals.
        questions: number of different ones.
        cases: number of rows.
    """

    def __init__(
        self, rows: Sequence[UniKnowRow], resamples: QuestionResamples, holds: _Holds
    ) -> None:
        counts = np.zeros((resamples.count, 1 + len(holds)))
        for row in rows:
            held = (one(row) for one in holds.values())
            counts[resamples.position(row.question_key)] += [1, *held]
        totals, draws = counts.sum(axis=0), resamples.totals(counts)
        self.sampled: dict[str, Sampled] = {}
        self.intervals: dict[str, Interval] = {}
        self.questions, self.cases = int(np.count_nonzero(counts[:, 0])), len(rows)
        with np.errstate(invalid="ignore", divide="ignore"):
            for column, name in enumerate(holds, start=1):
                share = float(totals[column] / totals[0])
                self.add(name, (share, draws[:, column] / draws[:, 0]))

    def add(self, name: str, sampled: Sampled) -> None:
        """Add a share that is computed from others."""
        self.sampled[name] = sampled
        self.intervals[name] = Interval.of_draws(*sampled, self.questions)

    def __getitem__(self, name: str) -> Interval:
        """The share of that name."""
        return self.intervals[name]

    def to_dict(self) -> dict[str, Any]:
        """Return each as value, low, high and n."""
        named = {name: share.to_dict() for name, share in self.intervals.items()}
        return {**named, "questions": self.questions, "cases": self.cases}


SCORED_SCENARIOS = (
    Scenario.CONFLICT,
    Scenario.EXTERNAL_ONLY,
    Scenario.PARAMETRIC_ONLY,
    Scenario.UNKNOWN,
)
ALL = "all"


def _abstained(row: UniKnowRow) -> bool:
    return row.abstained


def _right(row: UniKnowRow) -> bool:
    return row.right and not row.abstained


_PARTS: _Holds = {
    "acc": _right,
    "truth": lambda row: row.right or row.abstained,
    "ans": lambda row: not row.abstained,
}


def _shares(
    rows: Sequence[UniKnowRow], resamples: QuestionResamples, exact: _Holds | None = None
) -> Shares:
    """Return EM, where it is defined for all rows, Acc, Truth, Ans and Rely."""
    found = Shares(rows, resamples, {**(exact or {}), **_PARTS})
    parts = zip(*(found.sampled[name] for name in _PARTS), strict=True)
    value, draws = (ans * truth + (1 - ans) * acc for acc, truth, ans in parts)
    found.add("rely", (value, draws))
    return found


class MethodMetrics:
    """All metrics of one method, over the paper's four kinds of contexts.

    Args:
        rows: of the method.
        resamples: draws over questions.
        contexts: text of the context by case id without the method.

    Attributes:
        overall: over all cases except agreement, which the paper does not score; includes
            questions of undefined knowledge.
        including_agreement: the same with agreement.
        scenarios: by name: the four that are scored, and `agreement`. `all` has the mean of
            the four as `em`, undefined if one of them is empty, and is `overall` otherwise.
        outcomes: share of each outcome among the cases of `overall`; they add up to 1.
        errors: those of them that are errors.
        failed: rows with an error, of any kind of context; no metric counts them.
    """

    def __init__(
        self,
        rows: Sequence[UniKnowRow],
        resamples: QuestionResamples,
        contexts: Mapping[str, str],
    ) -> None:
        usual = [row for row in measured(rows) if row.context_kind in PAPER_KINDS]
        scored = [row for row in usual if row.scenario != Scenario.AGREEMENT]
        self.overall, self.including_agreement = (
            _shares(some, resamples) for some in (scored, usual)
        )
        self.scenarios = {
            scenario.value: _shares(
                [row for row in usual if row.scenario == scenario],
                resamples,
                {"em": _abstained if scenario is Scenario.UNKNOWN else _right},
            )
            for scenario in (*SCORED_SCENARIOS, Scenario.AGREEMENT)
        }
        self.scenarios[ALL] = self._over_all()
        found = {row.case_id: outcome_of(row, contexts.get(row.case_key)) for row in scored}
        shares = Shares(
            scored, resamples, {kind: partial(_is_outcome, found, kind) for kind in Outcome}
        )
        self.outcomes = {kind: shares[kind] for kind in Outcome}
        self.errors = {kind.value: shares[kind] for kind in ERROR_TYPES}
        self.failed = len(rows) - len(measured(rows))

    def _over_all(self) -> Shares:
        """Return the overall shares with the mean of the four scenarios as EM."""
        four = [self.scenarios[scenario] for scenario in SCORED_SCENARIOS]
        values, draws = zip(*(one.sampled["em"] for one in four), strict=True)
        mean: Sampled = (float(np.mean(values)), np.mean(draws, axis=0))
        # Of the four, the one with the fewest questions bounds what their mean rests on.
        fewest = min(one.questions for one in four)
        interval = Interval.of_draws(*mean, fewest)
        if fewest:
            interval = replace(interval, n=self.overall.questions)
        found = copy(self.overall)
        found.sampled = {"em": mean, **found.sampled}
        found.intervals = {"em": interval, **found.intervals}
        return found

    @property
    def compared(self) -> dict[str, tuple[Sampled, int]]:
        """The shares that two methods are compared by, and the questions that each rests on."""
        found = {name: (one, self.overall.questions) for name, one in self.overall.sampled.items()}
        for scenario in (*SCORED_SCENARIOS, ALL):
            shares = self.scenarios[scenario]
            found[f"em_{scenario}"] = shares.sampled["em"], shares.questions
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics for JSON, without NaN."""
        return {
            **self.overall.to_dict(),
            "failed": self.failed,
            "scenarios": {name: found.to_dict() for name, found in self.scenarios.items()},
            "errors": {name: share.to_dict() for name, share in self.errors.items()},
            "outcomes": {kind.value: share.to_dict() for kind, share in self.outcomes.items()},
            "including_agreement": self.including_agreement.to_dict(),
        }


def _is_outcome(found: Mapping[str, Outcome], kind: Outcome, row: UniKnowRow) -> bool:
    return found[row.case_id] is kind


def uniknow_metrics(
    rows: Sequence[UniKnowRow],
    *,
    contexts: Mapping[str, str] | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> dict[str, MethodMetrics]:
    """Compute the metrics of every method among the rows.

    Args:
        rows: of a run, in any order.
        contexts: text of the context by case id without the method; distinguishes errors
            that come from a context from invented ones.
        bootstrap: number of draws over questions.
        seed: of the draws.

    Returns:
        By method, in the order in which methods first appear.
    """
    resamples = QuestionResamples(question_keys(rows), resamples=bootstrap, seed=seed)
    return {
        method: MethodMetrics(own, resamples, contexts or {})
        for method, own in grouped(rows, lambda row: row.method).items()
    }


_BEYOND: _Holds = {
    "right": _right,
    "abstained": _abstained,
    "misled": lambda row: row.misled and not row.abstained and not row.right,
}
_WANTED: _Holds = {
    "wanted": lambda row: row.abstained if row.scenario == Scenario.UNKNOWN else row.right
}


def beyond_rates(
    rows: Sequence[UniKnowRow], *, bootstrap: int = 1000, seed: int = 0
) -> dict[ContextKind, dict[str, Shares]]:
    """Compute the rates of kinds beyond the paper by method; kinds without rows are left out.

    `right`, `abstained` and `misled` (an answer that only an untrue passage gives) exclude each
    other; `wanted` is abstaining in the scenario `unknown`, a right answer in the others, without
    cases of undefined knowledge.

    Args:
        rows: of a run, in any order.
        bootstrap: number of draws over questions.
        seed: of the draws.
    """
    resamples = QuestionResamples(question_keys(rows), resamples=bootstrap, seed=seed)

    def rates(own: Sequence[UniKnowRow]) -> Shares:
        found = Shares(measured(own), resamples, _BEYOND)
        settled = [row for row in measured(own) if row.scenario is not None]
        found.intervals |= Shares(settled, resamples, _WANTED).intervals
        return found

    by_kind = {kind: [row for row in rows if row.context_kind is kind] for kind in BEYOND_KINDS}
    return {
        kind: {name: rates(own) for name, own in grouped(some, lambda row: row.method).items()}
        for kind, some in by_kind.items()
        if some
    }


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
    sides: list[dict[str, UniKnowRow]] = [
        {row.case_key: row for row in measured(rows) if row.method == name}
        for name in (method, base)
    ]
    shared = sorted(sides[0].keys() & sides[1].keys())
    own = [[side[key] for key in shared] for side in sides]
    resamples = QuestionResamples(question_keys(own[0]), resamples=bootstrap, seed=seed)
    ours, theirs = (MethodMetrics(some, resamples, {}).compared for some in own)
    metrics = {
        name: Interval.of_draws(
            value - theirs[name][0][0], draws - theirs[name][0][1], n, difference=True
        )
        for name, ((value, draws), n) in ours.items()
    }
    return PairedDifference(method, base, len(shared), metrics)
