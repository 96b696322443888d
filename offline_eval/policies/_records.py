"""What a policy does with measured cases, and how often it is wrong."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ...calibration import UNDEFINED, Interval, wilson_interval
from ...guard.contracts import ConflictBetween
from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.policy import Fingerprint, Policy
from ...guard.routing import Signals, decide_route
from ..run import CaseKind, MeasuredRow, MeasuredRun, read_manifest, read_measured_run
from ..suites.uniknow import UniKnowSignal, uniknow_signals


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One question with one context: both signals as measured, and who was right.

    Attributes:
        question_id: shared by the cases of one question, which is what is counted.
        relevance: on the scorer's own scale, or a probability; None: the signal failed.
        confidence: likewise of the estimator.
        context_right: whether the reply that follows the context is right; None: not
            known, which counts as wrong.
        closed_book_right: likewise of the reply without context.
        group: questions of one document or domain share it; "" for a question on its own.
        conflict: what the conflict signal said, None where it was not asked or failed.
        weight: how much the case counts in the estimate of a rate, above 0.
        case: kind of the case, unique within the question.
        nothing_retrieved: there was no passage: relevance is then 0, whatever the scale.
    """

    question_id: str
    relevance: float | None
    confidence: float | None
    context_right: bool | None
    closed_book_right: bool | None
    group: str = ""
    conflict: bool | None = None
    weight: float = 1.0
    case: str = ""
    nothing_retrieved: bool = False

    @property
    def unit(self) -> tuple[str, str]:
        """What must stay together in a split: the group, or the question on its own."""
        return ("group", self.group) if self.group else ("question", self.question_id)


@dataclass(frozen=True, slots=True)
class MeasuredCases:
    """Cases, with what measured them.

    Attributes:
        cases: in their order.
        source: file or folder they come from.
        scorer: what measured relevance, None where nobody said.
        estimator: what measured confidence, None where nobody said or nothing did.
        aggregator: how passage scores became one value.
        population: what kind of questions and cases these are, in words; may be "".
        conflict_between: what the cases' `conflict` compares, as in `Policy`.
    """

    cases: tuple[MeasuredCase, ...]
    source: str
    scorer: Fingerprint | None = None
    estimator: Fingerprint | None = None
    aggregator: str = "max"
    population: str = ""
    conflict_between: ConflictBetween = "memory"

    @property
    def name(self) -> str:
        """Of the file or folder alone: a report says the same wherever they lie."""
        return Path(os.path.abspath(self.source)).name

    @property
    def questions(self) -> int:
        """How many there are, case variants aside."""
        return len({case.question_id for case in self.cases})

    @property
    def groups(self) -> int:
        """How many there are; a question without a group is one of its own."""
        return len({case.unit for case in self.cases})

    @property
    def sha256(self) -> str:
        """Hash of the cases, independent of their order."""
        lines = sorted(json.dumps(astuple(case)) for case in self.cases)
        return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


