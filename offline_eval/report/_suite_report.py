"""What every suite's report offers to whoever writes its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..gates import GateResult
from ._junit import Check

Gates = Sequence[GateResult]


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """The report of a run, not yet rendered.

    Attributes:
        name: of the run's suite, as JUnit has it.
        values: of `report.json`.
        html: the page, with what became of the gates.
        markdown: likewise.
        csv: one line per reply; None where the suite has none.
        checks: for JUnit, where no gate is asked for; None where the suite has none.
    """

    name: str
    values: dict[str, Any]
    html: Callable[[Gates], str]
    markdown: Callable[[Gates], str]
    csv: Callable[[], str] | None = None
    checks: Callable[[], Sequence[Check]] | None = None
