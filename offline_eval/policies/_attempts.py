"""Count calibrations on the same data, so that the best of several keeps its promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from ..._version import CREATED_BY
from ...calibration.records import lines_sha256
from ...calibration.risk import Costs, Coverage, Leak, MaxAbstention, RiskTarget
from ...calibration.risk.risks import Risk
from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.files import json_sha256
from ..run import Stored
from ..run.table import TableSpec
from .records import CalibrationSet

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
        # A leak is tested alike whatever may be answered from memory.
        routes = [] if isinstance(self.risk, Leak) else sorted(self.allowed_routes)
        asked = {"risk": _as_json(self.risk), "delta": self.delta, "share": self.share}
        return {**chosen_of, **asked, "allowed_routes": routes}


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
    data = lines_sha256([one.sha256 for one in sets]) if len(sets) > 1 else sets[0].sha256
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
    return _history(sets).number("", {})


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


class _Attempt(Stored):
    """One line of a history.

    Attributes:
        key: hash of what was calibrated on, and for what.
        number: which attempt it is; None in older files, where the place of the line says it.
        data_sha256: of the records; of several runs to choose from, of all their hashes.
        settings: what decides the result: the bound, δ and so on.
        at: when it was first made.
        created_by: program and version.
    """

    key: str
    number: int | None = Field(default=None, ge=1)
    data_sha256: str
    settings: dict[str, Any]
    at: str
    created_by: str


class AttemptHistory:
    """The calibrations that were made on one or several runs or records files, beside each.

    A calibration with the same data and settings gives the same result, so it counts once. In
    each file all numbers differ, and no attempt is tested at a higher level than its number there
    stands for, so that the levels of all attempts on a run sum to δ at most. This also holds where
    a kill left an attempt in some of the files only.

    Args:
        paths: of the files, `….jsonl`, one per run that is calibrated on; made with the first
            attempt, and only ever appended to.
    """

    def __init__(self, *paths: Path) -> None:
        hint = "restore the line: it counts an attempt"
        # A run that is named twice has one history.
        self._files = [
            (path.parent, TableSpec(path.stem, _Attempt, "key", hint=hint))
            for path in sorted({path.parent.resolve() / path.name for path in paths})
        ]

    def number(self, data_sha256: str, settings: dict[str, Any]) -> int:
        """Return which attempt this is, from 1, without recording it.

        It is one more than the largest number in any of the files, or, for a repetition, the
        number that it had.

        Raises:
            InputError: a history cannot be read, or a line of it is damaged.
        """
        key = json_sha256([data_sha256, settings])
        return max(_number_in(spec.read(folder), key) for folder, spec in self._files)

    def record(self, data_sha256: str, settings: dict[str, Any], number: int) -> bool:
        """Store an attempt in all files, on disk when this returns.

        Args:
            data_sha256: of the records.
            settings: what decides the result.
            number: that it was tested as.

        Returns:
            False where another process has taken that number in the meantime.

        Raises:
            InputError: another process writes a history, or one cannot be written.
        """
        attempt = _Attempt(
            key=json_sha256([data_sha256, settings]),
            number=number,
            data_sha256=data_sha256,
            settings=settings,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            created_by=CREATED_BY,
        )
        with ExitStack() as opened:
            tables = [opened.enter_context(spec.open(folder)) for folder, spec in self._files]
            if self.number(data_sha256, settings) != number:
                return False
            for table in tables:
                table.extend([attempt])
        return True


def _number_in(attempts: Iterable[_Attempt], key: str) -> int:
    numbers = {one.key: one.number or place for place, one in enumerate(attempts, start=1)}
    return numbers.get(key) or 1 + max(numbers.values(), default=0)
