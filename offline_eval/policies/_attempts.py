"""Count calibrations on the same data, so that the best of several keeps its promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...calibration.risk import Costs, Coverage, Leak, MaxAbstention, Risk, RiskTarget
from ...guard.decision import Route
from ...guard.errors import InputError
from ._attempt_history import AttemptHistory
from ._records import CalibrationSet, hash_of_texts

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
    if isinstance(risk, Leak | Coverage | RiskTarget | Costs | MaxAbstention):
        # Which questions must not pass is left out where there are no others than left-out ones.
        known = {k: v for k, v in asdict(risk).items() if v not in (None, "left_out")}
        return {"promise": type(risk).__name__.lower(), **known}
    return [_as_json(one) for one in risk] if isinstance(risk, Sequence) else float(risk)


def counted(sets: Sequence[CalibrationSet], asked: Asked, fit: Callable[[int], _Found]) -> _Found:
    """Fit as the next attempt on this data, and record it; a repetition has its old number.

    Of several sets to choose from, and of the two runs of a cascade, each run has a history, and
    the attempt counts in all of them.

    Raises:
        InputError: a history cannot be read or written; or as `fit`, which then counts for
            nothing.
    """
    history = _history(sets)
    # Which run is named first changes nothing that is tested.
    data = hash_of_texts([one.sha256 for one in sets]) if len(sets) > 1 else sets[0].sha256
    settings = {**asked.settings(), **sets[0].cascade_settings()}
    while True:
        number = history.number(data, settings)
        found = fit(number)
        if history.record(data, settings, number):
            return found


def next_attempt(sets: Sequence[CalibrationSet]) -> int:
    """Which attempt on this data another calibration would be; counts nothing.

    Raises:
        InputError: a history cannot be read.
    """
    return _history(sets).next_number()


def _history(sets: Sequence[CalibrationSet]) -> AttemptHistory:
    return AttemptHistory(*(_history_of(source) for one in sets for source in one.sources))


def _history_of(source: str) -> Path:
    """The file that counts the calibrations on a run or a records file.

    Raises:
        InputError: the records come from no file that it could lie beside.
    """
    path = Path(source)
    if path.is_dir():
        return path / HISTORY
    if not path.is_file():
        raise InputError(
            "is neither a run folder nor a file, so that calibrations on it cannot be counted",
            where=source,
            hint="store the records in a file",
        )
    return path.with_name(f"{path.stem}.{HISTORY}")
