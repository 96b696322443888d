"""Fitting an old policy's promise anew, on newer data of the same instruments."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...guard.errors import FingerprintMismatchError, InputError
from ...guard.policy import Policy
from ._calibrate import calibrate_records
from ._fit import Calibrated, promise_of
from ._records import MeasuredCases, Rates, outcomes_under, rates_of
from ._view import UNNAMED


@dataclass(frozen=True, slots=True)
class Recalibrated:
    """A policy fitted anew, and how the old one does on the same questions.

    Attributes:
        old: the policy whose promise was taken over.
        new: the fitted policy with its evidence.
        old_rates: of the old policy on the questions kept back; None where none were.
    """

    old: Policy
    new: Calibrated
    old_rates: Rates | None


def recalibrate(
    old: Policy,
    measured: MeasuredCases,
    *,
    where: str | os.PathLike[str],
    share: float = 0.8,
    seed: int = 0,
) -> Recalibrated:
    """A policy with the bound, δ, loss and routes of an old one, from new cases.

    Args:
        old: with a guarantee about what passes.
        measured: by the same scorer, estimator and aggregator.
        where: the old policy lies, for errors.
        share: of the questions to fit on, in (0, 1]; the rest is reported.
        seed: of the split, 0 or more.

    Raises:
        FingerprintMismatchError: other instruments measured the cases.
        InputError: the old policy promises nothing, or the cases do not suffice.
    """
    require_same_instruments(old, measured)
    guarantee = old.guarantee
    if guarantee is None:
        raise InputError(
            "the policy was written by hand and promises nothing that could be kept up",
            where=os.fspath(where),
            hint="make one with `knowgate calibrate`",
        )
    promise = promise_of(guarantee, where=os.fspath(where))
    new = calibrate_records(
        measured,
        risk=None if promise.coverage is not None else promise.targets,
        coverage=promise.coverage,
        delta=guarantee.delta,
        share=share,
        seed=seed,
        allowed_routes=old.allowed_routes,
    )
    rates = rates_of(outcomes_under(old, new.test), seed=seed) if new.test else None
    return Recalibrated(old, new, rates)


def require_same_instruments(old: Policy, measured: MeasuredCases) -> None:
    """Refuse cases that something else measured than the old policy was fitted on.

    Raises:
        FingerprintMismatchError: scorer, estimator, aggregator or the kind of conflict
            differ, or nobody says what they were.
    """
    if old.scorer.kind == UNNAMED:
        if measured.scorer is not None:
            raise _mismatch(measured, "the old policy names no scorer, these cases do")
    elif measured.scorer is None:
        raise _mismatch(measured, "nobody says which scorer measured these cases")
    elif differences := old.scorer.differences(measured.scorer):
        raise _mismatch(measured, f"another scorer measured these cases ({'; '.join(differences)})")
    if old.aggregator != measured.aggregator:
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
        raise _mismatch(measured, "nobody says which confidence estimator measured these cases")
    if differences := old.estimator.differences(measured.estimator):
        raise _mismatch(
            measured,
            f"another confidence estimator measured these cases ({'; '.join(differences)})",
        )


def _mismatch(measured: MeasuredCases, what: str) -> FingerprintMismatchError:
    return FingerprintMismatchError(
        what,
        where=measured.source,
        hint="measure with the old policy's instruments, or make a new policy with "
        "`knowgate calibrate`",
    )
