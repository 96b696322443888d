"""Suites by name: built in, registered by the user, or of an installed package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from ...guard.errors import InputError
from ..systems.factory import load_object, require_kind
from .base import Suite

AnySuite = Suite[Any, Any, Any, Any]
# Where bundled suites are; imported when one is asked for.
_BUILT_IN: dict[str, str] = {
    "conflict": ".conflict._suite:ConflictSuite",
    "judge-bias": ".judge_bias._suite:JudgeBiasSuite",
    "measure": ".ookb:MEASURE",
    "ookb": ".ookb:OokbSuite",
    "uaqfact": ".uaqfact._suite:UaqFact",
    "uniknow": ".uniknow._suite:UniKnowSuite",
}
# A command of its own, and no suite for `knowgate eval`.
_OWN_COMMAND = frozenset({"measure"})
_ENTRY_POINTS = "knowgate.suites"
_PYTHON = "python:"
_registered: dict[str, AnySuite | type[AnySuite]] = {}


def register(suite: AnySuite | type[AnySuite]) -> None:
    """Make a suite known to `knowgate eval` and `knowgate report` of this process.

    An installed package does so for every process with an entry point of the group
    `knowgate.suites`.

    Args:
        suite: one for all runs, or its class, made anew for each.

    Raises:
        ValueError: another suite has its name.
    """
    name = suite.name
    if name in _BUILT_IN or _registered.get(name, suite) is not suite:
        raise ValueError(f"there is a suite {name!r} already")
    _registered[name] = suite


def suite_names() -> list[str]:
    """Return the names of the suites that `knowgate eval` runs, sorted."""
    return sorted(_known() - _OWN_COMMAND)


def _known() -> set[str]:
    installed = {point.name for point in entry_points(group=_ENTRY_POINTS)}
    return _BUILT_IN.keys() | _registered.keys() | installed


def find_suite(name: str) -> AnySuite:
    """Return a suite by name, or by `python:module:attribute`.

    Raises:
        InputError: there is no such suite.
    """
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return _checked(getattr(import_module(module, __package__), attribute), name)
    if name in _registered:
        return _checked(_registered[name], name)
    if name.startswith(_PYTHON):
        suite = _checked(load_object(name), name)
        # Its runs are reported under its own name.
        _registered.setdefault(suite.name, suite)
        return suite
    for point in entry_points(group=_ENTRY_POINTS, name=name):
        return _checked(point.load(), name)
    raise InputError(
        f"there is no suite {name[:80]!r}",
        hint=f"one of {', '.join(suite_names())}, or python:module:attribute",
    )


def suite_of(manifest: Mapping[str, Any], *, where: str) -> AnySuite:
    """Return the suite that made a run.

    Raises:
        InputError: it is not known here.
    """
    name = suite_name(manifest)
    if name not in _known():
        raise InputError(
            f"there is no report for a run of suite {manifest.get('suite')!r}",
            where=where,
            hint="the suite of a module of yours is named with --suite python:module:attribute; "
            f"known by name are {', '.join(suite_names())}",
        )
    return find_suite(name)


def suite_name(manifest: Mapping[str, Any]) -> str:
    """Return the name of the suite that made a run."""
    name = str(manifest.get("suite"))
    # Signals to calibrate on are measured on the questions of the suite `ookb`.
    return "measure" if name == "ookb" and manifest.get("holds") != "replies" else name


def _checked(found: object, name: str) -> AnySuite:
    made = found() if isinstance(found, type) and issubclass(found, Suite) else found
    suite: AnySuite = require_kind(made, Suite, "a suite", name, "name a Suite")
    return suite
