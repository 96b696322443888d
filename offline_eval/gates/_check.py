"""Checking gates against a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._expression import Gate, parse_gate
from ._lookup import look_up


@dataclass(frozen=True, slots=True)
class GateResult:
    """What became of a gate.

    Attributes:
        gate: as read.
        value: the report's number; None where it is undefined.
        failed: it does what it must not, or is undefined: what is not known does not pass.
    """

    gate: Gate
    value: float | None
    failed: bool

    @property
    def words(self) -> str:
        """What was found, in one line."""
        if self.value is None:
            return f"{self.gate.name} is undefined: nothing was measured that it rests on"
        return f"{self.gate.name} is {self.value:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"fail_if": self.gate.text, "value": self.value, "failed": self.failed}


def check_gates(report: Mapping[str, Any], expressions: Sequence[str]) -> tuple[GateResult, ...]:
    """What becomes of each gate, in the order given.

    Args:
        report: what `report.json` holds, of any suite.
        expressions: see the package.

    Raises:
        InputError: an expression cannot be read, or names no number of the report.
    """
    gates = [parse_gate(text) for text in expressions]
    found = [(gate, look_up(report, gate)) for gate in gates]
    return tuple(
        GateResult(gate, value, value is None or gate.fails(value)) for gate, value in found
    )
