"""What a comparison of scorers says: numbers of each, differences, and which one to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, Literal

from ....calibration import Interval
from ....calibration.selective_metrics import OperatingPoint, PairedScores
from ....guard.errors import InputError
from ...report.document import as_json
from ...report.prose import Templates
from ...run import Question
from ...run.grouping import error_types
from ...run.measured_run import MeasuredRun
from ...run.questions import CaseKind, MeasuredRow

SCORERS_WORDS = Templates(Path(__file__).parent / "scorers.txt")
# Differences of AUROC up to this are too small to pay for.
_MARGIN = 0.02
# With fewer passages the intervals of a bootstrap are too narrow.
_FEWEST = 30
# Times this much above the least one count as equal: they vary with what else the machine does.
_SAME_TIME = 1.25
# Of a scorer's cases; one that fails more often is not taken.
_MAX_FAILED = 0.05
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class MeasuredScorer:
    """What was measured of one scorer.

    Attributes:
        name: as it was named.
        run: its cases.
        milliseconds: of each case that did not fail.
        calls: of a language model, all cases together; None where it asks none.
    """

    name: str
    run: MeasuredRun
    milliseconds: tuple[float, ...] = ()
    calls: int | None = None


Outcome = Literal["better", "as_good", "cannot_be_told", "only_one", "none"]
"""What a comparison ends with: one is better than all others; one is the cheapest and no other is
better by more than the margin; that cannot be told from so few questions; only one can be taken;
or none."""


@dataclass(frozen=True, slots=True)
class ScorerChoice:
    """Which scorer to take.

    Attributes:
        outcome: how sure that is.
        take: its name; None where none is to be taken.
        reason: in a sentence or two.
    """

    outcome: Outcome
    take: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class ScorerNumbers:
    """The numbers of one scorer.

    Attributes:
        name: as it was named.
        auroc: answer retrieved against answer left out; None where all cases failed.
        false_abstention: share of the questions with the answer retrieved that it abstains
            from where the share `risk` of the left-out ones passes.
        cases: that were measured.
        failed: among them. A failed case counts as one that is abstained from.
        errors: failed cases by type of error, most frequent first.
        milliseconds: median per question, without retrieval; None where all failed.
        calls_per_question: of a language model.
    """

    name: str
    auroc: Interval
    false_abstention: Interval
    cases: int
    failed: int
    errors: Mapping[str, int]
    milliseconds: float | None
    calls_per_question: float

    @property
    def cost(self) -> tuple[float, float]:
        """What a question costs: calls of a language model first, then time."""
        return self.calls_per_question, math.inf if self.milliseconds is None else self.milliseconds

    @property
    def unfit(self) -> str:
        """Why it is not to be taken; empty where it may be."""
        if self.failed > _MAX_FAILED * self.cases:
            return f"{self.failed} of its {self.cases} cases failed"
        if self.auroc.low is None or self.auroc.low <= 0.5:
            return "it is not shown to be better than chance"
        return ""


@dataclass(frozen=True, slots=True)
class ScorerDifference:
    """The first scorer minus the second, paired.

    The intervals of AUROC hold for all pairs together with 95 %, those of false abstention
    likewise.
    """

    first: str
    second: str
    auroc: Interval
    false_abstention: Interval


class ScorerComparison:
    """Several scorers on the same cases.

    Args:
        measured: at least two, which measured the same cases.
        risk: share of the left-out questions that may pass, in (0, 1).
        price: of a call of a language model, in any currency; None where it is not known.

    Attributes:
        questions: that were asked.
        passages: that hold their answers, or documents of a chain; the bootstrap draws these.
        retrieval_misses: questions whose passage was not retrieved: only their left-out cases
            count.
        scorers: in the order in which they were named.
        failed: cases that failed, of all scorers.
        differences: of each pair.
        choice: which one to take.
        curves: per scorer its operating points, the strictest first.

    Raises:
        InputError: the cases differ.
    """

    def __init__(
        self, measured: Sequence[MeasuredScorer], *, risk: float, price: float | None = None
    ) -> None:
        self.price = price
        cases, self.retrieval_misses = _same_cases(measured)
        paired = _paired(measured, cases)
        self.questions = len({row.question_id for row in measured[0].run.rows})
        self.passages, self.risk = paired.count, risk
        self.scorers = [_numbers(one, paired, risk) for one in measured]
        self.failed = sum(one.failed for one in self.scorers)
        usable = [n.name for n in self.scorers if paired.positives[n.name] and n.failed < n.cases]
        pairs = list(combinations(usable, 2))
        # Bonferroni: the intervals of all pairs hold together.
        confidence = 1 - _LEVEL / max(1, len(pairs))
        self.differences = [
            ScorerDifference(
                one,
                other,
                paired.auroc_difference(one, other, confidence=confidence),
                paired.false_abstention_difference(one, other, risk, confidence=confidence),
            )
            for one, other in pairs
        ]
        self.choice = choose_scorer(self.scorers, self.differences, paired.count)
        self.curves = {
            name: OperatingPoint.curve(paired.positives[name], paired.negatives[name])
            for name in usable
        }

    def cost_of_1000(self, scorer: ScorerNumbers) -> str:
        """What the calls for 1,000 questions cost, where the price of one is known."""
        return f"{1000 * scorer.calls_per_question * (self.price or 0.0):.2f}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON; the curves are not in it."""
        names = ("questions", "passages", "retrieval_misses", "risk", "scorers", "differences")
        found = {name: as_json(getattr(self, name)) for name in (*names, "choice")}
        priced = {} if self.price is None else {"price": self.price}
        return {"schema_version": 1, **priced, **found}


