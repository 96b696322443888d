"""`NAME OP NUMBER`: reading what a gate says."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from ...guard import InputError

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
_MEND = "write NAME OP NUMBER, for example 'abstention_rate<0.9', with <, <=, >, >=, == or !="


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate, read.

    Attributes:
        text: as it was given.
        name: of the number in the report, as given.
        path: its parts; those in brackets are names or positions in a list.
        sign: of the comparison.
        number: that the report's is compared with; percent are shares.
    """

    text: str
    name: str
    path: tuple[str, ...]
    sign: str
    number: float

    def fails(self, value: float) -> bool:
        """Whether the report's number does what it must not."""
        return _COMPARISONS[self.sign](value, self.number)


def parse_gate(text: str) -> Gate:
    """The gate that an expression states.

    Raises:
        InputError: it is none.

    Example:
        >>> gate = parse_gate("systems[a.b].replies.abstention_rate.low < 90%")
        >>> gate.path, gate.sign, gate.number
        (('systems', 'a.b', 'replies', 'abstention_rate', 'low'), '<', 0.9)
    """
    found = _GATE.fullmatch(text)
    if found is None:
        raise InputError(f"cannot be read: {text[:80]!r}", where="--fail-if", mend=_MEND)
    name = found["name"]
    parts = _PART.findall(name)
    # Whatever is not a part is a dot between two, or none before a bracket.
    between = _PART.sub("\0", name)
    if not re.fullmatch(r"\0(?:\.?\0)*", between):
        raise InputError(f"cannot be read: {text[:80]!r}", where="--fail-if", mend=_MEND)
    number = float(found["number"])
    if not math.isfinite(number):
        raise InputError(f"the number is too large: {text[:80]!r}", where="--fail-if", mend=_MEND)
    return Gate(
        text=" ".join(text.split()),
        name=name,
        path=tuple(part[1:-1].strip() if part.startswith("[") else part for part in parts),
        sign=found["sign"],
        number=number / 100 if found["unit"] else number,
    )