Floats = NDArray[np.float64]
_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case under a policy.

    Attributes:
        case: as measured.
        relevance: calibrated, None where the signal failed.
        confidence: likewise.
        route: where the policy sends it.
    """

    case: MeasuredCase
    relevance: float | None
    confidence: float | None
    route: Route

    @property
    def passes(self) -> bool:
        """Whether anything is answered."""
        return self.route is not Route.ABSTAIN

    @property
    def wrong(self) -> bool:
        """Whether what is answered is wrong; not known counts as wrong."""
        if self.route is Route.FOLLOW_CONTEXT:
            return not self.case.context_right
        return self.route is Route.ANSWER and not self.case.closed_book_right

    @property
    def answerable(self) -> bool:
        """Whether following the context or answering from memory would have been right."""
        return bool(self.case.context_right or self.case.closed_book_right)


def outcomes_under(policy: Policy, cases: Sequence[MeasuredCase]) -> list[Outcome]:
    """Each case as a guard with this policy would decide it."""
    found = []
    for case in cases:
        relevance = calibrated_relevance(policy, case)
        confidence = calibrated_confidence(policy, case)
        signals = Signals.replay(
            policy, relevance, confidence, case.conflict, nothing_retrieved=case.nothing_retrieved
        )
        route = decide_route(policy, signals).route
        found.append(Outcome(case, relevance, confidence, route))
    return found


def calibrated_relevance(policy: Policy, case: MeasuredCase) -> float | None:
    """Relevance in [0, 1]; 0 where nothing was retrieved."""
    if case.nothing_retrieved:
        return 0.0
    return None if case.relevance is None else policy.relevance_calibrator.apply(case.relevance)


def calibrated_confidence(policy: Policy, case: MeasuredCase) -> float | None:
    """Confidence in [0, 1]."""
    return None if case.confidence is None else policy.confidence_calibrator.apply(case.confidence)


@dataclass(frozen=True, slots=True)
class Rates:
    """How a policy did on a part of the cases, with 95 % intervals.

    Attributes:
        cases: how many.
        questions: how many, case variants aside.
        coverage: share of cases that are let through.
        risk: share of those let through that are answered wrongly.
        followed: share of cases whose context is followed.
        followed_wrong: share of those that are answered wrongly.
        answered: share of cases answered from memory.
        answered_wrong: share of those that are answered wrongly.
        false_abstention: share of cases with a right answer to give that are declined.
    """

    cases: int
    questions: int
    coverage: Interval
    risk: Interval
    followed: Interval
    followed_wrong: Interval
    answered: Interval
    answered_wrong: Interval
    false_abstention: Interval


def rates_of(outcomes: Sequence[Outcome], *, seed: int = 0) -> Rates:
    """The rates; every case counts by its weight.

    Args:
        outcomes: of any number of questions.
        seed: of the resampling behind the intervals.
    """

    def rate(
        of: Callable[[Outcome], bool], among: Callable[[Outcome], bool] = lambda _: True
    ) -> Interval:
        return clustered_rate(
            [
                (outcome.case.unit, outcome.case.weight, of(outcome))
                for outcome in outcomes
                if among(outcome)
            ],
            seed=seed,
        )

    return Rates(
        cases=len(outcomes),
        questions=len({outcome.case.question_id for outcome in outcomes}),
        coverage=rate(lambda o: o.passes),
        risk=rate(lambda o: o.wrong, lambda o: o.passes),
        followed=rate(lambda o: o.route is Route.FOLLOW_CONTEXT),
        followed_wrong=rate(lambda o: o.wrong, lambda o: o.route is Route.FOLLOW_CONTEXT),
        answered=rate(lambda o: o.route is Route.ANSWER),
        answered_wrong=rate(lambda o: o.wrong, lambda o: o.route is Route.ANSWER),
        false_abstention=rate(lambda o: not o.passes, lambda o: o.answerable),
    )


def clustered_rate(
    trials: Sequence[tuple[tuple[str, str], float, bool]], *, seed: int = 0
) -> Interval:
    """Weighted share of trials that came true, with a 95 % interval over units.

    Where each unit has one trial of the same weight it is Wilson's interval; otherwise
    units are resampled, since the trials of one unit are no independent evidence. Of few
    units resampling says too little: the interval is then that of Student's t, if wider.

    Args:
        trials: unit, weight and whether it came true.
        seed: of the resampling.

    Returns:
        The interval; `n` counts units. Undefined without trials.

    Example:
        >>> clustered_rate([(("group", "a"), 1.0, True), (("group", "b"), 1.0, False)]).value
        0.5
    """
    if not trials:
        return UNDEFINED
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for unit, weight, true in trials:
        sums[unit][0] += weight * true
        sums[unit][1] += weight
    pairs = np.asarray(list(sums.values()))
    hits, totals = pairs[:, 0], pairs[:, 1]
    n, value = len(pairs), float(hits.sum() / totals.sum())
    whole = np.isin(hits, (0.0, totals[0])).all() and (totals == totals[0]).all()
    if not whole:
        rng = np.random.default_rng(seed)
        drawn = []
        for _ in range(_RESAMPLES):
            picks = np.bincount(rng.integers(0, n, n), minlength=n)
            drawn.append(float(picks @ hits) / float(picks @ totals))
        low, high = (float(end) for end in np.quantile(drawn, [0.025, 0.975]))
        if low < high:
            off = _students_error(hits, totals)
            return Interval(
                value, max(0.0, min(low, value - off)), min(1.0, max(high, value + off)), n
            )
    # As if each unit were one trial: resampling units that all went alike says nothing.
    near = wilson_interval(round(value * n), n)
    low, high = near.low or 0.0, 1.0 if near.high is None else near.high
    return Interval(value, min(low, value), max(high, value), n)


def _students_error(hits: Floats, totals: Floats) -> float:
    """Half the width of the t-interval of a ratio over units, at 95 %; 0 for one unit."""
    from scipy.special import stdtrit

    n = len(hits)
    if n < 2:
        return 0.0
    residuals = hits - totals * (hits.sum() / totals.sum())
    error = math.sqrt(n / (n - 1) * float(residuals @ residuals)) / float(totals.sum())
    return float(stdtrit(n - 1, 0.975)) * error


_POPULATION = (
    "questions on this knowledge base, each asked twice: with the whole of it and with the "
    "passage that holds the answer left out, both counting the same; a context counts as right "
    "if that passage was retrieved"
)


def records_from_ookb(run: str | os.PathLike[str]) -> MeasuredCases:
    """Two cases per question: with the whole knowledge base, and with its source left out.

    The suite judges no reply: a context counts as right where the question's own passage
    was retrieved, and never with that passage left out. It measures no confidence.

    Raises:
        InputError: no finished run of this suite lies there.
    """
    found: MeasuredRun = read_measured_run(run, with_calibration=False)
    return MeasuredCases(
        cases=tuple(_case(found, row) for row in found.rows),
        source=os.fspath(run),
        scorer=found.manifest.settings.scorer,
        aggregator=found.manifest.settings.aggregator,
        population=_POPULATION,
    )


def _case(run: MeasuredRun, row: MeasuredRow) -> MeasuredCase:
    failed = row.error is not None
    return MeasuredCase(
        question_id=row.question_id,
        relevance=None if failed else row.raw_relevance,
        confidence=None,
        context_right=row.kind is CaseKind.IN_KB and not failed and not row.retrieval_miss,
        closed_book_right=None,
        group=run.questions[row.question_id].own_passage,
        case=row.kind.value,
        nothing_retrieved=not failed and not row.retrieved,
    )


_RUN_AGAIN = "run `knowgate eval uniknow` again into another folder"


def records_from_uniknow(run: str | os.PathLike[str]) -> MeasuredCases:
    """One case per question and context, with what the run's guard measured of it.

    A context counts as right where the model's plain reply to it is the expected one. The
    run's training and evaluation questions are both taken: calibration makes parts of its own.

    Raises:
        InputError: no such run, no guard took part, or it is not whole.
    """
    signals = uniknow_signals(run)
    settings = read_manifest(run).get("settings")
    where = str(Path(run) / "manifest.json")
    found: dict[str, Any] = settings if isinstance(settings, dict) else {}
    dataset = found.get("dataset", "")
    kinds = ", ".join(dict.fromkeys(signal.kind.replace("_", " ") for signal in signals))
    return MeasuredCases(
        cases=tuple(_case_from_uniknow(signal) for signal in signals),
        source=os.fspath(run),
        scorer=_fingerprint(found.get("scorer"), "scorer", where),
        estimator=_fingerprint(found.get("estimator"), "estimator", where),
        aggregator=str(found.get("aggregator") or "max"),
        population=f"questions of the data set {dataset}, each with a context of every kind that "
        f"was made ({kinds}), all kinds counting the same",
    )


def _case_from_uniknow(signal: UniKnowSignal) -> MeasuredCase:
    return MeasuredCase(
        question_id=f"{signal.dataset}/{signal.question_id}",
        relevance=signal.raw_relevance,
        confidence=signal.raw_confidence,
        context_right=signal.context_right,
        closed_book_right=signal.closed_book_right,
        group=f"{signal.dataset}/{signal.group}" if signal.group else "",
        case=signal.kind,
    )


def _fingerprint(value: Any, name: str, where: str) -> Fingerprint:
    try:
        return Fingerprint.model_validate(value)
    except ValidationError:
        raise InputError(
            f"field 'settings.{name}' is no fingerprint", where=where, hint=_RUN_AGAIN
        ) from None


_SUITES = {"ookb": records_from_ookb, "uniknow": records_from_uniknow}


def records_from_run(run: str | os.PathLike[str]) -> MeasuredCases:
    """The cases of a finished run folder, by the suite that its manifest names.

    Raises:
        InputError: no such run, a suite that measures nothing to calibrate on, or a run
            that its suite's reader refuses.
    """
    suite = str(read_manifest(run).get("suite"))
    if suite not in _SUITES:
        raise InputError(
            f"a run of suite {suite!r} holds nothing to calibrate on",
            where=str(Path(run) / "manifest.json"),
            hint=f"name a run of: {', '.join(_SUITES)}; or write a records file (--records)",
        )
    return _SUITES[suite](run)