def choose_scorer(
    scorers: Sequence[ScorerNumbers], differences: Sequence[ScorerDifference], passages: int
) -> ScorerChoice:
    """Choose the cheapest scorer that no other one is shown to be better than.

    Scorers that fail on more than 5 % of their cases, or are not shown to be better than
    chance, are not chosen. Of several that cost about the same the one with the highest AUROC is
    chosen. One scorer is shown to be better than another if the interval of
    their difference in AUROC lies above 0; the intervals hold for all pairs together.

    Args:
        scorers: at least two.
        differences: of each pair of those that have an AUROC.
        passages: independent pieces of evidence.
    """
    fit = [one for one in scorers if not one.unfit]
    if not fit:
        return ScorerChoice("none", None, SCORERS_WORDS.text("none_fit", scorers))
    if passages < _FEWEST:
        why = SCORERS_WORDS.text("too_few", passages, _FEWEST)
        return ScorerChoice("cannot_be_told", None, why)
    # Per scorer and other scorer, the interval of how much better the other one is.
    against: dict[str, dict[str, tuple[float, float]]] = {one.name: {} for one in fit}
    for one in differences:
        if one.first in against and one.second in against:
            low, high = one.auroc.low or 0.0, one.auroc.high or 0.0
            against[one.first][one.second] = -high, -low
            against[one.second][one.first] = low, high
    not_worse = [one for one in fit if all(low <= 0 for low, _ in against[one.name].values())]
    calls, milliseconds = min(one.cost for one in not_worse)
    most = calls, _SAME_TIME * milliseconds
    cheapest = [
        one for one in not_worse if all(a <= b for a, b in zip(one.cost, most, strict=True))
    ]
    take, best = (max(of, key=lambda one: one.auroc.value or 0.0) for of in (cheapest, fit))
    better_by = against[take.name]
    maybe_better = {name: ends for name, ends in better_by.items() if ends[1] > _MARGIN}
    outcome: Outcome = "as_good"
    if maybe_better:
        outcome = "cannot_be_told"
    elif not better_by:
        outcome = "only_one"
    elif all(high < 0 for _, high in better_by.values()):
        outcome = "better"
    unfit = [one for one in scorers if one.unfit]
    reason = SCORERS_WORDS.text(outcome, take, maybe_better, best, unfit)
    return ScorerChoice(outcome, take.name, reason)


def _same_cases(measured: Sequence[MeasuredScorer]) -> tuple[list[MeasuredRow], int]:
    """The cases with and without answer that all scorers judged, without retrieval misses.

    Those without are the user's own unanswerable questions, where there are any.

    Raises:
        InputError: the scorers judged different cases.
    """
    first = measured[0].run
    for one in measured[1:]:
        same = [row.case_id for row in one.run.rows] == [row.case_id for row in first.rows]
        if not same or dict(one.run.questions) != dict(first.questions):
            raise InputError(
                f"{one.name} and {measured[0].name} were measured on different questions",
                hint="choose another --out",
            )
    missing = CaseKind.UNANSWERABLE if first.unanswerable else CaseKind.LEFT_OUT
    rows = [row for row in first.rows if row.kind in (CaseKind.IN_KB, missing)]
    # A row that failed before anything was retrieved does not know of a miss.
    missed = {row.case_id for one in measured for row in one.run.rows if row.retrieval_miss}
    return [row for row in rows if row.case_id not in missed], len(missed)


def _paired(measured: Sequence[MeasuredScorer], cases: Sequence[MeasuredRow]) -> PairedScores:
    questions = measured[0].run.questions
    scores = {one.name: {row.case_id: _score(row) for row in one.run.rows} for one in measured}
    found, owners = [], []
    for in_kb in (True, False):
        side = [row for row in cases if (row.kind is CaseKind.IN_KB) is in_kb]
        found.append({name: [own[row.case_id] for row in side] for name, own in scores.items()})
        owners.append([_owner(questions[row.question_id], row) for row in side])
    return PairedScores(found[0], found[1], (owners[0], owners[1]))


def _owner(question: Question, row: MeasuredRow) -> str:
    """What a case is evidence about: its unit, or the topic of an unanswerable question."""
    if row.kind is CaseKind.UNANSWERABLE and question.topic:
        return f"topic {question.topic}"
    return question.evidence


def _score(row: MeasuredRow) -> float:
    """The raw relevance; below all others where the guard abstains without one."""
    if row.error is not None or not row.retrieved or row.raw_relevance is None:
        return -math.inf
    return row.raw_relevance


def _numbers(one: MeasuredScorer, paired: PairedScores, risk: float) -> ScorerNumbers:
    cases, errors = len(one.run.rows), error_types(one.run.rows)
    failed = sum(errors.values())
    return ScorerNumbers(
        name=one.name,
        # Of a scorer that never answered there is no number, not one of a coin.
        auroc=paired.auroc(one.name) if failed < cases else Interval(),
        false_abstention=paired.false_abstention(one.name, risk) if failed < cases else Interval(),
        cases=cases,
        failed=failed,
        errors=errors,
        milliseconds=median(one.milliseconds) if one.milliseconds else None,
        calls_per_question=(one.calls or 0) / cases,
    )
