"""Reading back what a monitor saved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...guard.errors import InputError


def state_of(state: object, kind: str) -> Mapping[str, Any]:
    """Check that `state` is a mapping of this kind.

    Raises:
        InputError: it is not.
    """
    if not isinstance(state, Mapping) or state.get("kind") != kind:
        raise InputError(f"not a saved state of kind {kind!r}", hint="give what to_dict() returned")
    return state


def number(state: Mapping[str, Any], name: str) -> float:
    """A finite number of a state.

    Raises:
        InputError: there is none of this name.
    """
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        raise InputError(f"field {name!r} of a saved state is no number")
    return float(value)


def whole(state: Mapping[str, Any], name: str) -> int:
    """A whole number of a state, at least 0.

    Raises:
        InputError: there is none of this name.
    """
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise InputError(f"field {name!r} of a saved state is no count")
    return value


def probability(value: float, name: str, *, or_one: bool = False) -> float:
    """`value` as a float in (0, 1), or (0, 1] with `or_one`.

    Raises:
        InputError: it is not.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (0 < value < 1 or (or_one and value == 1)):
        raise InputError(f"{name} must be between 0 and 1, not {value!r}", hint="0.1, for instance")
    return float(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
