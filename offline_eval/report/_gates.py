"""Read gates, find the numbers that they name in a report, and check them; all as a data frame."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...guard.errors import InputError, optional_import
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
_HINT = "write NAME OP NUMBER, for example 'abstention_rate<0.9', with <, <=, >, >=, == or !="


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition under which a release must not go out.

    Attributes:
        text: as the user gave it.
        name: of the number in the report, as given.
        path: its parts; those in brackets are names or positions in a list.
        sign: of the comparison.
        number: the bound; percent are read as shares.
    """

    text: str
    name: str
    path: tuple[str, ...]
    sign: str
    number: float

    def fails(self, value: float) -> bool:
        """Whether the condition holds for the report's number."""
        return _COMPARISONS[self.sign](value, self.number)


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
        text=" ".join(text.split()),
        name=name,
        path=tuple(part[1:-1].strip() if part.startswith("[") else part for part in parts),
        sign=found["sign"],
        number=number / 100 if found["unit"] else number,
    )


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
_NAME_ONE = "name a number or a rate of report.json"
_NAME_FIELDS = ("system_id", "name", "topic", "criterion", "id")
_SHOWN = 8
_ABSENT = object()


def look_up(report: Mapping[str, Any], gate: Gate) -> float | None:
    """Find the number in the report; None where it is undefined there.

    Of a rate with its interval it is the value.

    Raises:
        InputError: the report has no such number.
    """
    first, *rest = gate.path
    aliases = () if first in report else GATE_ALIASES.get(first, ())
    for path in (*((*alias.split("."), *rest) for alias in aliases), gate.path):
        found, depth, known = _walk(report, path)
        if found is not _ABSENT:
            return _number(gate, found)
    raise _unknown(gate, depth, known if depth else [*known, *GATE_ALIASES])


def _walk(report: Any, path: Sequence[str]) -> tuple[Any, int, list[str]]:
    """Follow the path; if it ends early, say after how many parts, and what is there."""
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
    if not isinstance(value, list):
        return {}
    found = {str(position): item for position, item in enumerate(value)}
    for item in value:
        if isinstance(item, Mapping):
            named = next((item[name] for name in _NAME_FIELDS if name in item), None)
            if isinstance(named, str):
                found.setdefault(named, item)
    return found


def _number(gate: Gate, value: Any) -> float | None:
    if isinstance(value, Mapping) and "value" in value:
        value = value["value"]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        children, hint = _children(value), _NAME_ONE
        if children and not isinstance(value, list):
            hint = f"name one in it, such as {gate.name[:80]}.{sorted(children)[0]}"
        what = f"{gate.name[:80]!r} is no number in this report"
        raise InputError(what, where="--fail-if", hint=hint)
    return float(value)


