"""Texts and tables of the calibration report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...calibration import CalibrationRecord, Interval
from ...calibration.risk import UNNAMED
from ...guard.policy import Fingerprint, Guarantee
from ..report import decimal, exact_percent, one_line, percent
from ._fit import Calibrated
from ._quality import PathStep, SelectiveQuality, SignalQuality
from ._rates import Rates

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
        subtitle=f"{found.measured.questions} questions, {len(found.measured.records)} cases, "
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


def _counts(cases: Sequence[CalibrationRecord]) -> str:
    questions = len({case.question_id for case in cases})
    units = len({case.unit for case in cases})
    return f"{questions} questions, {len(cases)} cases, {units} independent units"


def _fingerprint(fingerprint: Fingerprint) -> str:
    if fingerprint == UNNAMED:
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
