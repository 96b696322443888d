"""Names of systems under test: the factors that differ, and those that all share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...report import one_line
from ...run import ReplySystem

FACTORS = ("model", "retrieval", "prompt", "guard")
SEPARATOR = " \N{MIDDLE DOT} "
_LONGEST = 60
# What may stand in a plot: nothing that its maker reads as markup or as a colour.
_PLAIN = re.compile(r"[\w@=.,+:/ \N{MIDDLE DOT}-]{1,64}", re.ASCII)
_UNKNOWN = "unknown"


def varying(systems: Sequence[ReplySystem]) -> tuple[str, ...]:
    """List the factors in which the systems differ; of a single system, all known ones."""
    found = tuple(
        name for name in FACTORS if len({getattr(system, name) for system in systems}) > 1
    )
    if found:
        return found
    return tuple(name for name in FACTORS if systems and getattr(systems[0], name))


def labels(systems: Sequence[ReplySystem]) -> dict[str, str]:
    """Name each system by its varying factors, or by its id where these are not unique."""
    factors = varying(systems)
    short = {
        system.system_id: SEPARATOR.join(_value(system, name) for name in factors)
        for system in systems
    }
    alike = len(set(short.values())) < len(short)
    shown = [name if alike or not label else label for name, label in short.items()]
    return dict(zip(short, distinct(shown), strict=True))


def distinct(names: Sequence[str]) -> list[str]:
    """Shorten each name to one line, and number those that then look alike.

    Example:
        >>> distinct(["a", "b", "a\\n"])
        ['a', 'b', 'a #2']
    """
    found: list[str] = []
    for name in names:
        label = shown = one_line(name, _LONGEST)
        number = 1
        while shown in found:
            number += 1
            shown = f"{label} #{number}"
        found.append(shown)
    return found


def change(base: ReplySystem, other: ReplySystem, factor: str, factors: Sequence[str]) -> str:
    """Describe what changes from one system to another; empty if that looks alike.

    Args:
        base: before.
        other: after.
        factor: in which they differ.
        factors: in which the systems of the run differ.
    """
    before, after = (
        one_line(one_line(getattr(one, factor)) or _UNKNOWN, _LONGEST) for one in (base, other)
    )
    if before == after:
        return ""
    same = SEPARATOR.join(_value(base, name) for name in factors if name != factor)
    return f"{one_line(same, _LONGEST)}: {before} → {after}" if same else f"{before} → {after}"


def shared_factors(systems: Sequence[ReplySystem]) -> list[str]:
    """List what all systems have in common, each as name and value."""
    factors = set(varying(systems))
    return [
        f"{name} {one_line(getattr(systems[0], name))}"
        for name in FACTORS
        if systems and name not in factors and getattr(systems[0], name)
    ]


def plain_labels(names: Mapping[str, str]) -> dict[str, str]:
    """Replace labels that cannot stand in a plot by numbers.

    Example:
        >>> plain_labels({"a": "direct", "b": "<script>"})
        {'a': 'direct', 'b': 'system 2'}
    """
    return {
        system: label if _PLAIN.fullmatch(label) else f"system {position}"
        for position, (system, label) in enumerate(names.items(), start=1)
    }


def _value(system: ReplySystem, name: str) -> str:
    value = one_line(getattr(system, name)) or f"{name} {_UNKNOWN}"
    return f"guard {value}" if name == "guard" else value
