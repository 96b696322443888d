"""Measure several scorers on the same cases of a knowledge base, and tell which one to take.

    questions ─► cases ─► one retrieval for all ─► each scorer ─► run per scorer ─► comparison

What was measured of a scorer is kept when another one is added, and a run that was killed
continues, as with `knowgate measure`. Sentences stand in `scorers.txt`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

from ....calibration import Interval
from ....calibration.selective_metrics import PairedScores
from ....guard.errors import InputError
from ....guard.signals.relevance import load_scorer
from ...report.document import Document, as_json
from ...report.layout import Page
from ...report.prose import Templates
from ...report.writing import ReportWriter
from ...run.calls import OnProgress, Progress, RunOptions
from ...run.grouping import error_types
from ...run.measured_run import MeasuredRun
from ...run.questions import CaseKind, MeasuredRow
from ...systems.served import ServedChain
from ..driver import run_suite
from ..parts import require_not_tuned_on
from ._measure import MeasureSuite
from ._settings import MeasureSettings
from .instruments import instruments_of

_WORDS = Templates(Path(__file__).parent / "scorers.txt")
_SLUG_LENGTH = 60
# Differences of AUROC up to this are too small to pay for.
_MARGIN = 0.02
# With fewer passages the intervals of a bootstrap are too narrow.
_FEWEST = 30
# Times this much above the least one count as equal: they vary with what else the machine does.
_SAME_TIME = 1.25
# Of a scorer's cases; one that fails more often is not taken.
_MAX_FAILED = 0.05
_LEVEL = 0.05


class TimedRow(MeasuredRow):
    """A measured case with what it cost.

    Attributes:
        milliseconds: that the scorer took, without retrieval; None where it failed.
        calls: of a language model; None where the scorer asks none.
    """

    milliseconds: float | None = None
    calls: int | None = None


_TIMED = MeasureSuite(TimedRow)


def compare_scorers(
    settings: MeasureSettings,
    scorers: Sequence[str],
    out: Path,
    *,
    risk: float,
    options: RunOptions | None = None,
) -> ScorerComparison:
    """Measure each scorer on the same cases, compare them, and write the report.

    Interrupted at any point and called again with the same arguments, it continues and asks
    nothing twice. Scorers may be added.

    Args:
        settings: of the cases and their retrieval; its `scorer` is not used.
        scorers: names for `load_scorer`, at least two.
        out: folder with a run folder for each scorer, and the report.
        risk: share α of the left-out questions that may pass, in (0, 1).
        options: retries, progress; the stage of the progress is the scorer.

    Raises:
        InputError: fewer than two scorers, one that cannot be loaded, was tuned on these
            questions or is named twice; or data or folder cannot be used.
        MissingDependencyError: a package is missing.
    """
    if len(set(scorers)) < max(2, len(scorers)):
        what = "a scorer is named twice" if len(scorers) > 1 else "only one is named"
        raise InputError(what, where="--scorer", hint="name two different scorers or more")
    # A wrong file is an error before anything is loaded.
    questions = {one.question_id: one.question for one in _TIMED.cases(settings)}
    loaded = {name: load_scorer(name) for name in scorers}
    chain = None if settings.chain is None else ServedChain.load(settings.chain)
    instruments = instruments_of(settings, list(loaded.values()), chain)
    for name, scorer in loaded.items():
        require_not_tuned_on(scorer, questions, name)
    measured: list[MeasuredScorer] = []
    options = options or RunOptions()
    for name, one in zip(scorers, instruments, strict=True):
        own, folder = settings.model_copy(update={"scorer": name}), out / folder_name(name)
        told = options.on_progress and partial(_staged, options.on_progress, name)
        run_suite(_TIMED, own, folder, [one], replace(options, on_progress=told))
        rows = [row for row in _TIMED.rows.read(folder) if isinstance(row, TimedRow)]
        measured.append((name, MeasuredRun.read(folder, with_calibration=False), rows))
    found = ScorerComparison(measured, risk=risk)
    ReportWriter(out).write(scorers_document(found))
    return found


def folder_name(scorer: str) -> str:
    """Return the name of a scorer's run folder: readable, and different for each scorer.

    Example:
        >>> folder_name("sufficiency"), folder_name("judge:openai:gpt-4o-mini")
        ('sufficiency', 'judge_openai_gpt-4o-mini-8b852e')
    """
    plain = re.sub(r"[^A-Za-z0-9.-]+", "_", scorer).strip("._-")[:_SLUG_LENGTH]
    if plain == scorer and plain == plain.lower():
        return plain
    # File systems may not tell upper from lower case.
    return f"{plain}-{hashlib.sha256(scorer.encode()).hexdigest()[:6]}"


def _staged(told: OnProgress, stage: str, progress: Progress) -> None:
    told(replace(progress, stage=stage))


# -- Numbers -----------------------------------------------------------------------------

# A scorer as it was named, its cases, and what each of them cost.
MeasuredScorer = tuple[str, MeasuredRun, Sequence[TimedRow]]

# What a comparison ends with: one is better than all others; one is the cheapest and no other is
# better by more than the margin; that cannot be told from so few questions; only one can be taken;
# or none.
Outcome = Literal["better", "as_good", "cannot_be_told", "only_one", "none"]


class ScorerChoice(NamedTuple):
    """Which scorer to take: how sure that is, its name (None for none), and why."""

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
    def failures(self) -> str:
        """How many cases failed, and of how many if any did."""
        return f"{self.failed} of {self.cases}" if self.failed else "0"

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


# Two scorers, and the first minus the second, paired: in AUROC, and in false abstention. The
# intervals of AUROC hold for all pairs together with 95 %, those of false abstention likewise.
ScorerDifference = tuple[str, str, Interval, Interval]


class ScorerComparison:
    """Several scorers on the same cases.

    Args:
        measured: at least two, which measured the same cases.
        risk: share of the left-out questions that may pass, in (0, 1).

    Attributes:
        questions: that were asked.
        passages: that hold their answers, or documents of a chain; the bootstrap draws these.
        retrieval_misses: questions whose passage was not retrieved: only their left-out cases
            count.
        scorers: in the order in which they were named.
        failed: cases that failed, of all scorers.
        differences: of each pair.
        choice: which one to take.

    Raises:
        InputError: the cases differ.
    """

    def __init__(self, measured: Sequence[MeasuredScorer], *, risk: float) -> None:
        self.risk = risk
        cases, self.retrieval_misses = _same_cases(measured)
        paired = _paired(measured, cases)
        self.questions, self.passages = len(measured[0][1].questions), paired.count
        self.scorers = [_numbers(*one, paired, risk) for one in measured]
        self.failed = sum(one.failed for one in self.scorers)
        usable = [n.name for n in self.scorers if paired.positives[n.name] and n.failed < n.cases]
        pairs = list(combinations(usable, 2))
        # Bonferroni: the intervals of all pairs hold together.
        level = 1 - _LEVEL / max(1, len(pairs))
        self.differences = [
            (
                *pair,
                paired.difference(*pair, confidence=level),
                paired.difference(*pair, risk, confidence=level),
            )
            for pair in pairs
        ]
        self.choice = choose_scorer(self.scorers, self.differences, paired.count)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        names = ("questions", "passages", "retrieval_misses", "risk", "scorers")
        columns = ("first", "second", "auroc", "false_abstention")
        return {
            "schema_version": 1,
            **{name: as_json(getattr(self, name)) for name in names},
            "differences": as_json([dict(zip(columns, d, strict=True)) for d in self.differences]),
            "choice": self.choice._asdict(),
        }


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
        return ScorerChoice("none", None, _WORDS.text("none_fit", scorers))
    if passages < _FEWEST:
        return ScorerChoice("cannot_be_told", None, _WORDS.text("too_few", passages, _FEWEST))
    # Per scorer and other scorer, the interval of how much better the other one is.
    against: dict[str, dict[str, tuple[float, float]]] = {one.name: {} for one in fit}
    for first, second, auroc, _ in differences:
        if first in against and second in against:
            low, high = auroc.low or 0.0, auroc.high or 0.0
            against[first][second], against[second][first] = (-high, -low), (low, high)
    not_worse = [one for one in fit if all(low <= 0 for low, _ in against[one.name].values())]
    calls, time = min(one.cost for one in not_worse)
    cheapest = [
        one for one in not_worse if one.cost[0] <= calls and one.cost[1] <= _SAME_TIME * time
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
    reason = _WORDS.text(outcome, take, maybe_better, best, unfit)
    return ScorerChoice(outcome, take.name, reason)


def _same_cases(measured: Sequence[MeasuredScorer]) -> tuple[list[MeasuredRow], int]:
    """The cases with and without answer that all scorers judged, without retrieval misses.

    Those without are the user's own unanswerable questions, where there are any.

    Raises:
        InputError: the scorers judged different cases.
    """
    named, first, _ = measured[0]
    for name, run, _ in measured[1:]:
        same = [row.case_id for row in run.rows] == [row.case_id for row in first.rows]
        if not same or dict(run.questions) != dict(first.questions):
            what = f"{name} and {named} were measured on different questions"
            raise InputError(what, hint="choose another --out")
    missing = CaseKind.UNANSWERABLE if first.unanswerable else CaseKind.LEFT_OUT
    rows = [row for row in first.rows if row.kind in (CaseKind.IN_KB, missing)]
    # A row that failed before anything was retrieved does not know of a miss.
    missed = {row.case_id for _, run, _ in measured for row in run.rows if row.retrieval_miss}
    return [row for row in rows if row.case_id not in missed], len(missed)


def _paired(measured: Sequence[MeasuredScorer], cases: Sequence[MeasuredRow]) -> PairedScores:
    scores = {name: {row.case_id: _score(row) for row in run.rows} for name, run, _ in measured}

    def owner(row: MeasuredRow) -> str:
        """What a case is evidence about: its unit, or the topic of an unanswerable question."""
        question = measured[0][1].questions[row.question_id]
        topic = question.topic if row.kind is CaseKind.UNANSWERABLE else None
        return f"topic {topic}" if topic else question.evidence

    good, bad = ([row for row in cases if (row.kind is CaseKind.IN_KB) is k] for k in (True, False))
    positives, negatives = (
        {name: [own[row.case_id] for row in side] for name, own in scores.items()}
        for side in (good, bad)
    )
    return PairedScores(positives, negatives, (list(map(owner, good)), list(map(owner, bad))))


def _score(row: MeasuredRow) -> float:
    """The raw relevance; below all others where the guard abstains without one."""
    if row.error is not None or not row.retrieved or row.raw_relevance is None:
        return -math.inf
    return row.raw_relevance


def _numbers(
    name: str, run: MeasuredRun, spent: Sequence[TimedRow], paired: PairedScores, risk: float
) -> ScorerNumbers:
    cases, errors = len(run.rows), error_types(run.rows)
    failed = sum(errors.values())
    times = [row.milliseconds for row in spent if row.milliseconds is not None]
    # Of a scorer that never answered there is no number, not one of a coin.
    known = failed < cases
    return ScorerNumbers(
        name=name,
        auroc=paired.auroc(name) if known else Interval(),
        false_abstention=paired.false_abstention(name, risk) if known else Interval(),
        cases=cases,
        failed=failed,
        errors=errors,
        milliseconds=median(times) if times else None,
        calls_per_question=sum(row.calls or 0 for row in spent) / cases,
    )


# -- The report: a table, and differences -------------------------------------------


def scorers_document(found: ScorerComparison) -> Document:
    """Make the report of a comparison of scorers."""
    pairs = {
        f"{first} − {second}": {"auroc": auroc, "false_abstention": lost}
        for first, second, auroc, lost in found.differences
    }
    scorers = [(one.name, one) for one in found.scorers]
    return Document(
        name="compare-scorers",
        title="Scorers compared",
        subtitle=_WORDS.text("subtitle", found),
        headline=(found.choice.reason,),
        warnings=_WORDS.paragraphs("warnings", found),
        sections=Page(_WORDS).sections("sections", found, scorers, pairs),
        values=found.to_dict(),
    )
