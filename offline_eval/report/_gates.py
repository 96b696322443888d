"""Read gates, find the numbers that they name in a report, and check them; measures as a frame."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...guard.errors import InputError, optional_import
from ...guard.files import table_beside
from .tables import Cell, Table

if TYPE_CHECKING:
    import pandas

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
# A name in brackets may hold whatever names hold, brackets in pairs included.
_BRACKETS = r"\[(?:[^\[\]]|\[[^\[\]]*\])+\]"
_PART = re.compile(rf"[^\s.<>=!\[\]]+|{_BRACKETS}")
_GATE = re.compile(
    rf"\s*(?P<name>(?:[^\s<>=!\[\]]|{_BRACKETS})+)\s*"
    r"(?P<sign><=|>=|==|!=|<|>)\s*"
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>%?)\s*"
)
_PLAIN = re.compile(r"[^\s.<>=!\[\]]+")
_HINT = "write NAME OP NUMBER, for example 'abstention_rate<0.9', with <, <=, >, >=, == or !="


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition under which a release must not go out, and the number that it is about.

    Attributes:
        expression: as the user gave it.
        name: of the number in the report, as given.
        path: its parts; those in brackets are names or positions in a list.
        sign: of the comparison.
        number: the bound; percent are read as shares.
        value: the report's number; None where it is undefined.
    """

    expression: str
    name: str
    path: tuple[str, ...]
    sign: str
    number: float
    value: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the condition holds; an unknown number never passes."""
        return self.value is None or _COMPARISONS[self.sign](self.value, self.number)

    @property
    def text(self) -> str:
        """What was found, in one line."""
        if self.value is None:
            return f"{self.name} is undefined: nothing was measured that it rests on"
        return f"{self.name} is {self.value:.6g}"

    @property
    def failure(self) -> str:
        """What was found, and what the gate says; empty where it passed."""
        return f"{self.text} (fail if {self.expression})" if self.failed else ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"fail_if": self.expression, "value": self.value, "failed": self.failed}


def parse_gate(text: str) -> Gate:
    """Read the gate that an expression states.

    Raises:
        InputError: the expression cannot be read.

    Example:
        >>> gate = parse_gate("systems[a.b].replies.abstention_rate.low < 90%")
        >>> gate.path, gate.sign, gate.number
        (('systems', 'a.b', 'replies', 'abstention_rate', 'low'), '<', 0.9)
    """
    found = _GATE.fullmatch(text)
    name = found["name"] if found else ""
    parts = _PART.findall(name)
    # Whatever is not a part is a dot between two, or none before a bracket.
    between = _PART.sub("\0", name)
    if found is None or not re.fullmatch(r"\0(?:\.?\0)*", between):
        raise InputError(f"cannot be read: {text[:80]!r}", where="--fail-if", hint=_HINT)
    number = float(found["number"])
    if not math.isfinite(number):
        raise InputError(f"the number is too large: {text[:80]!r}", where="--fail-if", hint=_HINT)
    return Gate(
        expression=" ".join(text.split()),
        name=name,
        path=tuple(part[1:-1].strip() if part.startswith("[") else part for part in parts),
        sign=found["sign"],
        number=number / 100 if found["unit"] else number,
    )


# Short names, tried in turn where the report has no field of that name.
_ALIASES: dict[str, list[str]] = table_beside(__file__, "templates/gates.toml")
_NAME_ONE = "name a number or a rate of report.json"
_NAME_FIELDS = ("system_id", "name", "topic", "criterion", "id")
_SHOWN = 8
_ABSENT = object()


def _look_up(report: Mapping[str, Any], gate: Gate) -> float | None:
    """Find the number in the report, of a rate its value; None where it is undefined there.

    Raises:
        InputError: the report has no such number.
    """
    first, *rest = gate.path
    aliases = [] if first in report else _ALIASES.get(first, [])
    paths = (*((*alias.split("."), *rest) for alias in aliases), gate.path)
    places = (_at(report, path) for path in paths)
    found = next((one for one in places if one is not _ABSENT), _ABSENT)
    if isinstance(found, Mapping) and "value" in found:
        found = found["value"]
    if found is None or (isinstance(found, int | float) and not isinstance(found, bool)):
        return found
    names = [*_numbers(report), *_ALIASES]
    near = difflib.get_close_matches(gate.name, names, n=3, cutoff=0.5) or [*report][:_SHOWN]
    hint = f"name one of: {', '.join(name[:60] for name in near)}" if near else _NAME_ONE
    what = f"the report has no number {gate.name[:80]!r}"
    raise InputError(what, where=f"--fail-if {gate.expression[:120]!r}", hint=hint)


def _at(report: Any, path: Sequence[str]) -> Any:
    """What stands at a path; within what is undefined as a whole, everything is."""
    found = report
    for position, part in enumerate(path):
        if found is None and position:
            return None
        found = _children(found).get(part, _ABSENT)
    return found


def _children(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if not isinstance(value, list):
        return {}
    found = {str(position): item for position, item in enumerate(value)}
    for item in value:
        if isinstance(item, Mapping):
            named = next((item[name] for name in _NAME_FIELDS if name in item), None)
            if isinstance(named, str):
                found.setdefault(named, item)
    return found


def _numbers(value: Any, name: str = "") -> dict[str, Any]:
    """The rates and numbers of a report by the names that gates take."""
    if isinstance(value, Mapping) and {"value", "low", "high"} <= value.keys():
        return {name: value}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {name: value}
    # Of an item of a list the name comes last, and stays.
    parts = {id(item): (key, item) for key, item in _children(value).items()}
    if isinstance(value, Mapping):
        parts = dict(enumerate(_children(value).items()))
    found: dict[str, Any] = {}
    for key, item in parts.values():
        part = f".{key}" if _PLAIN.fullmatch(key) else f"[{key}]"
        found |= _numbers(item, f"{name}{part}" if name else part.removeprefix("."))
    return found


# Where more calls failed, the other numbers say little: gates fail unless one names `failed`.
_MAX_FAILED = parse_gate("failed>5%")


def check_gates(report: Mapping[str, Any], expressions: Sequence[str]) -> tuple[Gate, ...]:
    """Check each gate, in the order given.

    If more than 5 % of the rows failed, of the run or of a system that a gate is about, that is a
    failed gate, too, unless a gate of the user's names `failed` there.

    Args:
        report: what `report.json` holds, of any suite.
        expressions: see the package.

    Raises:
        InputError: an expression cannot be read, or names no number of the report.
    """
    gates = [parse_gate(text) for text in expressions]
    found = [replace(gate, value=_look_up(report, gate)) for gate in gates]
    places = dict.fromkeys(gate.path[:2] for gate in gates if gate.path[0] == "systems")
    for place in ((), *places) if gates else ():
        path = (*place, "failed")
        named = any(gate.path[: len(path)] == path for gate in gates)
        if named or "failed" not in _children(_at(report, place)):
            continue
        name = "failed" if not place else f"systems[{place[1]}].failed"
        share = replace(_MAX_FAILED, expression=f"{name}>5%", name=name, path=path)
        share = replace(share, value=_look_up(report, share))
        found += [share] if share.value is not None and share.failed else []
    return tuple(found)


def gate_table(results: Sequence[Gate]) -> Table:
    """Make a table of the results."""
    verdicts = ["failed" if result.failed else "passed" for result in results]
    columns = [
        ("Result", [Cell(verdict, mark=verdict) for verdict in verdicts]),
        ("Found", [Cell(result.text, mark="text") for result in results]),
    ]
    return Table.from_columns("Fails if", [result.expression for result in results], columns)


def measures_frame(values: Mapping[str, Any]) -> pandas.DataFrame:
    """Return one line per measure with an interval: its name, value, interval and n.

    Args:
        values: what `report.json` holds.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    pd = optional_import("pandas")
    found = {name: one for name, one in _numbers(values).items() if isinstance(one, Mapping)}
    rates = dict.fromkeys(("value", "low", "high"), "float64")
    dtypes = {"measure": "string", **rates, "n": "Int64"}
    lines = [{**one, "measure": name} for name, one in found.items()]
    return pd.DataFrame(lines, columns=[*dtypes]).astype(dtypes)
