"""The suite's metrics per method, each with a bootstrap interval over questions.

From the counts of right (Nc), wrong (Ni) and declined (Na) cases, N their sum:

    Acc = Nc/N    Truth = (Nc+Na)/N    Ans = (Nc+Ni)/N    Rely = Ans·Truth + (1−Ans)·Acc
    EM  = Nc/N, in the scenario `unknown` Na/N; over all: the mean of the four scenarios

With x = Na/N, Rely is Acc + x(1−x): declining lifts it by a quarter at most, and nothing
is left of the lift for a method that declines always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....calibration import Interval, QuestionResamples, share_interval
from ....guard.decision import Scenario
from ._cases import PAPER_KINDS
from ._error_types import ERROR_TYPES, Outcome, outcome_of

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


Floats = NDArray[np.float64]


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


SCORED_SCENARIOS = (
    Scenario.CONFLICT,
    Scenario.EXTERNAL_ONLY,
    Scenario.PARAMETRIC_ONLY,
    Scenario.UNKNOWN,
)
ALL = "all"

# A share as estimated, and per bootstrap draw; NaN where there was nothing to count.
Sampled = tuple[float, Floats]

_RIGHT, _WRONG, _ABSTAINED = range(3)
_OUTCOMES = tuple(Outcome)


@dataclass(frozen=True, slots=True)
class Shares:
    """What a method did with some cases, as shares of them.

    Attributes:
        acc: right answers.
        truth: right answers and abstentions.
        ans: answers, right or wrong.
        rely: Ans·Truth + (1−Ans)·Acc.
        questions: different ones.
        cases: measured, that is, without an error.
    """

    acc: Interval
    truth: Interval
    ans: Interval
    rely: Interval
    questions: int
    cases: int

    def to_dict(self) -> dict[str, Any]:
        """Each as value, low, high and n."""
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
        """Each as value, low, high and n."""
        # Named in full: a dataclass with slots is made anew, which `super()` misses.
        return {"em": self.em.to_dict(), **Shares.to_dict(self)}


@dataclass(frozen=True, slots=True)
class MethodMetrics:
    """All metrics of one method, over the four kinds of contexts of the paper.

    Attributes:
        overall: over all cases but those of agreement, which the paper does not score;
            questions of undefined knowledge included.
        including_agreement: the same with those of agreement.
        scenarios: by name: the four that are scored, and `agreement` apart. `all` has the
            mean of the four as `em`, undefined where one of them is empty, and is
            `overall` otherwise.
        outcomes: share of each outcome among the cases of `overall`; they add up to 1.
        failed: rows with an error, of any kind of context; they count in no metric.
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
        """JSON-ready; free of NaN."""
        return {
            **self.overall.to_dict(),
            "failed": self.failed,
            "scenarios": {name: found.to_dict() for name, found in self.scenarios.items()},
            "errors": {name: share.to_dict() for name, share in self.errors.items()},
            "outcomes": {kind.value: share.to_dict() for kind, share in self.outcomes.items()},
            "including_agreement": self.including_agreement.to_dict(),
        }


def uniknow_metrics(
    rows: Sequence[MethodRow],
    *,
    contexts: Mapping[str, str] | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> dict[str, MethodMetrics]:
    """Metrics of every method among the rows.

    Args:
        rows: of a run, in any order; each with `case_id`, `method`, `dataset`,
            `question_id`, `context_kind`, `scenario`, `knowledge`, `answer`, `abstained`,
            `right`, `parametric`, `misled` and `error`.
        contexts: text of the context by case id without the method; tells errors that
            were taken from a context apart from those made up.
        bootstrap: draws over questions.
        seed: of the draws.

    Returns:
        By method, in the order in which they first appear.
    """
    resamples = QuestionResamples(question_keys(rows), resamples=bootstrap, seed=seed)
    by_method: dict[str, list[MethodRow]] = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row)
    return {
        method: _method_metrics(own, resamples, contexts or {}) for method, own in by_method.items()
    }


