"""Loss tables from the command line, and from the promise of an old policy."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields
from typing import Any

from ...calibration import SMALLEST_PROBABILITY
from ...calibration.risk_control import LossTable, RiskTarget
from ...guard import Guarantee, GuaranteedRisk, InputError

_NAMES = tuple(field.name for field in fields(LossTable))
_MEND = "write e.g. wrong_answer=1,false_abstention=0.2,wrong_follow=1, each from 0 to 1"


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
                mend=_MEND,
            )
        if name in found:
            raise InputError(f"{name} is given twice", where="--cost", mend=_MEND)
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if not 0.0 <= found[name] <= 1.0:
            raise InputError(
                f"{name} must cost from 0 to 1, not {value!r}", where="--cost", mend=_MEND
            )
    table = LossTable(**found)
    if not any(astuple(table)):
        raise InputError(
            "nothing costs anything, so that every policy would do", where="--cost", mend=_MEND
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
        mend="make one with `knowgate calibrate`",
    )


def _unknown_promise(where: str) -> InputError:
    return InputError(
        "the policy's guarantee has a bound that is not known here",
        where=where,
        mend="make one with `knowgate calibrate`",
    )


def _target(risk: GuaranteedRisk) -> RiskTarget:
    kind: Any = risk.kind  # checked by the target itself
    return RiskTarget(kind, risk.bound, LossTable(**(risk.losses or {})))


_SELECTIVE = "a question is let through and answered wrongly"
