"""Finding the number that a gate names in a report."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from ...guard import InputError
from ._expression import Gate

# Short names, tried in turn where the report has no field of that name.
GATE_ALIASES: Mapping[str, tuple[str, ...]] = {
    "abstention_rate": ("left_out.abstention_rate",),
    "false_abstention_rate": ("in_kb.false_abstention_rate",),
    "retrieval_miss_rate": ("in_kb.retrieval_miss_rate",),
    "n": ("replies.n", "cases"),
    "abstained": ("replies.abstained", "left_out.abstained"),
    "tier_1": ("replies.tier_1",),
    "tier_2": ("replies.tier_2",),
    "tier_3": ("replies.tier_3",),
}
_NAME_FIELDS = ("system_id", "name", "topic", "criterion", "id")
_SHOWN = 8
_ABSENT = object()


def look_up(report: Mapping[str, Any], gate: Gate) -> float | None:
    """The number; None where the report has it as undefined.

    Of a rate with its interval it is the value.

    Raises:
        InputError: the report has no such number.
    """
    first, *rest = gate.path
    if first not in report:
        for alias in GATE_ALIASES.get(first, ()):
            path = (*alias.split("."), *rest)
            if _walk(report, path)[0] is not _ABSENT:
                return _number(gate, _walk(report, path)[0])
    found, depth, known = _walk(report, gate.path)
    if found is _ABSENT:
        raise _unknown(gate, depth, known if depth else [*known, *GATE_ALIASES])
    return _number(gate, found)


def _walk(report: Any, path: Sequence[str]) -> tuple[Any, int, list[str]]:
    """What stands at the end; else how many parts led somewhere, and what is there."""
    value = report
    for position, part in enumerate(path):
        known = _children(value)
        if part not in known:
            # Within what is undefined as a whole, everything is.
            if value is None and position:
                return None, position, []
            return _ABSENT, position, sorted(known)
        value = known[part]
    return value, len(path), []


def _children(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, list):
        found = {str(position): item for position, item in enumerate(value)}
        for item in value:
            if isinstance(item, Mapping):
                named = next((item[name] for name in _NAME_FIELDS if name in item), None)
                if isinstance(named, str):
                    found.setdefault(named, item)
        return found
    return {}


def _number(gate: Gate, value: Any) -> float | None:
    if isinstance(value, Mapping) and "value" in value:
        value = value["value"]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        children = _children(value)
        raise InputError(
            f"{gate.name[:80]!r} is no number in this report",
            where="--fail-if",
            mend=f"name one in it, such as {gate.name[:80]}.{sorted(children)[0]}"
            if children and not isinstance(value, list)
            else "name a number or a rate of report.json",
        )
    return float(value)


def _unknown(gate: Gate, depth: int, known: Sequence[str]) -> InputError:
    wanted = gate.path[depth]
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    names = near or list(known)[:_SHOWN]
    within = f" in {'.'.join(gate.path[:depth])[:80]!r}" if depth else ""
    return InputError(
        f"the report has no {wanted[:80]!r}{within}",
        where=f"--fail-if {gate.text[:120]!r}",
        mend=f"name one of: {', '.join(name[:60] for name in names)}"
        if names
        else "name a number or a rate of report.json",
    )
