"""`knowgate.toml`, the options of a project.

Keys before the first section are given to every command that takes them; a section such as
`[measure]` holds any option of one command and wins over them, but adds to `gates`. Options on
the command line win over both. All of it becomes click's `default_map`, so that a value is
checked like one that was typed.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...guard.errors import InputError
from ...guard.files import read_text

FILE_NAME = "knowgate.toml"
_DECIDING = ("drift", "apply", "serve")
# Key → the commands that take it, as the option of that name. `check` runs some of them, and leaves
# to them what they take.
_TAKEN_BY: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "questions": ("measure", "calibrate"),
        "chain": ("measure",),
        "documents": ("measure",),
        "unanswerable": ("measure", "calibrate"),
        "scorer": ("measure", "apply", "index"),
        "risk": ("measure", "calibrate"),
        "delta": ("calibrate",),
        "missing": ("calibrate",),
        "policy": ("check", *_DECIDING),
        "gates": ("check", "report"),
        "out": ("check",),
    }
)
_OPTION = {"gates": "fail-if"}
# Options that are files or folders in the folder `out`, where that is named.
_BELOW_OUT: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "measure": {"out": "run"},
        "calibrate": {"run": "run", "out": "policy.json"},
        "report": {"run": "run", "out": "report"},
        **{name: {"policy": "policy.json"} for name in _DECIDING},
    }
)
# An option is not taken from the file where another of its set is on the command line, and not
# from the keys before the first section where one is in the command's section.
_EXCLUSIVE = (
    {"chain", "documents"},
    {"run", "records"},
    {"risk", "coverage", "cost", "max-abstention", "like"},
    {"delta", "like"},
    {"missing", "like"},
    {"policy", "guard", "uncalibrated"},
)
_EXCLUSIVE_IN_APPLY = (
    {"policy", "scorer", "abstention"},
    {"aggregator", "abstention"},
    {"aggregator", "policy"},
)
# Before a folder, too.
_HUB = "hf:"


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A `knowgate.toml`.

    Attributes:
        path: of the file; relative paths in it are taken from its folder.
        text: as it stands.
        values: keys and sections, as read.
    """

    path: Path
    text: str
    values: Mapping[str, Any]

    @classmethod
    def find(cls, named: Path | None, commands: Iterable[str]) -> ProjectFile | None:
        """Read the named file, or that of the working directory or its nearest parent.

        One that was not named must belong to whoever runs the command, or to root.

        Args:
            named: None to look for one.
            commands: whose sections there may be.

        Raises:
            InputError: it cannot be read, belongs to somebody else, or has an unknown key or
                section; the message names file and line.
        """
        if named is not None:
            return cls.read(named, commands)
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / FILE_NAME).is_file():
                path = Path(FILE_NAME) if folder == here else folder / FILE_NAME
                _require_own(path)
                return cls.read(path, commands)
        return None

    @classmethod
    def read(cls, path: Path, commands: Iterable[str]) -> ProjectFile:
        """Read one file; see `find`."""
        text = read_text(path)
        try:
            file = cls(path, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            hint = "fix the file, or write a new one with `knowgate init`"
            raise InputError(f"broken TOML: {error}", where=str(path), hint=hint) from None
        for key, value in file.values.items():
            if isinstance(value, dict) and key not in commands:
                raise file._unknown(key, commands, "section")
            if not isinstance(value, dict) and key not in _TAKEN_BY:
                raise file._unknown(key, _TAKEN_BY)
        return file

    def defaults(self, names: Sequence[str], command: Any, given: Sequence[str]) -> dict[str, Any]:
        """Return the values of a command's parameters that the file has.

        Args:
            names: of the command, below those of its groups.
            command: to run.
            given: its arguments; see `_EXCLUSIVE`.

        Raises:
            InputError: its section has an unknown key.
        """
        parameters = {key: one for one in command.params for key in _keys(one)}
        section = self.section(names)
        typed = {key for key in parameters if any(re.match(rf"--{key}(=|$)", one) for one in given)}
        found: dict[str, Any] = {
            key: value
            for key, value in self._shared(names).items()
            if key in parameters and not _is_excluded(key, names, typed | section.keys())
        }
        for key, value in section.items():
            if key not in parameters or key in ("help", "json"):
                raise self._unknown(key, parameters, place=f" in [{'.'.join(names)}]")
            if key == _OPTION["gates"]:
                # Those of both places.
                found[key] = list(dict.fromkeys([*_listed(found.get(key, ())), *_listed(value)]))
            elif not _is_excluded(key, names, typed):
                found[key] = value
        return {
            parameters[key].name: self._typed(key, parameters[key], value)
            for key, value in found.items()
        }

    def require_commands(self, names: Sequence[str], known: Collection[str]) -> None:
        """Reject what stands in the section of a group and is none of its commands.

        Args:
            names: of the group.
            known: its commands.

        Raises:
            InputError: names the first such key.
        """
        for key in self.section(names):
            if key not in known and not key.startswith("python:"):
                raise self._unknown(key, known, place=f" in [{'.'.join(names)}]")

    def section(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the section of a command: the values by option.

        Args:
            names: of the command, below those of its groups.

        Raises:
            InputError: it is not a section.
        """
        section: Any = self.values
        for name in names:
            section = section.get(name, {})
            if not isinstance(section, dict):
                hint = f"write [{'.'.join(names)}]"
                raise InputError(f"{name!r} must be a section", where=str(self.path), hint=hint)
        return {key.replace("_", "-"): value for key, value in section.items()}

    def _shared(self, names: Sequence[str]) -> dict[str, Any]:
        """The keys before the first section that a command takes, by option."""
        name = " ".join(names)
        found: dict[str, Any] = {}
        if (folder := self.values.get("out")) is not None:
            below = _BELOW_OUT.get(name, {})
            found = {key: Path(str(folder)) / part for key, part in below.items()}
        for key, takers in _TAKEN_BY.items():
            if name in takers and key in self.values:
                found[_OPTION.get(key, key)] = self.values[key]
        return found

    def _typed(self, key: str, parameter: Any, value: Any) -> Any:
        """Return a value as if it had been typed here: click then rejects what does not fit."""
        several = [str(one) for one in _listed(value)]
        if key == "scorer":
            several = list(map(self._scorer_from_here, several))
        elif _is_path(parameter):
            several = list(map(self._from_here, several))
        if getattr(parameter, "multiple", False) or parameter.nargs != 1:
            return several
        if isinstance(value, bool) and parameter.is_flag:
            return value
        return str(value) if isinstance(value, list | dict) else several[0]

    def _scorer_from_here(self, scorer: str) -> str:
        """Return a scorer whose folder, perhaps with options after it, is found from anywhere."""
        prefix = _HUB if scorer.startswith(_HUB) else ""
        name, comma, options = scorer.removeprefix(prefix).partition(",")
        found = self._from_here(name)
        if not Path(found).is_dir():
            return scorer
        from ...guard.signals.relevance.registry import scorer_names

        return scorer if name in scorer_names() else f"{prefix}{found}{comma}{options}"

    def _from_here(self, path: str) -> str:
        return path if self.path.parent == Path() else str(self.path.parent / path)

    def _unknown(
        self, key: str, known: Iterable[str], what: str = "key", place: str = ""
    ) -> InputError:
        names = sorted(set(known) - {"help", "h", "json"})
        near = difflib.get_close_matches(key, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
        written = re.escape(key).replace(r"\-", "[-_]")
        begins = re.search(rf"(?m)^\W*{written}\b", self.text)
        line = self.text.count("\n", 0, begins.end()) + 1 if begins else 1
        return InputError(
            f"there is no {what} {key[:60]!r}{place}", where=f"{self.path}:{line}", hint=hint
        )


def _is_path(parameter: Any) -> bool:
    # Newer versions of typer have their own parameters, older ones click's.
    kind = getattr(parameter, "type_descriptor", None) or parameter.type
    return "path" in str(getattr(kind, "annotation", kind)).lower()


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def _keys(parameter: Any) -> list[str]:
    """The keys of a parameter in the file: its options, or the name of an argument."""
    options = [one.lstrip("-") for one in parameter.opts if one.startswith("--")]
    return options or [parameter.name.replace("_", "-")]


def _is_excluded(option: str, names: Sequence[str], others: Collection[str]) -> bool:
    sets = (*_EXCLUSIVE, *_EXCLUSIVE_IN_APPLY) if list(names) == ["apply"] else _EXCLUSIVE
    return any(option in one and (one - {option}) & set(others) for one in sets)


def _require_own(path: Path) -> None:
    """Reject a file of another user: what it names as `chain` or `scorer` would run as one's own.

    Raises:
        InputError: neither whoever runs this nor root owns it, or the link that leads to it.
    """
    user = os.geteuid()
    trusted = {0, user}
    if user == 0 and (behind := os.environ.get("SUDO_UID", "")).isdigit():
        trusted.add(int(behind))
    strangers = {path.lstat().st_uid, path.stat().st_uid} - trusted
    if strangers:
        raise InputError(
            f"belongs to another user ({min(strangers)}), and what it names can run code",
            where=str(path),
            hint=f"look through it, and name it if it is yours: knowgate --config {path} …",
        )
