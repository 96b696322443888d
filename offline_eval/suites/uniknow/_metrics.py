"""The suite's metrics per method, each with a bootstrap interval over questions.

From the counts of right (Nc), wrong (Ni) and abstained (Na) cases, N their sum:

    Acc = Nc/N    Truth = (Nc+Na)/N    Ans = (Nc+Ni)/N    Rely = Ans·Truth + (1−Ans)·Acc
    EM  = Nc/N, in the scenario `unknown` Na/N; over all: the mean of the four scenarios

With x = Na/N, Rely is Acc + x(1−x): abstaining adds at most a quarter, and nothing for a
method that always abstains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
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


Floats = NDArray[np.float64]
# A share as estimated, and per bootstrap draw; NaN without cases.
Sampled = tuple[float, Floats]


class Counts:
    """Counts of some columns: over all questions, and per bootstrap draw.

    Args:
        rows: without errors; their questions must be among those of `resamples`. Every row falls
            in exactly one column.
        resamples: draws over questions.
        column_of: the column of a row, below `columns`.
        columns: number of columns.

    Attributes:
        total: shape (columns,).
        draws: shape (resamples, columns).
        questions: with at least one case.
        cases: number of rows.
    """

    def __init__(
        self,
        rows: Sequence[UniKnowRow],
        resamples: QuestionResamples,
        column_of: Callable[[UniKnowRow], int],
        columns: int,
    ) -> None:
        counts = np.zeros((resamples.count, columns))
        for row in rows:
            counts[resamples.position(row.question_key), column_of(row)] += 1
        self.total, self.draws = counts.sum(axis=0), resamples.totals(counts)
        self.questions = int((counts.sum(axis=1) > 0).sum())
        self.cases = len(rows)

    def share(self, *columns: int) -> Sampled:
        """Return the share of the columns, NaN without cases; and the same per draw."""
        wanted = list(columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = self.total[wanted].sum() / self.total.sum()
            drawn = self.draws[:, wanted].sum(axis=1) / self.draws.sum(axis=1)
        return float(value), drawn

    def interval(self, share: Sampled) -> Interval:
        """Return a share with its interval."""
        return Interval.of_draws(*share, self.questions)

    def rates(self, shares: Mapping[str, Sampled]) -> Rates:
        """Return shares with their intervals."""
        found = {name: self.interval(share) for name, share in shares.items()}
        return Rates(found, self.questions, self.cases)


SCORED_SCENARIOS = (
    Scenario.CONFLICT,
    Scenario.EXTERNAL_ONLY,
    Scenario.PARAMETRIC_ONLY,
    Scenario.UNKNOWN,
)
ALL = "all"
_ALL_KINDS = "including_agreement"

_RIGHT, _WRONG, _ABSTAINED = range(3)
_OUTCOMES = tuple(Outcome)


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of some cases by name, each with its interval.

    Attributes:
        shares: `acc` right answers, `truth` right answers and abstentions, `ans` answers, `rely`;
            of a scenario also `em`; of a kind beyond the paper those of `beyond_rates`.
        questions: number of different ones.
        cases: number of them without an error.
    """

    shares: Mapping[str, Interval]
    questions: int
    cases: int

    def __getitem__(self, name: str) -> Interval:
        """The share of that name."""
        return self.shares[name]

    def to_dict(self) -> dict[str, Any]:
        """Return each as value, low, high and n."""
        named = {name: share.to_dict() for name, share in self.shares.items()}
        return {**named, "questions": self.questions, "cases": self.cases}


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
        failed: rows with an error, of any kind of context; no metric counts them.
    """

    def __init__(
        self,
        rows: Sequence[UniKnowRow],
        resamples: QuestionResamples,
        contexts: Mapping[str, str],
    ) -> None:
        counts = _counts(rows, resamples)
        exact = _exact_matches(counts)
        self.overall = counts[ALL].rates(_sampled(counts[ALL]))
        self.including_agreement = counts[_ALL_KINDS].rates(_sampled(counts[_ALL_KINDS]))
        self.scenarios = {
            name: counts[name].rates({"em": em, **_sampled(counts[name])})
            for name, em in exact.items()
        }
        # Of the four, the one with the fewest questions bounds what their mean rests on.
        fewest = min(counts[scenario].questions for scenario in SCORED_SCENARIOS)
        mean = Interval.of_draws(*exact[ALL], fewest)
        if fewest:
            mean = replace(mean, n=counts[ALL].questions)
        self.scenarios[ALL] = replace(self.overall, shares={"em": mean, **self.overall.shares})
        outcomes = Counts(
            _scored(rows),
            resamples,
            lambda row: _OUTCOMES.index(outcome_of(row, contexts.get(row.case_key))),
            len(_OUTCOMES),
        )
        self.outcomes = {
            kind: outcomes.interval(outcomes.share(column)) for column, kind in enumerate(_OUTCOMES)
        }
        self.failed = len(rows) - len(measured(rows))

    @property
    def errors(self) -> dict[str, Interval]:
        """Share of each type of error among the cases of `overall`."""
        return {kind.value: self.outcomes[kind] for kind in ERROR_TYPES}

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


def headline_shares(
    rows: Sequence[UniKnowRow], resamples: QuestionResamples
) -> dict[str, tuple[Sampled, int]]:
    """Compute the shares that two methods are compared by.

    Returns:
        Acc, Truth, Ans and Rely by name, EM by scenario and over `all` as
        `em_<scenario>`: each as estimated and per draw, and the number of questions.
    """
    counts = _counts(rows, resamples)
    found = {name: (share, counts[ALL].questions) for name, share in _sampled(counts[ALL]).items()}
    for scenario, em in _exact_matches(counts).items():
        if scenario != Scenario.AGREEMENT:
            found[f"em_{scenario}"] = (em, counts[scenario].questions)
    return found


def _scored(rows: Sequence[UniKnowRow]) -> list[UniKnowRow]:
    """Return the rows that the overall metrics count."""
    return [row for row in _usual(rows) if row.scenario != Scenario.AGREEMENT]


def _usual(rows: Sequence[UniKnowRow]) -> list[UniKnowRow]:
    return [row for row in measured(rows) if row.context_kind in PAPER_KINDS]


def _counts(rows: Sequence[UniKnowRow], resamples: QuestionResamples) -> dict[str, Counts]:
    """Return right, wrong and abstained cases by scenario, over all scored ones, and over all."""
    parts = {
        scenario.value: [row for row in _usual(rows) if row.scenario == scenario]
        for scenario in (*SCORED_SCENARIOS, Scenario.AGREEMENT)
    }
    parts |= {ALL: _scored(rows), _ALL_KINDS: _usual(rows)}
    return {name: Counts(some, resamples, _column, 3) for name, some in parts.items()}


def _exact_matches(counts: Mapping[str, Counts]) -> dict[str, Sampled]:
    """Return EM by scenario; over all the mean of the four, NaN if one has no cases."""
    found = {
        scenario.value: counts[scenario].share(
            _ABSTAINED if scenario is Scenario.UNKNOWN else _RIGHT
        )
        for scenario in (*SCORED_SCENARIOS, Scenario.AGREEMENT)
    }
    values, draws = zip(*(found[scenario] for scenario in SCORED_SCENARIOS), strict=True)
    return {**found, ALL: (float(np.mean(values)), np.mean(draws, axis=0))}


def _column(row: UniKnowRow) -> int:
    if row.abstained:
        return _ABSTAINED
    return _RIGHT if row.right else _WRONG


def _sampled(counts: Counts) -> dict[str, Sampled]:
    acc, truth = counts.share(_RIGHT), counts.share(_RIGHT, _ABSTAINED)
    ans = counts.share(_RIGHT, _WRONG)
    rely = (_rely(acc[0], truth[0], ans[0]), _rely(acc[1], truth[1], ans[1]))
    return {"acc": acc, "truth": truth, "ans": ans, "rely": rely}


def _rely(acc: Any, truth: Any, ans: Any) -> Any:
    return ans * truth + (1 - ans) * acc


_CORRECT, _DECLINED, _MISLED, _NEITHER = range(4)


def beyond_rates(
    rows: Sequence[UniKnowRow], *, bootstrap: int = 1000, seed: int = 0
) -> dict[ContextKind, dict[str, Rates]]:
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
    found: dict[ContextKind, dict[str, Rates]] = {}
    for kind in BEYOND_KINDS:
        own = [row for row in rows if row.context_kind is kind]
        methods = grouped(own, lambda row: row.method)
        if methods:
            found[kind] = {
                method: _rates(measured(own), resamples) for method, own in methods.items()
            }
    return found


def _rates(rows: Sequence[UniKnowRow], resamples: QuestionResamples) -> Rates:
    counts = Counts(rows, resamples, _beyond_column, 4)
    settled = [row for row in rows if row.scenario is not None]
    wanted = Counts(settled, resamples, lambda row: int(_as_wanted(row)), 2)
    columns = {"right": _CORRECT, "abstained": _DECLINED, "misled": _MISLED}
    rates = counts.rates({name: counts.share(column) for name, column in columns.items()})
    return replace(rates, shares={**rates.shares, "wanted": wanted.interval(wanted.share(1))})


def _beyond_column(row: UniKnowRow) -> int:
    if row.abstained:
        return _DECLINED
    if row.right:
        return _CORRECT
    return _MISLED if row.misled else _NEITHER


def _as_wanted(row: UniKnowRow) -> bool:
    if row.scenario == Scenario.UNKNOWN:
        return row.abstained
    return row.right


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
            name: Interval.of_draws(
                value - below[name][0][0], draws - below[name][0][1], n, difference=True
            )
            for name, ((value, draws), n) in above.items()
        },
    )
