"""What a policy promises: from the command line, and from the guarantee of an old policy."""

from __future__ import annotations

import math
from typing import Any

from ...calibration.risk import Coverage, Leak, LossTable, Risk, RiskTarget
from ...guard.errors import InputError
from ...guard.policy import Guarantee, GuaranteedRisk


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


def smallest_selective(guarantee: Guarantee, level: float) -> float | None:
    """About the smallest bound on wrong answers that some point of the path could certify.

    Args:
        guarantee: with the tested path.
        level: of the test.

    Returns:
        Rounded up to two digits; None for other bounds, and where no point could.
    """
    from scipy.stats import beta

    if any(risk.kind != "selective" for risk in guarantee.risks):
        return None
    bounds = [
        # One question fewer: the test passes over points that only just could be certified.
        float(beta.ppf(1.0 - level, point.errors + 1, point.let_through - 1 - point.errors))
        for point in guarantee.path
        if point.let_through - 1 > point.errors
    ]
    if not bounds:
        return None
    digits = 1 - math.floor(math.log10(min(bounds)))
    found = math.ceil(min(bounds) * 10**digits - 1e-9) / 10**digits
    return found if found < 1.0 else None


_SELECTIVE = "a question is let through and answered wrongly"