def headline_shares(
    rows: Sequence[MethodRow], resamples: QuestionResamples
) -> dict[str, tuple[Sampled, int]]:
    """What a difference between two methods is told of.

    Returns:
        Acc, Truth, Ans and Rely by name, EM by scenario and over `all` as
        `em_<scenario>`: each as estimated and per draw, and the questions it rests on.
    """
    usual = [row for row in measured(rows) if row["context_kind"] in PAPER_KINDS]
    scored = [row for row in usual if row["scenario"] != Scenario.AGREEMENT]
    overall = _counts(scored, resamples)
    found = {name: (share, overall.questions) for name, share in _sampled(overall).items()}
    single: list[Sampled] = []
    for scenario in SCORED_SCENARIOS:
        own = _counts([row for row in scored if row["scenario"] == scenario], resamples)
        single.append(_exact_match(own, scenario))
        found[f"em_{scenario.value}"] = (single[-1], own.questions)
    found[f"em_{ALL}"] = (_mean(single), overall.questions)
    return found


def _method_metrics(
    rows: Sequence[MethodRow], resamples: QuestionResamples, contexts: Mapping[str, str]
) -> MethodMetrics:
    usual = [row for row in measured(rows) if row["context_kind"] in PAPER_KINDS]
    scored = [row for row in usual if row["scenario"] != Scenario.AGREEMENT]
    overall = _shares(_counts(scored, resamples))
    return MethodMetrics(
        overall=overall,
        including_agreement=_shares(_counts(usual, resamples)),
        scenarios=_scenarios(usual, resamples, overall),
        outcomes=_outcomes(scored, resamples, contexts),
        failed=len(rows) - len(measured(rows)),
    )


def _scenarios(
    rows: Sequence[MethodRow], resamples: QuestionResamples, overall: Shares
) -> dict[str, ScenarioMetrics]:
    found: dict[str, ScenarioMetrics] = {}
    single: list[Sampled] = []
    for scenario in (*SCORED_SCENARIOS, Scenario.AGREEMENT):
        counts = _counts([row for row in rows if row["scenario"] == scenario], resamples)
        em = _exact_match(counts, scenario)
        if scenario in SCORED_SCENARIOS:
            single.append(em)
        found[scenario.value] = _with_em(_shares(counts), share_interval(*em, counts.questions))
    # Of the four, the one with the fewest questions bounds what their mean rests on.
    fewest = min(found[scenario.value].questions for scenario in SCORED_SCENARIOS)
    mean = share_interval(*_mean(single), fewest)
    if fewest:
        mean = Interval(mean.value, mean.low, mean.high, overall.questions)
    found[ALL] = _with_em(overall, mean)
    return found


def _outcomes(
    rows: Sequence[MethodRow], resamples: QuestionResamples, contexts: Mapping[str, str]
) -> dict[Outcome, Interval]:
    counts = count_rows(
        rows,
        resamples,
        lambda row: _OUTCOMES.index(outcome_of(row, contexts.get(case_key(row)))),
        len(_OUTCOMES),
    )
    return {
        kind: share_interval(*counts.share(column), counts.questions)
        for column, kind in enumerate(_OUTCOMES)
    }


def _counts(rows: Sequence[MethodRow], resamples: QuestionResamples) -> Counts:
    return count_rows(rows, resamples, _column, 3)


def _column(row: MethodRow) -> int:
    if row["abstained"]:
        return _ABSTAINED
    return _RIGHT if row["right"] else _WRONG


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
    """NaN where one of them is, as in a scenario without cases."""
    values = float(np.mean([value for value, _ in shares]))
    return values, np.mean([draws for _, draws in shares], axis=0)


def _shares(counts: Counts) -> Shares:
    found = {
        name: share_interval(*sampled, counts.questions)
        for name, sampled in _sampled(counts).items()
    }
    return Shares(**found, questions=counts.questions, cases=counts.cases)


def _with_em(shares: Shares, em: Interval) -> ScenarioMetrics:
    return ScenarioMetrics(
        acc=shares.acc,
        truth=shares.truth,
        ans=shares.ans,
        rely=shares.rely,
        questions=shares.questions,
        cases=shares.cases,
        em=em,
    )
