"""The loss table that `knowgate calibrate --cost` names."""

from __future__ import annotations

import math
from dataclasses import astuple, fields

from ...calibration.risk import LossTable
from ...guard.errors import InputError

_NAMES = tuple(field.name for field in fields(LossTable))
_HINT = "write e.g. wrong_answer=1,false_abstention=0.2,wrong_follow=1, each from 0 to 1"


def parse_costs(text: str) -> LossTable:
    """Parse a loss table `name=cost,…`; what is not named has its default cost.

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
                f"{part.strip()!r} is not a cost (there are: {', '.join(_NAMES)})",
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
