"""Count calibrations on the same data, so that the best of several keeps its promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...calibration.risk import Coverage, Leak, Risk, RiskTarget
from ...guard.decision import Route
from ...guard.errors import InputError
from ._attempt_history import AttemptHistory
from ._records import CalibrationSet

_Found = TypeVar("_Found")
# In a run folder; beside a records file it has that file's name before it.
HISTORY = "calibrations.jsonl"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a calibration; see the arguments of `calibrate_records`."""

    risk: Risk
    delta: float
    share: float
    allowed_routes: Sequence[Route]
    confidence_threshold: float | None
    max_false_abstention: float
    # Hashes of the records of all scorers, where one of several is chosen.
    candidates: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        """What decides the test, as JSON; the rest changes nothing that is certified."""
        chosen_of = {"candidates": sorted(self.candidates)} if self.candidates else {}
        return {
            **chosen_of,
            "risk": _as_json(self.risk),
            "delta": self.delta,
            "share": self.share,
            # A leak is tested alike whatever may be answered from memory.
            "allowed_routes": [] if isinstance(self.risk, Leak) else sorted(self.allowed_routes),
        }


def _as_json(risk: Risk) -> Any:
    if isinstance(risk, Leak | Coverage | RiskTarget):
        return {"promise": type(risk).__name__.lower(), **asdict(risk)}
    return [_as_json(one) for one in risk] if isinstance(risk, Sequence) else float(risk)


def history_of(measured: CalibrationSet) -> Path:
    """The file that counts the calibrations on a run or a records file.

    Raises:
        InputError: the records come from no file that it could lie beside.
    """
    source = Path(measured.source)
    if source.is_dir():
        return source / HISTORY
    if not source.is_file():
        raise InputError(
            "is neither a run folder nor a file, so that calibrations on it cannot be counted",
            where=measured.source,
            hint="store the records in a file",
        )
    return source.with_name(f"{source.stem}.{HISTORY}")


def counted(measured: CalibrationSet, asked: Asked, fit: Callable[[int], _Found]) -> _Found:
    """Fit as the next attempt on this data, and record it; a repetition has its old number.

    Raises:
        InputError: the history cannot be read or written; or as `fit`, which then counts for
            nothing.
    """
    history = AttemptHistory(history_of(measured))
    settings = {**asked.settings(), **measured.cascade_settings()}
    data = measured.sha256
    while True:
        number = history.number(data, settings)
        found = fit(number)
        if history.record(data, settings, number):
            return found
