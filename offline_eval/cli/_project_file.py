"""`knowgate.toml`: the options of a project, read in one place for all commands.

Keys before the first section are given to every command that takes them; a section such as
`[measure]` holds any option of one command and wins over them, but adds to `gates`. Options on
the command line win over both.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import tomllib
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ...guard.errors import InputError
from ...guard.files import read_text

FILE_NAME = "knowgate.toml"
_MEASURING = ("check", "measure", "compare-scorers")
_DECIDING = ("drift", "route", "serve")
# Key → the commands that take it, as the option of that name.
_TAKEN_BY: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "questions": (*_MEASURING, "plan"),
        "chain": _MEASURING,
        "documents": _MEASURING,
        "unanswerable": ("check", "measure"),
        "scorer": ("check", "measure", "score", "index"),
        "risk": ("check", "calibrate", "plan", "compare-scorers"),
        "delta": ("check", "calibrate", "plan"),
        "missing": ("check", "calibrate"),
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
        "compare-scorers": {"out": "scorers"},
        **{name: {"policy": "policy.json"} for name in _DECIDING},
    }
)
# An option is not taken from the file where one of these is on the command line, and not from
# the keys before the first section where one is in the command's section.
_EXCLUDED_BY = {
    "chain": ("documents",),
    "documents": ("chain",),
    "run": ("records",),
    "records": ("run",),
    "risk": ("coverage", "cost-leak", "max-abstention"),
    "coverage": ("risk", "cost-leak", "max-abstention"),
    "cost-leak": ("risk", "coverage", "max-abstention"),
    "cost-abstention": ("risk", "coverage", "max-abstention"),
    "missing-share": ("risk", "coverage", "max-abstention"),
    "max-abstention": ("risk", "coverage", "cost-leak"),
    "scorer": ("policy",),
    "policy": ("guard", "uncalibrated"),
}
_PATHS = ("questions", "documents", "unanswerable", "policy", "out")
_HUB = "hf:"  # before a folder, too
_NUMBERS = ("risk", "delta")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")


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
            InputError: it cannot be read, belongs to somebody else, or has an unknown key, section,
                or type; the message names file and line.
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
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            line = _AT_LINE.search(str(error))
            number = line[1] if line and line[1] else str(text.count("\n") + 1)
            raise InputError(
                f"broken TOML ({_AT_LINE.sub('', str(error))})",
                where=f"{path}:{number}",
                hint="fix the file, or write a new one with `knowgate init`",
            ) from None
        file = cls(path, text, values)
        file._check_keys(sorted(commands))
        return file

    def defaults(self, names: Sequence[str], command: Any, given: Sequence[str]) -> dict[str, Any]:
        """Return the values of a command's parameters that the file has.

        Args:
            names: of the command, below those of its groups.
            command: to run.
            given: its arguments; see `_EXCLUDED_BY`.

        Raises:
            InputError: its section has an unknown key or a value of the wrong type.
        """
        parameters = {key: one for one in command.params for key in _keys(one)}
        section = self.section(names)
        on_command_line = {key for key in parameters if _is_given(key, given)}
        found = {}
        for key, value in self._shared(names).items():
            if not _is_excluded(key, names, on_command_line | section.keys()):
                found[parameters[key].name] = value
        annotations = get_type_hints(inspect.unwrap(command.callback)) if section else {}
        for key, (written, value) in section.items():
            parameter = parameters.get(key)
            if parameter is None or parameter.name in ("help", "as_json"):
                raise self._unknown((*names, written), parameters)
            checked = self._checked((*names, written), annotations[parameter.name], value)
            if key == _OPTION["gates"]:  # those of both places
                checked = list(dict.fromkeys([*found.get(parameter.name, ()), *checked]))
            if not _is_excluded(key, names, on_command_line):
                found[parameter.name] = checked
        return found

    def section(self, names: Sequence[str]) -> dict[str, tuple[str, Any]]:
        """Return the section of a command: by option the key as it is written, and the value.

        Args:
            names: of the command, below those of its groups.

        Raises:
            InputError: it is not a section.
        """
        section: Any = self.values
        for at, name in enumerate(names, start=1):
            section = section.get(name, {})
            if not isinstance(section, dict):
                raise self._error(names[:at], f"{name!r} must be a section", f"write [{name}]")
        return {key.replace("_", "-"): (key, value) for key, value in section.items()}

    def _shared(self, names: Sequence[str]) -> dict[str, Any]:
        """The keys before the first section that a command takes, by option."""
        name = " ".join(names)
        found = {}
        if "out" in self.values:
            out = self._from_here(self.values["out"])
            found = {key: str(Path(out) / part) for key, part in _BELOW_OUT.get(name, {}).items()}
        for key, takers in _TAKEN_BY.items():
            if name in takers and key in self.values:
                value = self.values[key]
                if key == "scorer":
                    value = self._scorer_from_here(value)
                found[_OPTION.get(key, key)] = self._from_here(value) if key in _PATHS else value
        return found

    def _scorer_from_here(self, scorer: str) -> str:
        """Return a scorer whose folder, perhaps with options after it, is found from anywhere."""
        prefix = _HUB if scorer.startswith(_HUB) else ""
        name, comma, options = scorer.removeprefix(prefix).partition(",")
        found = self._from_here(name)
        if not Path(found).is_dir():
            return scorer
        from ...guard.signals.relevance import scorer_names

        if name in scorer_names():
            return scorer
        return f"{prefix}{found}{comma}{options}"

    def _from_here(self, path: str) -> str:
        folder = self.path.parent
        return path if folder == Path() else str(folder / path)

    def _check_keys(self, commands: Sequence[str]) -> None:
        for key, value in self.values.items():
            if isinstance(value, dict):
                if key not in commands:
                    raise self._unknown((key,), commands, "section")
            elif key not in _TAKEN_BY:
                raise self._unknown((key,), _TAKEN_BY)
            elif key == "gates":
                self._require((key,), value, isinstance(value, list) and _all_text(value), _TEXTS)
            elif key in _NUMBERS:
                self._require((key,), value, _is_number(value), "a number such as 0.1")
            else:
                self._require((key,), value, _all_text([value]), 'text in quotes, such as "run"')

    def _checked(self, keys: Sequence[str], annotation: Any, value: Any) -> Any:
        """Return a value as an option of this type takes it."""
        kind, several = item_type(annotation)
        if several:
            self._require(keys, value, isinstance(value, list), _TEXTS)
        for item in value if several else [value]:
            if kind is bool:
                self._require(keys, item, isinstance(item, bool), "true or false")
            elif kind is int:
                whole = isinstance(item, int) and not isinstance(item, bool)
                self._require(keys, item, whole, "a whole number")
            elif kind is float:
                self._require(keys, item, _is_number(item), "a number such as 0.1")
            else:
                self._require(keys, item, isinstance(item, str), "text in quotes")
            if isinstance(kind, type) and issubclass(kind, Enum):
                names = [str(one.value) for one in kind]
                self._require(keys, item, item in names, f"one of {', '.join(names)}")
        from_here: Callable[[str], str]
        if kind is Path:
            from_here = self._from_here
        elif keys[-1] == "scorer":
            from_here = self._scorer_from_here
        else:
            return value
        return [from_here(one) for one in value] if several else from_here(value)

    def _require(self, keys: Sequence[str], value: Any, holds: bool, wanted: str) -> None:
        if not holds:
            what = f"{keys[-1]} must be {wanted}, not {str(value)[:60]!r}"
            raise self._error(keys, what, "change it")

    def _unknown(self, keys: Sequence[str], known: Iterable[str], what: str = "key") -> InputError:
        names = sorted(set(known) - {"help", "h", "json"})
        near = difflib.get_close_matches(keys[-1].replace("_", "-"), names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
        place = f" in [{'.'.join(keys[:-1])}]" if keys[:-1] else ""
        return self._error(keys, f"there is no {what} {keys[-1][:60]!r}{place}", hint)

    def _error(self, keys: Sequence[str], what: str, hint: str) -> InputError:
        return InputError(what, where=f"{self.path}:{self._line(keys)}", hint=hint)

    def _line(self, keys: Sequence[str]) -> int:
        """Return the line on which a key or section begins, which tomllib does not say."""
        lines = self.text.split("\n")
        begins = 1
        for number in range(1, len(lines) + 1):
            try:
                found: Any = tomllib.loads("\n".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue  # within a value of several lines
            for key in keys:
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None:
                return begins
            begins = number + 1
        return 1


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


_TEXTS = 'a list of texts, such as ["auroc<0.8"]'


def item_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type of a value, without `None` and `Annotated`, and whether it is a list."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return item_type(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        kinds = [one for one in get_args(annotation) if one is not type(None)]
        return item_type(kinds[0]) if len(kinds) == 1 else (str, False)
    if origin in (list, tuple, set, frozenset):
        return item_type(get_args(annotation)[0])[0], True
    return annotation, False


def _keys(parameter: Any) -> list[str]:
    """The keys of a parameter in the file: its options, or the name of an argument."""
    options = [one.lstrip("-") for one in parameter.opts if one.startswith("--")]
    return options or [parameter.name.replace("_", "-")]


def _is_excluded(option: str, names: Sequence[str], others: Collection[str]) -> bool:
    if option == "scorer" and list(names) == ["check"]:
        return False  # its policy judges, its scorer measures
    return any(other in others for other in _EXCLUDED_BY.get(option, ()))


def _is_given(option: str, arguments: Sequence[str]) -> bool:
    return any(one == f"--{option}" or one.startswith(f"--{option}=") for one in arguments)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _all_text(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) and value for value in values)
