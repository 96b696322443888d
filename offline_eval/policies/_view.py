"""What the template of the calibration report shows: words and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...calibration import Interval
from ...guard.policy import Fingerprint, Guarantee, Policy
from ..report import decimal, exact_percent, one_line, percent
from ._fit import Calibrated, questions_to_give
from ._quality import PathStep, SelectiveQuality, SignalQuality
from ._records import MeasuredCase, MeasuredCases, Rates

UNNAMED = "unnamed"
"""Kind of the fingerprint that stands for "nobody said what measured it"."""

_FEW_UNITS = 30
_CROWDED = 3.0


def limits(policy: Policy) -> list[str]:
    """What the guarantee does not speak of, beyond what its own statement says.

    Empty where nothing is certified: then there is no promise with limits.
    """
    if policy.guarantee is None or not policy.guarantee.certified:
        return []
    kinds = {risk.kind for risk in policy.guarantee.risks}
    lines = ["questions of which fewer can be answered than of these: more of what passes is wrong"]
    if not kinds & {"false_abstention", "cost"}:
        lines.append("how often it declines without need: that is measured, not bounded")
    if policy.may_follow and policy.may_answer and "answer" not in kinds:
        lines.append(
            "each route on its own: contexts followed and answers from memory are bounded together"
        )
    if policy.scorer.kind == UNNAMED:
        lines.append(
            "a guard that serves with some scorer: the records do not name theirs, so no guard "
            "loads this policy"
        )
    return lines


def cautions(
    measured: MeasuredCases, certify: Sequence[MeasuredCase], policy: Policy, *, share: float
) -> list[str]:
    """What to know before trusting the promise; often nothing.

    Args:
        measured: all cases.
        certify: those that the certificate rests on.
        policy: what came of it.
        share: of the questions that was fitted on.
    """
    certified = policy.guarantee is not None and policy.guarantee.certified
    found = [*_unnamed(measured), *(_crowded(certify) if certified else [])]
    found += [*_off_scale(measured), *_unjudged(measured)]
    return [*found, *_in_all(measured, certify, policy, share)]


def _in_all(
    measured: MeasuredCases, certify: Sequence[MeasuredCase], policy: Policy, share: float
) -> list[str]:
    """The number of further questions that would help, of all and not of those that certify."""
    more = None if policy.guarantee is None else policy.guarantee.more_questions
    if more is None:
        return []
    certifying = len({case.question_id for case in certify})
    given = questions_to_give(certifying + more, share=share) - measured.questions
    return [
        f"The number of further questions counts those that certify, {certifying} of the "
        f"{measured.questions} here: in all it takes about {max(more, given)} more."
    ]


def _unnamed(measured: MeasuredCases) -> list[str]:
    lines = []
    if measured.scorer is None:
        lines.append(
            "The records do not name the relevance scorer that measured them, so the policy is "
            'bound to none and no guard loads it: add {"scorer": {"kind": …}} as their first line.'
        )
    if measured.estimator is None and any(c.confidence is not None for c in measured.cases):
        lines.append(
            "The records do not name the confidence estimator that measured them, so no guard can "
            'check that it serves with the same one: add {"estimator": {"kind": …}} to their '
            "first line."
        )
    return lines


def _crowded(certify: Sequence[MeasuredCase]) -> list[str]:
    questions = len({case.question_id for case in certify})
    units = len({case.unit for case in certify})
    lines = []
    if units < _FEW_UNITS:
        lines.append(
            f"Only {units} independent unit{' certifies' if units == 1 else 's certify'}: a "
            "promise from so few hangs on each of them."
        )
    if units and questions / units >= _CROWDED:
        lines.append(
            f"{questions} questions come from {units} group{'' if units == 1 else 's'}. Questions "
            "of one group tend to go alike, and the test takes each for independent: more groups "
            "say more than more questions."
        )
    return lines


def _off_scale(measured: MeasuredCases) -> list[str]:
    """A guard takes relevance on any scale, but confidence as a probability alone."""
    off = sum(c.confidence is not None and not 0 <= c.confidence <= 1 for c in measured.cases)
    if not off:
        return []
    return [
        f"In {off} case{'' if off == 1 else 's'} confidence lies outside 0 and 1. A guard takes "
        "such a confidence for a failed one: bring it to 0 to 1 before measuring and serving."
    ]


def _unjudged(measured: MeasuredCases) -> list[str]:
    unknown = sum(case.context_right is None for case in measured.cases)
    if not unknown:
        return []
    return [
        f"Of {unknown} cases nobody knows whether the context's answer is right; they count as "
        "wrong."
    ]


_NONE = "–"
_STEPS_AROUND = 5


@dataclass(frozen=True, slots=True)
class RateLine:
    """A line of the table of rates."""

    name: str
    value: str
    interval: str
    n: int
    meaning: str


@dataclass(frozen=True, slots=True)
class StepLine:
    """A line of the table of the path; `kind` is a class of the style sheet."""

    number: int
    relevance: str
    confidence: str
    coverage: str
    risk: str
    p_value: str
    words: str
    kind: str


@dataclass(frozen=True, slots=True)
class SignalLine:
    """A line of the table of signals."""

    name: str
    error_before: str
    error_after: str
    brier_before: str
    brier_after: str
    auroc: str
    cases: int
    choice: str


@dataclass(frozen=True, slots=True)
class RankingLine:
    """A line of the table of selective metrics."""

    name: str
    aurc: str
    excess: str
    augrc: str
    coverage: str
    cases: int


@dataclass(frozen=True, slots=True)
class CalibrationView:
    """Everything that the template shows."""

    title: str
    subtitle: str
    headline: tuple[str, ...]
    warnings: tuple[str, ...]
    rates: tuple[RateLine, ...]
    nothing_kept_back: str
    statement: str
    population: str
    not_promised: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    steps: tuple[StepLine, ...]
    signals: tuple[SignalLine, ...]
    rankings: tuple[RankingLine, ...]
    coverage_column: str
    risk_column: str
    data: tuple[tuple[str, str], ...]


def calibration_view(
    found: Calibrated, signals: Sequence[SignalQuality], rankings: Sequence[SelectiveQuality]
) -> CalibrationView:
    """The view of one calibration."""
    guarantee = found.policy.guarantee
    risk = None if guarantee is None else guarantee.risk
    of_cost = promises_a_cost(guarantee)
    return CalibrationView(
        title=one_line(f"Calibration on {found.measured.name}"),
        subtitle=f"{found.measured.questions} questions, {len(found.measured.cases)} cases, "
        f"{found.measured.groups} independent units · {found.policy.created_by}",
        headline=tuple(headline(found)),
        warnings=tuple(one_line(line) for line in found.warnings),
        rates=tuple(rate_lines(found.rates, promised=not of_cost)),
        nothing_kept_back="Nothing was kept back, so nothing is reported on unseen questions.",
        statement=one_line("" if guarantee is None else guarantee.statement),
        population=_population(found),
        not_promised=tuple(one_line(line) for line in (*guarantee.not_covered, *found.not_promised))
        if guarantee is not None and guarantee.certified
        else (),
        facts=tuple(_facts(found)),
        steps=tuple(_step(step, of_cost) for step in _shown(found.steps)),
        signals=tuple(_signal(quality) for quality in signals),
        rankings=tuple(_ranking(quality) for quality in rankings),
        coverage_column="" if risk is None else f"Coverage at risk {percent(risk)}",
        risk_column="Mean cost" if of_cost else "Of those wrong",
        data=tuple((name, one_line(value)) for name, value in _data(found)),
    )


def headline(found: Calibrated) -> list[str]:
    """The result in two or three sentences, the most important one first."""
    guarantee, rates = found.policy.guarantee, found.rates
    lines = ["Nothing could be certified, so this policy always abstains."]
    if guarantee is not None and guarantee.certified:
        lines = [f"Certified with confidence {percent(1 - guarantee.delta)}: {_bound(found)}."]
    if rates is not None and rates.coverage.value is not None:
        line = f"On questions kept back it lets {percent(rates.coverage.value)} of cases through"
        if rates.risk.value is not None:
            line += f", of which {percent(rates.risk.value)} are wrong"
        lines.append(f"{line}.")
    return lines


def promises_a_cost(guarantee: Guarantee | None) -> bool:
    """Whether the bound is on what mishaps cost, and not on how much is wrong."""
    return guarantee is not None and any(risk.kind == "cost" for risk in guarantee.risks)


def _bound(found: Calibrated) -> str:
    """What is certified, as short as can be; the statement has it in full."""
    guarantee = found.policy.guarantee
    if guarantee is None:
        return "nothing"
    risk = _as_bound(guarantee.risk)
    kinds = {stored.kind for stored in guarantee.risks}
    if promises_a_cost(guarantee):
        return f"the mean cost per question is at most {guarantee.risk:g}"
    if found.coverage is not None:
        return f"at least {percent(found.coverage)} is let through, at most {risk} of it wrong"
    each = ", by each route and together" if "follow" in kinds else ""
    return f"at most {risk} of what it lets through is wrong{each}"


def _population(found: Calibrated) -> str:
    guarantee = found.policy.guarantee
    drawn = one_line(found.measured.population)
    calibrated_on = f" Calibrated on: {drawn}." if drawn else ""
    words = "" if guarantee is None else guarantee.population
    return f"{words[:1].upper()}{words[1:]}.{calibrated_on}" if words else calibrated_on


def rate_lines(rates: Rates | None, *, promised: bool = True) -> list[RateLine]:
    """How the policy did on questions kept back; empty where there were none.

    Args:
        rates: on these questions.
        promised: whether the promise is about how much is wrong.
    """
    if rates is None:
        return []
    named: list[tuple[str, Interval, str]] = [
        (
            "wrong among those let through",
            rates.risk,
            "what the promise is about" if promised else "",
        ),
        ("let through", rates.coverage, "of all cases; higher is better at the same risk"),
        (
            "declined without need",
            rates.false_abstention,
            "of cases where context or memory would have been right",
        ),
        ("context followed", rates.followed, "of all cases"),
        ("wrong among the followed", rates.followed_wrong, "the context's answer was not right"),
        ("answered from memory", rates.answered, "of all cases"),
        (
            "wrong among those from memory",
            rates.answered_wrong,
            "the model's own answer was not right",
        ),
    ]
    return [
        RateLine(name, _share(rate.value), _ends(rate), rate.n, meaning)
        for name, rate, meaning in named
    ]


def _facts(found: Calibrated) -> list[tuple[str, str]]:
    policy, guarantee = found.policy, found.policy.guarantee
    facts = [
        ("the context is followed from relevance", _threshold(policy.relevance_threshold)),
        (
            "without it, memory answers from confidence",
            _threshold(policy.confidence_threshold if policy.may_answer else None),
        ),
    ]
    if policy.check_conflict:
        facts.append(("a conflict leads to", policy.on_conflict.replace("_", " ")))
    if found.coverage is not None:
        facts.append(("coverage asked for", percent(found.coverage)))
    if guarantee is not None:
        tested = "the certificate rests" if guarantee.certified else "the test rests"
        if guarantee.certified or found.coverage is None:
            facts.append(("bound α", _as_bound(guarantee.risk)))
        facts += [
            ("probability δ that the promise fails by bad luck", percent(guarantee.delta)),
            ("what counts as an error", one_line(guarantee.loss)),
            (f"questions {tested} on", _evidence(guarantee)),
            ("how the points were tested", guarantee.method),
        ]
    return facts


def _as_bound(share: float) -> str:
    """A bound in percent: as it was asked for, or, found from data, rounded up to a tenth."""
    asked = round(share, 6) == share
    return exact_percent(share if asked else math.ceil(1000 * share) / 1000)


def _evidence(guarantee: Guarantee) -> str:
    if guarantee.questions is None or guarantee.questions == guarantee.n:
        return f"{guarantee.n}, of them {guarantee.errors} with an error"
    return (
        f"{guarantee.questions}, of them {guarantee.n} count for the bound and "
        f"{guarantee.errors} went wrong"
    )


def _threshold(value: float | None) -> str:
    return "never" if value is None else decimal(value)


def _shown(steps: Sequence[PathStep]) -> list[PathStep]:
    """The points around the chosen one, or around where testing stopped; the JSON has all."""
    tested = [step.number for step in steps if step.tested]
    chosen = [step.number for step in steps if step.chosen]
    middle = next(iter(chosen or tested[-1:]), 1)
    return [step for step in steps if abs(step.number - middle) <= _STEPS_AROUND]


def _step(step: PathStep, of_cost: bool) -> StepLine:
    words, kind = ("not tested", "later") if not step.tested else ("", "")
    if step.chosen:
        words, kind = "chosen", "chosen"
    return StepLine(
        number=step.number,
        relevance=decimal(step.relevance),
        confidence=decimal(step.confidence),
        coverage=_share(step.coverage),
        risk=decimal(step.risk) if of_cost else _share(step.risk),
        p_value=_p_value(step.p_value),
        words=words,
        kind=kind,
    )


def _p_value(value: float) -> str:
    return "below 0.0001" if value < 1e-4 else f"{value:.4f}"


def _signal(quality: SignalQuality) -> SignalLine:
    before, after = quality.before, quality.after
    losses = ", ".join(
        f"{kind} {loss:.3f}" for kind, loss in sorted(quality.losses.items(), key=lambda x: x[1])
    )
    compared = f" Log loss on folds kept back: {losses}." if losses else ""
    failed = f" It failed on {quality.failed} cases." if quality.failed else ""
    return SignalLine(
        name=quality.name,
        error_before=_NONE if before is None else _with_ends(before.calibration_error),
        error_after=_with_ends(after.calibration_error),
        brier_before=_NONE if before is None else _with_ends(before.brier),
        brier_after=_with_ends(after.brier),
        auroc=decimal(quality.auroc),
        cases=quality.cases,
        choice=f"Calibrator of {quality.name}: {quality.kind.replace('_', '–')}, because "
        f"{quality.reason}.{compared}{failed}",
    )


def _ranking(quality: SelectiveQuality) -> RankingLine:
    return RankingLine(
        name=quality.name,
        aurc=_with_ends(quality.aurc),
        excess=_with_ends(quality.excess),
        augrc=_with_ends(quality.augrc),
        coverage="none" if quality.coverage is None else percent(quality.coverage),
        cases=quality.cases,
    )


def _data(found: Calibrated) -> list[tuple[str, str]]:
    policy = found.policy
    estimator = "none" if policy.estimator is None else _fingerprint(policy.estimator)
    # Where a coverage is asked for, a part of these declares the points for the others.
    tested = "tested on" if found.coverage is None else "points declared and tested on"
    return [
        ("measured cases", found.measured.name),
        ("sha256 of the cases", found.measured.sha256),
        ("calibrators and path learnt on", _counts(found.learn)),
        (tested, _counts(found.certify)),
        ("kept back for reporting", _counts(found.test)),
        ("seed of the split", str(found.seed)),
        ("relevance scorer", _fingerprint(policy.scorer)),
        ("confidence estimator", estimator),
        ("aggregator", policy.aggregator),
        ("made by", policy.created_by),
    ]


def _counts(cases: Sequence[MeasuredCase]) -> str:
    questions = len({case.question_id for case in cases})
    units = len({case.unit for case in cases})
    return f"{questions} questions, {len(cases)} cases, {units} independent units"


def _fingerprint(fingerprint: Fingerprint) -> str:
    if fingerprint.kind == "unnamed":
        return "not named by the records"
    settings = ", ".join(f"{name} {value}" for name, value in fingerprint.settings.items())
    parts = [fingerprint.kind, fingerprint.weights_sha256 or "", fingerprint.dtype or "", settings]
    return " · ".join(part for part in parts if part)


def _share(value: float | None) -> str:
    return _NONE if value is None else percent(value)


def _with_ends(interval: Interval) -> str:
    if interval.value is None:
        return _NONE
    if interval.low is None or interval.high is None:
        return decimal(interval.value)
    return f"{decimal(interval.value)} [{decimal(interval.low)}, {decimal(interval.high)}]"


def _ends(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return _NONE
    return f"{percent(interval.low)} to {percent(interval.high)}"
