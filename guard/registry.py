"""Things that users add by name: one registry for scorers, estimators, and for other packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from .errors import InputError, require_extra

# Before the place of a thing in a module: `python:module:attribute`.
PYTHON = "python:"
Thing = TypeVar("Thing")


class Registry(dict[str, Thing]):
    """Things by name: built in, registered in this process, or of an installed package.

    Args:
        what: they are, with its article, e.g. "a scorer".
        built_in: those of knowgate.
        group: of the entry points by which installed packages add theirs.

    Example:
        >>> shapes = Registry("a shape", {"square": 4}, group="shapes")
        >>> shapes.register("triangle", 3)
        3
        >>> shapes.names, shapes.find("triangle")
        (('square', 'triangle'), 3)
    """

    def __init__(self, what: str, built_in: Mapping[str, Thing], group: str) -> None:
        super().__init__(built_in)
        self._what, self._group = what, group

    def register(self, name: str, thing: Thing | None = None) -> Any:
        """Add a thing under a new name; a decorator where only the name is given.

        Raises:
            InputError: the name is taken.
        """
        if name in self:
            what = f"{self._what} named {name!r} exists already"
            raise InputError(what, hint="choose another name")
        if thing is None:
            return lambda decorated: self.register(name, decorated)
        self[name] = thing
        return thing

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted; without those that are prefixes and end in a colon."""
        installed = {point.name for point in entry_points(group=self._group)}
        return tuple(sorted(name for name in {*self, *installed} if not name.endswith(":")))

    def has(self, name: str) -> bool:
        """Whether there is a thing of that name, or `name` says where it is in a module."""
        return name in self or name.startswith(PYTHON) or name in self.names

    def find(self, name: str) -> Thing:
        """Return a thing by name, or by `python:module:attribute`.

        Raises:
            InputError: there is none.
        """
        if name in self:
            return self[name]
        if name.startswith(PYTHON):
            found: Thing = import_object(name)
            return found
        for point in entry_points(group=self._group, name=name):
            self[name] = point.load()
            return self[name]
        what = f"unknown {self._what.partition(' ')[2]} {name!r}"
        raise InputError(what, hint=f"one of: {', '.join(self.names)}")


def names_on_use(
    package: str,
    modules: Mapping[str, str],
    extra: str = "",
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its modules on first use.

    Args:
        package: its name.
        modules: the names that it has, by module.
        extra: that must be installed; empty for none.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def look_up(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if extra:
            require_extra(extra)
        return getattr(import_module(f"{package}.{places[name]}"), name)

    return look_up, lambda: sorted({*vars(sys.modules[package]), *places})


def import_object(name: str) -> Any:
    """Import the object that `python:module:attribute` names, as it is.

    Raises:
        InputError: there is no such module or attribute.
    """
    module_name, _, attribute = name.removeprefix(PYTHON).rpartition(":")
    if not name.startswith(PYTHON) or not module_name or not attribute:
        raise InputError("does not name an object", where=name, hint="python:module:attribute")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        what = f"cannot be imported ({type(error).__name__}: {error})"
        hint = "check module and attribute; modules in the current folder can be imported"
        raise InputError(what, where=name, hint=hint) from None
    return found
