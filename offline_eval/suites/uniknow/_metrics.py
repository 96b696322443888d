"""The suite's metrics per method, each with a bootstrap interval over questions.

From the counts of right (Nc), wrong (Ni) and abstained (Na) cases, N their sum:

    Acc = Nc/N    Truth = (Nc+Na)/N    Ans = (Nc+Ni)/N    Rely = Ans·Truth + (1−Ans)·Acc
    EM  = Nc/N, in the scenario `unknown` Na/N; over all: the mean of the four scenarios

With x = Na/N, Rely is Acc + x(1−x): abstaining adds at most a quarter, and nothing for a
method that always abstains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np

from ....calibration import Interval
from ....calibration.statistics import resampled_totals
from ....guard.decision import Scenario
from ....guard.errors import InputError
from ....guard.matching import normalise_answer
from ....guard.policy import Policy
from ...data.answers.matching import stands_in
from ...report.document import as_json
from ...run import Run
from ...run.grouping import grouped, most_frequent
from ..parts import run_values
from ._cases import (
    BEYOND_KINDS,
    CONTENT,
    PAPER_KINDS,
    ContextKind,
    Knowledge,
    QuestionKey,
    UniKnowRow,
)
from .plan import POLICY, ROWS, RUN_AGAIN, SIGNALS, Plan, UniKnowManifest


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


ERROR_TYPES = (Outcome.CONTEXTUAL, Outcome.PARAMETRIC, Outcome.FALSE_ABSTENTION, Outcome.OTHER)


def outcome_of(row: UniKnowRow, context: str | None = None) -> Outcome:
    """Return the outcome of one case.

    Args:
        row: without an error.
        context: text of its context; without it, no wrong answer counts as taken from a
            context that does not hold the right one.
    """
    holds = row.context_kind.holds_answer
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


# Where the counts of each question stand, and how many draws are made over questions.
Draws = tuple[Mapping[QuestionKey, int], int]


def draws_over(rows: Sequence[UniKnowRow], resamples: int) -> Draws:
    """Say how questions are drawn: sorted, so that the order of the rows does not matter."""
    keys = sorted({row.question_key for row in rows})
    return {key: place for place, key in enumerate(keys)}, resamples


def measured(rows: Sequence[UniKnowRow]) -> list[UniKnowRow]:
    """Return the rows without an error: a failed call is not an answer."""
    return [row for row in rows if row.error is None]


SCORED_SCENARIOS = (
    Scenario.CONFLICT,
    Scenario.EXTERNAL_ONLY,
    Scenario.PARAMETRIC_ONLY,
    Scenario.UNKNOWN,
)
ALL = "all"
_DRAWS = 1000
_OVERALL = ("acc", "truth", "ans", "rely")
_COUNTED = ("em", "acc", "truth", "ans", "abstained", "misled", *Outcome)


def _counted(row: UniKnowRow, context: str | None) -> list[bool]:
    """Return 1 for the row, then in which of the shares it counts."""
    right, outcome = row.right and not row.abstained, outcome_of(row, context)
    wanted = row.abstained if row.scenario is Scenario.UNKNOWN else right
    misled = row.misled and not row.abstained and not row.right
    answered = [right, row.right or row.abstained, not row.abstained, row.abstained]
    return [True, wanted, *answered, misled, *(outcome is one for one in Outcome)]


class Shares:
    """Shares of some cases by name, each with its interval.

    Args:
        rows: those with errors count in none; the questions of the others must be among those of
            `draws`.
        draws: over questions.
        contexts: text of the context by case id without the method.

    Attributes:
        sampled: the shares, first as estimated, then per draw; NaN without cases.
        questions: number of different ones.
        cases: number of rows.
        em_questions: those that bound what the exact match rests on.
    """

    def __init__(
        self,
        rows: Sequence[UniKnowRow],
        draws: Draws,
        contexts: Mapping[str, str] | None = None,
    ) -> None:
        places, resamples = draws
        counts = np.zeros((len(places), 1 + len(_COUNTED)))
        for row in measured(rows):
            held = _counted(row, (contexts or {}).get(row.case_key))
            counts[places[row.question_key]] += held
        totals = resampled_totals(counts, resamples=resamples, seed=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = totals[:, 1:] / totals[:, :1]
        found = self.sampled = dict(zip(map(str, _COUNTED), shares.T, strict=True))
        found["rely"] = found["ans"] * found["truth"] + (1 - found["ans"]) * found["acc"]
        self.questions, self.cases = int(np.count_nonzero(counts[:, 0])), int(totals[0, 0])
        self.em_questions = self.questions

    def __getitem__(self, name: str) -> Interval:
        """The share of that name."""
        n, values = self.em_questions if name == "em" else self.questions, self.sampled[name]
        found = Interval.of_draws(float(values[0]), values[1:], n)
        return replace(found, n=self.questions) if n else found

    def minus(self, other: Shares, name: str) -> Interval:
        """Return how far a share is above that of others on the same questions."""
        found = self.sampled[name] - other.sampled[name]
        return Interval.of_draws(float(found[0]), found[1:], self.questions, difference=True)

    def to_dict(self, *names: str) -> dict[str, Any]:
        """Return some of them, each as value, low, high and n, and the numbers of cases."""
        named = {name: self[name].to_dict() for name in names}
        return {**named, "questions": self.questions, "cases": self.cases}


# The shares of one method by scenario: the four that are scored; `agreement`; `all`, which is all
# cases but agreement, questions of undefined knowledge included, where the exact match is the mean
# of the four, undefined if one of them is empty; and `including_agreement`.
MethodShares = dict[str, Shares]


def method_shares(
    rows: Sequence[UniKnowRow],
    draws: Draws,
    contexts: Mapping[str, str] | None = None,
) -> MethodShares:
    """Compute all shares of one method, over the paper's four kinds of contexts.

    Args:
        rows: of the method; those with an error count in none.
        draws: over questions.
        contexts: text of the context by case id without the method.
    """
    usual = [row for row in rows if row.context_kind in PAPER_KINDS]
    by_scenario = grouped(usual, lambda row: row.scenario)
    found = {
        str(scenario): Shares(by_scenario.get(scenario, []), draws, contexts)
        for scenario in (*SCORED_SCENARIOS, Scenario.AGREEMENT)
    }
    four = [found[scenario] for scenario in SCORED_SCENARIOS]
    scored = [row for row in usual if row.scenario != Scenario.AGREEMENT]
    mean = found[ALL] = Shares(scored, draws, contexts)
    mean.sampled["em"] = np.mean([one.sampled["em"] for one in four], axis=0)
    # Of the four, the one with the fewest questions bounds what their mean rests on.
    mean.em_questions = min(one.questions for one in four)
    found["including_agreement"] = Shares(usual, draws, contexts)
    return found


def method_values(found: MethodShares, failed: int) -> dict[str, Any]:
    """Return the metrics of a method for JSON, without NaN.

    Args:
        found: its shares.
        failed: number of its rows with an error, which no metric counts.
    """
    names = (*SCORED_SCENARIOS, Scenario.AGREEMENT, ALL)
    scenarios = {str(name): found[name].to_dict("em", *_OVERALL) for name in names}
    outcomes = {str(kind): found[ALL][kind].to_dict() for kind in Outcome}
    return {
        **found[ALL].to_dict(*_OVERALL),
        "failed": failed,
        "scenarios": scenarios,
        "errors": {str(kind): outcomes[kind] for kind in ERROR_TYPES},
        "outcomes": outcomes,
        "including_agreement": found["including_agreement"].to_dict(*_OVERALL),
    }


def uniknow_metrics(
    rows: Sequence[UniKnowRow],
    *,
    contexts: Mapping[str, str] | None = None,
    bootstrap: int = _DRAWS,
) -> dict[str, MethodShares]:
    """Compute the metrics of every method among the rows.

    Args:
        rows: of a run, in any order.
        contexts: text of the context by case id without the method; distinguishes errors
            that come from a context from invented ones.
        bootstrap: number of draws over questions.

    Returns:
        By method, in the order in which methods first appear.
    """
    draws = draws_over(rows, bootstrap)
    return {
        method: method_shares(own, draws, contexts)
        for method, own in grouped(rows, lambda row: row.method).items()
    }


BeyondRates = dict[ContextKind, dict[str, dict[str, Any]]]


def beyond_rates(rows: Sequence[UniKnowRow], *, bootstrap: int = _DRAWS) -> BeyondRates:
    """Compute the rates of kinds beyond the paper by method; kinds without rows are left out.

    `right`, `abstained` and `misled` (an answer that only an untrue passage gives) exclude each
    other; `wanted` is abstaining in the scenario `unknown`, a right answer in the others, without
    cases of undefined knowledge. Beside these intervals stand the numbers of questions and cases.

    Args:
        rows: of a run, in any order.
        bootstrap: number of draws over questions.
    """
    draws = draws_over(rows, bootstrap)
    found: BeyondRates = {}
    for kind in BEYOND_KINDS:
        of_kind = (row for row in rows if row.context_kind is kind)
        for name, own in grouped(of_kind, lambda row: row.method).items():
            shares = Shares(own, draws)
            settled = Shares([row for row in own if row.scenario is not None], draws)
            found.setdefault(kind, {})[name] = {
                "right": shares["acc"],
                "abstained": shares["abstained"],
                "misled": shares["misled"],
                "wanted": settled["em"],
                "questions": shares.questions,
                "cases": shares.cases,
            }
    return found


def paired_difference(
    rows: Sequence[UniKnowRow], method: str, base: str
) -> tuple[int, dict[str, Interval]]:
    """Compute the difference method − base, with bootstrap intervals over questions.

    Both use the same draws, so that the difficulty of a question cancels out.

    Args:
        rows: of a run; rows of other methods and rows with errors are ignored.
        method: the first method.
        base: the method that is subtracted.

    Returns:
        The number of cases that both answered without an error, and by name (`acc`, `truth`,
        `ans`, `rely`, `em_all`, `em_<scenario>`) the difference.
    """
    sides: list[dict[str, UniKnowRow]] = [
        {row.case_key: row for row in measured(rows) if row.method == name}
        for name in (method, base)
    ]
    shared = sorted(sides[0].keys() & sides[1].keys())
    own = [[side[key] for key in shared] for side in sides]
    draws = draws_over(own[0], _DRAWS)
    ours, theirs = (method_shares(some, draws) for some in own)
    found = {name: ours[ALL].minus(theirs[ALL], name) for name in _OVERALL}
    for scenario in (*SCORED_SCENARIOS, ALL):
        found[f"em_{scenario}"] = ours[scenario].minus(theirs[scenario], "em")
    return len(shared), found


# Name as in the rows, title, the paper's letter, what model and context know, what is wanted.
SITUATIONS: Sequence[Mapping[str, str]] = CONTENT["situations"]
_METHODS: Mapping[str, tuple[str, str]] = {n: tuple(one) for n, one in CONTENT["methods"].items()}
_ORDER = list(_METHODS)
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    name: {"rely_nq": None, **found} for name, found in CONTENT["published"]["methods"].items()
}


def shown_method(name: str) -> tuple[str, str]:
    """Return the family of a method, `other` if it is not known, and what it does."""
    base, _, variant = name.partition("@")
    family, meaning = _METHODS.get(base, ("other", ""))
    return family, f"{base}, {variant}." if variant and meaning else meaning


def _rank(name: str) -> tuple[bool, int, str]:
    """Put methods in order: those of the suite in its own, others by name, ablations last."""
    return "@" in name, _ORDER.index(name) if name in _ORDER else len(_ORDER), name


class UniKnowRun:
    """A checked run, finished or not, and all its numbers; it has at least one row.

    Args:
        run: opened to read, with a `UniKnowManifest`.

    Attributes:
        manifest: the methods that could not be trained are among those left out.
        plan: what is asked; its `rows` are those of a finished run.
        cases: evaluation cases by id, in the order of the run.
        rows: as stored, in the order of the run.
        policy: of the guards, with its guarantee; None if no guard took part yet.
        signals: of the evaluation cases; empty likewise.
        asked: number of rows by method.
        questions: in the run.
        groups: documents or subjects that the questions come from.
        knowledge: questions by what the model knows of them.
        failures: per method the failed rows by type of error, most frequent first.
        methods: by name, without the ablations.
        ablations: trainings on other data, by name.
        differences: guard against base, against prompting and against the trained methods: by
            both names the number of cases, and the intervals.
        beyond: per kind of context beyond the paper, by method.
        problems: contexts that could not be built, by kind.

    Raises:
        InputError: a file is missing, damaged or written by a newer knowgate, or there is no
            row yet; names file and line.
    """

    def __init__(self, run: Run) -> None:
        self.plan, manifest = Plan.read(run), run.manifest
        assert isinstance(manifest, UniKnowManifest)
        left_out = {**manifest.left_out, **self.plan.left_out}
        methods = tuple(name for name in manifest.methods if name not in left_out)
        self.manifest = manifest.model_copy(update={"methods": methods, "left_out": left_out})
        self.cases = {case.case_id: case for case in self.plan.evaluation}
        self.rows: list[UniKnowRow] = []
        for where, row in run[ROWS].places():
            if row.case_key not in self.cases or row.method not in methods:
                what = "the row is of no case or method of this run"
                raise InputError(what, where=where, hint=RUN_AGAIN)
            self.rows.append(row)
        path = run.folder / POLICY
        self.policy = Policy.load(path, links=False) if path.exists() else None
        self.signals = [one for one in run[SIGNALS].rows() if one.part == "evaluation"]
        rows = sorted(self.rows, key=lambda row: _rank(row.method))
        known = {row.question_key: row.knowledge for row in rows}
        sides = Counter(known.values())
        self.asked, self.questions = Counter(row.method for row in rows), len(known)
        self.groups = len({(row.dataset, row.group) for row in rows})
        self.knowledge = {kind.value: sides[kind] for kind in Knowledge}
        # The type alone: a message may quote what was asked.
        failed = grouped((row for row in rows if row.error is not None), lambda row: row.method)
        self.failures = {
            name: most_frequent(str(row.error).partition(":")[0].strip() for row in own)
            for name, own in failed.items()
        }
        contexts = {key: case.context for key, case in self.cases.items()}
        metrics = uniknow_metrics(rows, contexts=contexts)
        self.methods = {name: found for name, found in metrics.items() if "@" not in name}
        self.ablations = {name: found for name, found in metrics.items() if "@" in name}
        differences = {
            (method, base): paired_difference(rows, method, base)
            for method, base in CONTENT["pairs"]
            if method in metrics and base in metrics
        }
        self.differences = {pair: found for pair, found in differences.items() if found[0]}
        self.beyond = beyond_rates(rows)
        self.problems = Counter(problem.kind.value for problem in self.plan.problems)

    @property
    def abstains_always(self) -> bool:
        """Whether guards took part, and nothing was certified for them."""
        promise = None if self.policy is None else self.policy.guarantee
        return promise is not None and not promise.certified

    def failed(self, method: str | None = None) -> int:
        """Return the number of rows with an error, of a method or of all."""
        names = self.failures if method is None else [method]
        return sum(sum(self.failures.get(name, {}).values()) for name in names)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        differences: dict[str, dict[str, Any]] = {}
        for (method, base), (cases, intervals) in self.differences.items():
            differences.setdefault(method, {})[base] = {"cases": cases, **intervals}
        names = ("questions", "groups", "knowledge", "failures", "beyond")
        values = {
            **{name: getattr(self, name) for name in names},
            "methods": {
                name: method_values(found, self.failed(name))
                for name, found in {**self.methods, **self.ablations}.items()
            },
            "rows": len(self.rows),
            "rows_planned": self.plan.rows,
            "contexts_not_built": self.problems,
            "methods_left_out": self.manifest.left_out,
            "differences": differences,
            "published": {**CONTENT["published"], "methods": PUBLISHED},
        }
        return run_values(self.manifest, as_json(values))
