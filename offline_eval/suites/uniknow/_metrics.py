"""The suite's metrics per method, each with a bootstrap interval over questions.

From the counts of right (Nc), wrong (Ni) and abstained (Na) cases, N their sum:

    Acc = Nc/N    Truth = (Nc+Na)/N    Ans = (Nc+Ni)/N    Rely = Ans·Truth + (1−Ans)·Acc
    EM  = Nc/N, in the scenario `unknown` Na/N; over all: the mean of the four scenarios

With x = Na/N, Rely is Acc + x(1−x): abstaining adds at most a quarter, and nothing for a
method that always abstains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....calibration import Interval, QuestionResamples
from ....guard.decision import Scenario
from ._cases import PAPER_KINDS
from ._outcomes import ERROR_TYPES, Outcome, outcome_of
from ._rows import QuestionKey, UniKnowRow


def question_keys(rows: Sequence[UniKnowRow]) -> list[QuestionKey]:
    """Return the questions of all rows, sorted, so that the order of the rows does not matter."""
    return sorted({row.question_key for row in rows})


def measured(rows: Sequence[UniKnowRow]) -> list[UniKnowRow]:
    """Return the rows without an error: a failed call is not an answer."""
    return [row for row in rows if row.error is None]


def by_method(rows: Sequence[UniKnowRow]) -> dict[str, list[UniKnowRow]]:
    """Group rows by method, in the order in which methods first appear."""
    found: dict[str, list[UniKnowRow]] = {}
    for row in rows:
        found.setdefault(row.method, []).append(row)
    return found


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of some columns: over all questions, and per bootstrap draw.

    Attributes:
        total: shape (columns,).
        draws: shape (resamples, columns).
        questions: with at least one case.
        cases: number of rows.
    """

    total: Floats
    draws: Floats
    questions: int
    cases: int

    def share(self, *columns: int) -> tuple[float, Floats]:
        """Return the share of the columns, NaN without cases; and the same per draw."""
        wanted = list(columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = self.total[wanted].sum() / self.total.sum()
            drawn = self.draws[:, wanted].sum(axis=1) / self.draws.sum(axis=1)
        return float(value), drawn


def count_rows(
    rows: Sequence[UniKnowRow],
    resamples: QuestionResamples,
    column_of: Callable[[UniKnowRow], int],
    columns: int,
) -> Counts:
    """Count rows by column; every row falls in exactly one.

    Args:
        rows: without errors; their questions must be among those of `resamples`.
        resamples: draws over questions.
        column_of: the column of a row, below `columns`.
        columns: number of columns.
    """
    counts = np.zeros((resamples.count, columns))
    for row in rows:
        counts[resamples.position(row.question_key), column_of(row)] += 1
    present = counts.sum(axis=1) > 0
    return Counts(
        total=counts.sum(axis=0),
        draws=resamples.totals(counts),
        questions=int(present.sum()),
        cases=len(rows),
    )


SCORED_SCENARIOS = (
    Scenario.CONFLICT,
    Scenario.EXTERNAL_ONLY,
    Scenario.PARAMETRIC_ONLY,
    Scenario.UNKNOWN,
)
ALL = "all"

# A share as estimated, and per bootstrap draw; NaN without cases.
Sampled = tuple[float, Floats]

_RIGHT, _WRONG, _ABSTAINED = range(3)
_OUTCOMES = tuple(Outcome)


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of right answers, abstentions and answers among some cases.

    Attributes:
        acc: right answers.
        truth: right answers and abstentions.
        ans: answers, right or wrong.
        rely: Ans·Truth + (1−Ans)·Acc.
        questions: number of different ones.
        cases: number of them without an error.
    """

    acc: Interval
    truth: Interval
    ans: Interval
    rely: Interval
    questions: int
    cases: int

    def to_dict(self) -> dict[str, Any]:
        """Return each as value, low, high and n."""
        named = {name: getattr(self, name).to_dict() for name in ("acc", "truth", "ans", "rely")}
        return {**named, "questions": self.questions, "cases": self.cases}


@dataclass(frozen=True, slots=True)
class ScenarioMetrics(Shares):
    """As `Shares`, with exact match.

    Attributes:
        em: right answers; in the scenario `unknown` abstentions.
    """

    em: Interval

    def to_dict(self) -> dict[str, Any]:
        """Return each as value, low, high and n."""
        # Not `super()`: it does not work in a dataclass with slots.
        return {"em": self.em.to_dict(), **Shares.to_dict(self)}


@dataclass(frozen=True, slots=True)
class MethodMetrics:
    """All metrics of one method, over the paper's four kinds of contexts.

    Attributes:
        overall: over all cases except agreement, which the paper does not score; includes
            questions of undefined knowledge.
        including_agreement: the same with agreement.
        scenarios: by name: the four that are scored, and `agreement`. `all` has the mean of
            the four as `em`, undefined if one of them is empty, and is `overall` otherwise.
        outcomes: share of each outcome among the cases of `overall`; they add up to 1.
        failed: rows with an error, of any kind of context; no metric counts them.
    """

    overall: Shares
    including_agreement: Shares
    scenarios: Mapping[str, ScenarioMetrics]
    outcomes: Mapping[Outcome, Interval]
    failed: int

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
        method: _method_metrics(own, resamples, contexts or {})
        for method, own in by_method(rows).items()
    }


def headline_shares(
    rows: Sequence[UniKnowRow], resamples: QuestionResamples
) -> dict[str, tuple[Sampled, int]]:
    """Compute the shares that two methods are compared by.

    Returns:
        Acc, Truth, Ans and Rely by name, EM by scenario and over `all` as
        `em_<scenario>`: each as estimated and per draw, and the number of questions.
    """
    usual = [row for row in measured(rows) if row.context_kind in PAPER_KINDS]
    scored = [row for row in usual if row.scenario != Scenario.AGREEMENT]
    overall = _counts(scored, resamples)
    found = {name: (share, overall.questions) for name, share in _sampled(overall).items()}
    single: list[Sampled] = []
    for scenario in SCORED_SCENARIOS:
        own = _counts([row for row in scored if row.scenario == scenario], resamples)
        single.append(_exact_match(own, scenario))
        found[f"em_{scenario.value}"] = (single[-1], own.questions)
    found[f"em_{ALL}"] = (_mean(single), overall.questions)
    return found


def _method_metrics(
    rows: Sequence[UniKnowRow], resamples: QuestionResamples, contexts: Mapping[str, str]
) -> MethodMetrics:
    usual = [row for row in measured(rows) if row.context_kind in PAPER_KINDS]
    scored = [row for row in usual if row.scenario != Scenario.AGREEMENT]
    overall = _shares(_counts(scored, resamples))
    return MethodMetrics(
        overall=overall,
        including_agreement=_shares(_counts(usual, resamples)),
        scenarios=_scenarios(usual, resamples, overall),
        outcomes=_outcomes(scored, resamples, contexts),
        failed=len(rows) - len(measured(rows)),
    )


def _scenarios(
    rows: Sequence[UniKnowRow], resamples: QuestionResamples, overall: Shares
) -> dict[str, ScenarioMetrics]:
    found: dict[str, ScenarioMetrics] = {}
    single: list[Sampled] = []
    for scenario in (*SCORED_SCENARIOS, Scenario.AGREEMENT):
        counts = _counts([row for row in rows if row.scenario == scenario], resamples)
        em = _exact_match(counts, scenario)
        if scenario in SCORED_SCENARIOS:
            single.append(em)
        found[scenario.value] = _with_em(
            _shares(counts), QuestionResamples.share_interval(*em, counts.questions)
        )
    # Of the four, the one with the fewest questions bounds what their mean rests on.
    fewest = min(found[scenario.value].questions for scenario in SCORED_SCENARIOS)
    mean = QuestionResamples.share_interval(*_mean(single), fewest)
    if fewest:
        mean = Interval(mean.value, mean.low, mean.high, overall.questions)
    found[ALL] = _with_em(overall, mean)
    return found


def _outcomes(
    rows: Sequence[UniKnowRow], resamples: QuestionResamples, contexts: Mapping[str, str]
) -> dict[Outcome, Interval]:
    counts = count_rows(
        rows,
        resamples,
        lambda row: _OUTCOMES.index(outcome_of(row, contexts.get(row.case_key))),
        len(_OUTCOMES),
    )
    return {
        kind: QuestionResamples.share_interval(*counts.share(column), counts.questions)
        for column, kind in enumerate(_OUTCOMES)
    }


def _counts(rows: Sequence[UniKnowRow], resamples: QuestionResamples) -> Counts:
    return count_rows(rows, resamples, _column, 3)


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


def _exact_match(counts: Counts, scenario: Scenario) -> Sampled:
    return counts.share(_ABSTAINED if scenario is Scenario.UNKNOWN else _RIGHT)


def _mean(shares: Sequence[Sampled]) -> Sampled:
    """Return the mean; NaN if a share is NaN, as in a scenario without cases."""
    values = float(np.mean([value for value, _ in shares]))
    return values, np.mean([draws for _, draws in shares], axis=0)


def _shares(counts: Counts) -> Shares:
    found = {
        name: QuestionResamples.share_interval(*sampled, counts.questions)
        for name, sampled in _sampled(counts).items()
    }
    return Shares(**found, questions=counts.questions, cases=counts.cases)


def _with_em(shares: Shares, em: Interval) -> ScenarioMetrics:
    return ScenarioMetrics(**{one.name: getattr(shares, one.name) for one in fields(shares)}, em=em)
