"""Fit the promise of an old policy again, on newer records of the same instruments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ...calibration.risk import Coverage, Leak, RiskTarget
from ...calibration.risk.fit import PolicyBinding, Problem
from ...calibration.risk.risks import LossTable, Risk
from ...guard.artefacts import Guarantee
from ...guard.errors import FingerprintMismatchError, InputError
from ...guard.files import AnyPath
from ...guard.fingerprint import Fingerprint
from ...guard.policy import Policy
from ._calibrated import Calibrated
from ._fit import calibrate_records
from .records import CalibrationSet


def recalibrate(
    old: Policy,
    measured: CalibrationSet,
    *,
    where: AnyPath,
    share: float = 1.0,
    counted: bool = False,
    max_false_abstention: float = Problem.MAX_FALSE_ABSTENTION,
) -> Calibrated:
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
    guarantee = old.guarantee
    if guarantee is not None and is_leak_promise(guarantee) and not measured.leaves_out:
        raise InputError(
            "promises how many unanswerable questions pass, which only a run of ookb measures",
            where=os.fspath(where),
            hint="name one with --run",
        )
    for difference in _other_instruments(old, measured):
        hint = "measure with the old policy's instruments, or make a new policy"
        raise FingerprintMismatchError(difference, where=measured.source, hint=hint)
    if guarantee is None:
        raise InputError(
            "the policy was written by hand and promises nothing that could be renewed",
            where=os.fspath(where),
            hint="make one with `knowgate calibrate`",
        )
    risk = promise_of(guarantee, where=os.fspath(where))
    leak = isinstance(risk, Leak)
    return calibrate_records(
        measured,
        risk,
        delta=guarantee.delta,
        share=share,
        counted=counted,
        allowed_routes=old.allowed_routes,
        confidence_threshold=old.confidence_threshold if leak and old.may_answer else None,
        max_false_abstention=max_false_abstention,
    )


def _other_instruments(old: Policy, measured: CalibrationSet) -> Iterator[str]:
    """Say how records were measured by others than what the old policy was fitted on."""
    stages, cascade = old.scorer.stages, measured.cascade
    if bool(stages) is (cascade is None):
        yield f"the old policy is of {_how_many(stages)}, these cases are of {_how_many(cascade)}"
    elif cascade is not None:
        yield from _other(stages[1], cascade.costly, "costly scorer")
        if (len(stages) > 2) is (cascade.strict is None):
            yield "only one of both asks the costly scorer about doubtful matches"
    if old.scorer.kind == PolicyBinding.UNNAMED.kind:
        if measured.scorer is not None:
            yield "the old policy names no scorer, these cases do"
    else:
        scorer = (stages or (old.scorer,))[0]
        yield from _other(scorer, measured.scorer, "scorer")
    ways = {}
    # Each scorer of a cascade takes passages together in its usual way, as calibration checks.
    if not stages:
        ways["are aggregated by"] = old.aggregator, measured.aggregator
    if old.check_conflict:
        ways["look for a conflict with"] = old.conflict_between, measured.conflict_between
    for name, (own, theirs) in ways.items():
        if own != theirs:
            yield f"these cases {name} {theirs!r}, those of the old policy {own!r}"
    if old.estimator is not None:
        yield from _other(old.estimator, measured.estimator, "confidence estimator")


def _how_many(cascade: object) -> str:
    return "a cascade of two scorers" if cascade else "one scorer"


def _other(old: Fingerprint, measured: Fingerprint | None, name: str) -> Iterator[str]:
    if measured is None:
        yield f"it is not known which {name} measured these cases"
    elif differences := old.differences(measured):
        yield f"another {name} measured these cases ({'; '.join(differences)})"


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
    what = "the policy certified nothing and does not tell which bounds were asked for"
    try:
        targets = []
        for risk in guarantee.risks:
            if risk.kind == "abstention":
                return Coverage(round(1.0 - risk.bound, 12))
            # Checked by the target itself.
            kind: Any = risk.kind
            targets.append(RiskTarget(kind, risk.bound, LossTable(**(risk.losses or {}))))
        if targets:
            return tuple(targets)
        if guarantee.loss == _SELECTIVE:
            return RiskTarget("selective", guarantee.risk)
    except InputError:
        # An unknown kind of risk or loss, or a bound out of range.
        what = "the policy's guarantee has a bound that is not known here"
    raise InputError(what, where=where, hint="make one with `knowgate calibrate`")


_SELECTIVE = "a question is let through and answered wrongly"
