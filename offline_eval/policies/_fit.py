"""Loss tables from the command line, and from the promise of an old policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from ...calibration import (
    SMALLEST_PROBABILITY,
    CalibrationRecord,
    CalibratorChoice,
    choose_calibrator,
)
from ...calibration.risk import LossTable, RiskTarget
from ...guard.errors import InputError
from ...guard.policy import Calibrator, Guarantee, GuaranteedRisk, IdentityCalibrator, Policy
from ._quality import SIGNALS, PathStep, signal_values
from ._records import MeasuredCase, MeasuredCases, Rates


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A fitted policy with its evidence.

    Attributes:
        policy: certified, or one that always abstains and says so.
        measured: all cases, with what measured them.
        learn: cases that calibrators and path were fitted on.
        certify: cases that the certificate rests on.
        test: cases kept back for reporting; may be empty.
        choices: signal name → its calibrator and why that one.
        steps: the declared path as it was tested.
        rates: how the policy did on `test`; None where nothing was kept back.
        coverage: the share that was asked to be let through, None where a risk was asked.
        seed: of the split and of all resampling.
        warnings: what to know before trusting the promise; often nothing.
        not_promised: what the guarantee does not speak of, in words.
    """

    policy: Policy
    measured: MeasuredCases
    learn: tuple[MeasuredCase, ...]
    certify: tuple[MeasuredCase, ...]
    test: tuple[MeasuredCase, ...]
    choices: Mapping[str, CalibratorChoice]
    steps: tuple[PathStep, ...]
    rates: Rates | None
    coverage: float | None
    seed: int
    warnings: tuple[str, ...]
    not_promised: tuple[str, ...]

    @property
    def unseen(self) -> tuple[MeasuredCase, ...]:
        """Cases that neither calibrators nor path were fitted on."""
        return (*self.certify, *self.test)


def choose_calibrators(
    cases: Sequence[MeasuredCase], *, seed: int = 0
) -> dict[str, CalibratorChoice]:
    """Per signal that was measured the calibrator of its raw values.

    Relevance is calibrated to "the context's answer is right", confidence to "the
    model's own answer is right"; not known counts as wrong.

    Args:
        cases: kept for learning.
        seed: of the cross-validation.
    """
    found: dict[str, CalibratorChoice] = {}
    for name in SIGNALS:
        values = signal_values(name, cases)
        if values.raw:
            found[name] = choose_calibrator(
                values.raw, values.came_true, groups=values.units, seed=seed
            )
    return found


def calibrator_of(choices: Mapping[str, CalibratorChoice], name: str) -> Calibrator:
    """The calibrator of a signal; the identity where it was never measured."""
    return choices[name].calibrator if name in choices else IdentityCalibrator()


def calibration_records(
    cases: Sequence[MeasuredCase], relevance: Calibrator, confidence: Calibrator
) -> list[CalibrationRecord]:
    """The cases with calibrated signals; without passages relevance is 0, and no context right."""
    return [
        CalibrationRecord(
            question_id=case.question_id,
            relevance=0.0 if case.nothing_retrieved else _applied(relevance, case.relevance),
            confidence=_applied(confidence, case.confidence),
            context_right=None if case.nothing_retrieved else case.context_right,
            closed_book_right=case.closed_book_right,
            group=case.group,
            conflict=case.conflict,
            weight=case.weight,
            case=case.case,
        )
        for case in cases
    ]


def _applied(calibrator: Calibrator, raw: float | None) -> float | None:
    return None if raw is None else calibrator.apply(raw)


_NAMES = tuple(field.name for field in fields(LossTable))
_HINT = "write e.g. wrong_answer=1,false_abstention=0.2,wrong_follow=1, each from 0 to 1"