def _unknown(gate: Gate, depth: int, known: Sequence[str]) -> InputError:
    wanted = gate.path[depth]
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    names = near or list(known)[:_SHOWN]
    within = f" in {'.'.join(gate.path[:depth])[:80]!r}" if depth else ""
    what, where = f"the report has no {wanted[:80]!r}{within}", f"--fail-if {gate.text[:120]!r}"
    hint = f"name one of: {', '.join(name[:60] for name in names)}" if names else _NAME_ONE
    return InputError(what, where=where, hint=hint)


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of a gate.

    Attributes:
        gate: as read.
        value: the report's number; None where it is undefined.
        failed: the condition holds, or the number is undefined: an unknown number never passes.
        system: whose number it is; empty for the whole run.
    """

    gate: Gate
    value: float | None
    failed: bool
    system: str = ""

    @property
    def text(self) -> str:
        """What was found, in one line."""
        name = f"{self.system}: {self.gate.name}" if self.system else self.gate.name
        if self.value is None:
            return f"{name} is undefined: nothing was measured that it rests on"
        return f"{name} is {self.value:.6g}"

    @property
    def failure(self) -> str:
        """What was found, and what the gate says; empty where it passed."""
        return f"{self.text} (fail if {self.gate.text})" if self.failed else ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        own = {"system": self.system} if self.system else {}
        return {**own, "fail_if": self.gate.text, "value": self.value, "failed": self.failed}


# Where more calls failed, the other numbers say little: gates fail unless one names `failed`.
_MAX_FAILED = parse_gate("failed>5%")


def check_gates(
    report: Mapping[str, Any],
    expressions: Sequence[str],
    systems: Mapping[str, Mapping[str, Any]] | None = None,
    chosen: Sequence[str] = (),
) -> tuple[GateResult, ...]:
    """Check each gate, in the order given.

    If more than 5 % of the rows failed, that is a failed gate, too, unless a gate of the user's
    names `failed`.

    Args:
        report: what `report.json` holds, of any suite.
        expressions: see the package.
        systems: numbers by the name of the system.
        chosen: names of systems whose numbers are checked, in the place of the report's.

    Raises:
        InputError: there is no such system, or an expression cannot be read, or names no number
            of the report.
    """
    if chosen and not expressions:
        raise InputError("is for gates", where="--system", hint="add --fail-if, or leave it out")
    known = systems or {}
    strangers = [name for name in chosen if name not in known]
    if strangers:
        near = difflib.get_close_matches(strangers[0], known, n=3, cutoff=0.3)
        names = ", ".join(near or list(known)[:_SHOWN])
        hint = f"name one of: {names}" if known else "runs of this suite have one system"
        what = f"the run has no system {strangers[0][:80]!r}"
        raise InputError(what, where="--system", hint=hint)
    gates = [parse_gate(text) for text in expressions]
    found = []
    for system, numbers in [(name, known[name]) for name in chosen] or [("", report)]:
        for gate in gates:
            value = look_up(numbers, gate)
            found.append(GateResult(gate, value, value is None or gate.fails(value), system))
        if gates and "failed" in numbers and all(gate.path[0] != "failed" for gate in gates):
            share = look_up(numbers, _MAX_FAILED)
            if share is not None and _MAX_FAILED.fails(share):
                found.append(GateResult(_MAX_FAILED, share, True, system))
    return tuple(found)


def gate_table(results: Sequence[GateResult]) -> Table:
    """Make a table of the results."""
    verdicts = ["failed" if result.failed else "passed" for result in results]
    columns = [
        ("Result", [Cell(verdict, mark=verdict) for verdict in verdicts]),
        ("Found", [Cell(result.text, mark="text") for result in results]),
    ]
    return Table.from_columns("Fails if", [result.gate.text for result in results], columns)


_PLAIN = re.compile(r"[^\s.<>=!\[\]]+")


def measures_frame(values: Mapping[str, Any]) -> pandas.DataFrame:
    """Return one line per measure with an interval: its name, value, interval and n.

    Args:
        values: what `report.json` holds.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    pd = optional_import("pandas")
    found = list(_measures(values, ""))
    dtypes = {"value": "float64", "low": "float64", "high": "float64", "n": "Int64"}
    columns = {
        key: pd.Series([one.get(key) for _, one in found], dtype=dtype)
        for key, dtype in dtypes.items()
    }
    names = pd.Series([name for name, _ in found], dtype="string")
    return pd.DataFrame({"measure": names, **columns})


def _measures(value: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what has a value and an interval, by the name that gates take."""
    if isinstance(value, Mapping) and {"value", "low", "high"} <= value.keys():
        yield name, value
        return
    parts = _children(value).items()
    # Of an item of a list the name comes last, and stays.
    named = {id(item): (key, item) for key, item in parts if isinstance(item, Mapping | list)}
    for key, item in named.values():
        part = f".{key}" if _PLAIN.fullmatch(key) else f"[{key}]"
        yield from _measures(item, f"{name}{part}" if name else part.removeprefix("."))
