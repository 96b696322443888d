"""Fit the promise of an old policy again, on newer records of the same instruments."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ...calibration.risk import Coverage, Leak, LossTable, PolicyBinding, Problem, Risk, RiskTarget
from ...guard.errors import FingerprintMismatchError, InputError
from ...guard.policy import Guarantee, GuaranteedRisk, Policy
from ._calibrated import Calibrated
from ._fit import calibrate_records
from ._rates import Rates, outcomes_under, rates_of
from ._records import CalibrationSet


@dataclass(frozen=True, slots=True)
class Recalibrated:
    """A refitted policy, and how the old one does on the same questions.

    Attributes:
        old: the policy whose promise was taken over.
        new: the fitted policy with its evidence.
        rates: of the old and the new policy on the held-out questions; None where there are
            none, or for a leak.
    """

    old: Policy
    new: Calibrated
    rates: tuple[Rates, Rates] | None


def recalibrate(
    old: Policy,
    measured: CalibrationSet,
    *,
    where: str | os.PathLike[str],
    share: float = 1.0,
    counted: bool = False,
    max_false_abstention: float = Problem.MAX_FALSE_ABSTENTION,
) -> Recalibrated:
    """Fit a policy with the bound, δ, loss and routes of an old one to new records.

    Args:
        old: with a guarantee.
        measured: by the same scorer, estimator and aggregator.
        where: path of the old policy, for error messages.
        share: as for `calibrate_records`.
        counted: likewise.
        max_false_abstention: likewise.

    Raises:
        FingerprintMismatchError: other instruments measured the cases.
        InputError: the old policy promises nothing, or the cases do not suffice.
    """
    if old.guarantee is not None and is_leak_promise(old.guarantee) and not measured.leaves_out:
        raise InputError(
            "promises how many unanswerable questions pass, which only a run of the ookb suite "
            "measures",
            where=os.fspath(where),
            hint="name one with --run",
        )
    _require_same_instruments(old, measured)
    guarantee = old.guarantee
    if guarantee is None:
        raise InputError(
            "the policy was written by hand and promises nothing that could be renewed",
            where=os.fspath(where),
            hint="make one with `knowgate calibrate`",
        )
    risk = promise_of(guarantee, where=os.fspath(where))
    leak = isinstance(risk, Leak)
    new = calibrate_records(
        measured,
        risk,
        delta=guarantee.delta,
        share=share,
        counted=counted,
        allowed_routes=old.allowed_routes,
        confidence_threshold=old.confidence_threshold if leak and old.may_answer else None,
        max_false_abstention=max_false_abstention,
    )
    rates = None
    if new.rates is not None:
        # The old policy rests on none of these, so all of them are new to it.
        asked = new.test or measured.records
        rates = rates_of(outcomes_under(old, asked)), new.rates
    return Recalibrated(old, new, rates)


def _require_same_instruments(old: Policy, measured: CalibrationSet) -> None:
    """Reject records that were not measured by what the old policy was fitted on.

    Raises:
        FingerprintMismatchError: scorer, estimator, aggregator or the kind of conflict
            differ, or are not named.
    """
    _require_same_stages(old, measured)
    if old.scorer.kind == PolicyBinding.UNNAMED.kind:
        if measured.scorer is not None:
            raise _mismatch(measured, "the old policy names no scorer, these cases do")
    elif measured.scorer is None:
        raise _mismatch(measured, "it is not known which scorer measured these cases")
    elif differences := (old.scorer.stages or (old.scorer,))[0].differences(measured.scorer):
        raise _mismatch(measured, f"another scorer measured these cases ({'; '.join(differences)})")
    # Each scorer of a cascade takes passages together in its usual way, as calibration checks.
    if not old.scorer.stages and old.aggregator != measured.aggregator:
        raise _mismatch(
            measured,
            f"these cases are aggregated by {measured.aggregator!r}, the old policy's by "
            f"{old.aggregator!r}",
        )
    if old.check_conflict and old.conflict_between != measured.conflict_between:
        raise _mismatch(
            measured,
            f"these cases look for a conflict with {measured.conflict_between!r}, the old policy "
            f"with {old.conflict_between!r}",
        )
    if old.estimator is None:
        return
    if measured.estimator is None:
        raise _mismatch(measured, "it is not known which confidence estimator measured these cases")
    if differences := old.estimator.differences(measured.estimator):
        raise _mismatch(
            measured,
            f"another confidence estimator measured these cases ({'; '.join(differences)})",
        )


def _require_same_stages(old: Policy, measured: CalibrationSet) -> None:
    """Reject verdicts of another costly scorer than that of the old policy's cascade.

    Raises:
        FingerprintMismatchError: or there are none, or the old policy is of no cascade.
    """
    if not old.scorer.stages:
        if measured.cascade is not None:
            raise _mismatch(measured, "the old policy is of one scorer, these cases are of two")
        return
    if measured.cascade is None:
        raise _mismatch(
            measured,
            "the old policy is of a cascade, and these cases have no verdicts of its costly scorer",
        )
    if differences := old.scorer.stages[1].differences(measured.cascade.costly):
        raise _mismatch(measured, f"another costly scorer judged them ({'; '.join(differences)})")


def _mismatch(measured: CalibrationSet, what: str) -> FingerprintMismatchError:
    return FingerprintMismatchError(
        what,
        where=measured.source,
        hint="measure with the old policy's instruments, or make a new policy with "
        "`knowgate calibrate`",
    )


def is_leak_promise(guarantee: Guarantee) -> bool:
    """Whether the guarantee is about unanswerable questions."""
    return not guarantee.path or any(
        risk.kind in ("leak", "unanswerable") for risk in guarantee.risks
    )


def promise_of(guarantee: Guarantee, *, where: str) -> Risk:
    """Read from a guarantee what its policy was fitted to, whether that was certified or not.

    Raises:
        InputError: nothing was certified, and the policy does not tell which bounds were
            asked for.
    """
    if is_leak_promise(guarantee):
        return Leak(guarantee.risk, guarantee.missing or "left_out")
    try:
        for risk in guarantee.risks:
            if risk.kind == "abstention":
                return Coverage(round(1.0 - risk.bound, 12))
        if guarantee.risks:
            return tuple(_target(risk) for risk in guarantee.risks)
    except (TypeError, ValueError):  # an unknown kind of risk or loss, or a bound out of range
        raise InputError(
            "the policy's guarantee has a bound that is not known here",
            where=where,
            hint="make one with `knowgate calibrate`",
        ) from None
    if guarantee.loss == _SELECTIVE:
        return RiskTarget("selective", guarantee.risk)
    raise InputError(
        "the policy certified nothing and does not tell which bounds were asked for",
        where=where,
        hint="make one with `knowgate calibrate`",
    )


def _target(risk: GuaranteedRisk) -> RiskTarget:
    kind: Any = risk.kind  # checked by the target itself
    return RiskTarget(kind, risk.bound, LossTable(**(risk.losses or {})))


_SELECTIVE = "a question is let through and answered wrongly"