def parse_costs(text: str) -> LossTable:
    """The loss table that `name=cost,…` describes; what is not named costs as by default.

    Raises:
        InputError: an unknown name, one given twice, or a cost outside [0, 1].

    Example:
        >>> parse_costs("wrong_answer=0.5,false_abstention=0.2")
        LossTable(wrong_follow=1.0, wrong_answer=0.5, false_abstention=0.2)
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or name not in _NAMES:
            raise InputError(
                f"{part.strip()!r} is no cost (there are: {', '.join(_NAMES)})",
                where="--cost",
                hint=_HINT,
            )
        if name in found:
            raise InputError(f"{name} is given twice", where="--cost", hint=_HINT)
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if not 0.0 <= found[name] <= 1.0:
            raise InputError(
                f"{name} must cost from 0 to 1, not {value!r}", where="--cost", hint=_HINT
            )
    table = LossTable(**found)
    if not any(astuple(table)):
        raise InputError(
            "nothing costs anything, so that every policy would do", where="--cost", hint=_HINT
        )
    return table


@dataclass(frozen=True, slots=True)
class OldPromise:
    """What an old policy promised.

    Attributes:
        targets: bounds on risks; empty where a coverage was asked for.
        coverage: the share to let through, None where risks were bounded.
    """

    targets: tuple[RiskTarget, ...]
    coverage: float | None


def is_leak_promise(guarantee: Guarantee) -> bool:
    """Whether it is about unanswerable questions, whose threshold is on no path."""
    return not guarantee.path


def promise_of(guarantee: Guarantee, *, where: str) -> OldPromise:
    """The bounds that a guarantee speaks of, certified or not.

    Raises:
        InputError: nothing was certified, and the policy does not tell which bounds were
            asked for.
    """
    for risk in guarantee.risks:
        if risk.kind == "abstention":
            coverage = round(1.0 - risk.bound, 12)
            if not SMALLEST_PROBABILITY <= coverage <= 1.0 - SMALLEST_PROBABILITY:
                raise _unknown_promise(where)
            return OldPromise((), coverage)
    if guarantee.risks:
        try:
            return OldPromise(tuple(_target(risk) for risk in guarantee.risks), None)
        except (TypeError, ValueError):  # a kind of risk, or of mishap, that there is not
            raise _unknown_promise(where) from None
    if guarantee.loss == _SELECTIVE:
        return OldPromise((RiskTarget("selective", guarantee.risk),), None)
    raise InputError(
        "the policy certified nothing and does not tell which bounds were asked for",
        where=where,
        hint="make one with `knowgate calibrate`",
    )


def _unknown_promise(where: str) -> InputError:
    return InputError(
        "the policy's guarantee has a bound that is not known here",
        where=where,
        hint="make one with `knowgate calibrate`",
    )


def _target(risk: GuaranteedRisk) -> RiskTarget:
    kind: Any = risk.kind  # checked by the target itself
    return RiskTarget(kind, risk.bound, LossTable(**(risk.losses or {})))


_SELECTIVE = "a question is let through and answered wrongly"


# Calibrators and path need some questions, and no more: the test is worth the rest.
_LEARNING_SHARE, _FEW, _MOST_OF_FEW = 0.25, 60, 0.4


def learning_share(fitted: int) -> float:
    """Share of the questions to fit on that calibrators and path are learned from.

    Example:
        >>> learning_share(100), learning_share(200), learning_share(1000)
        (0.4, 0.3, 0.25)
    """
    return min(max(_LEARNING_SHARE, _FEW / max(1, fitted)), _MOST_OF_FEW)


def questions_to_give(certifying: int, *, share: float) -> int:
    """About how many questions there must be in all for so many of them to certify.

    Args:
        certifying: questions that are to certify.
        share: of all questions that are fitted on, in (0, 1].

    Example:
        >>> questions_to_give(60, share=0.5), questions_to_give(750, share=1.0)
        (200, 1000)
    """
    # The inverse of fitted · (1 − learning_share(fitted)).
    fitted = min(
        max(certifying / (1.0 - _LEARNING_SHARE), certifying + _FEW),
        certifying / (1.0 - _MOST_OF_FEW),
    )
    return math.ceil(fitted / share - 1e-9)
