"""The options of a costly scorer behind a cheap one, of `calibrate` and `recalibrate`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ...guard.errors import InputError
from ._calibration_output import read_calibration_set

if TYPE_CHECKING:
    from ..policies import CalibrationSet


class OnJudgeFailure(StrEnum):
    """What a failed costly scorer leads to."""

    ABSTAIN = "abstain"
    CHEAP = "cheap"


_JUDGE_RUN = typer.Option(
    help="leak: a run of `knowgate measure` on the same questions with a costly scorer, e.g. "
    "judge:MODEL. It is then asked only in a band of the cheap one's values, which is certified "
    "with the threshold."
)
_JUDGE_COST = typer.Option(
    help="With --judge-run: cost of one question of the costly scorer, in questions of the cheap "
    "one.  [default: 200]"
)
_ABSTENTION_COST = typer.Option(
    help="With --judge-run: cost of abstaining from a question that could be answered, likewise.  "
    "[default: 20000]"
)
_ON_JUDGE_FAILURE = typer.Option(
    help="With --judge-run: where the costly scorer fails, abstain, or decide by the cheap one's "
    "own threshold, which is certified too.  [default: abstain]"
)
JudgeRun = Annotated[Path | None, _JUDGE_RUN]
JudgeCost = Annotated[float | None, _JUDGE_COST]
AbstentionCost = Annotated[float | None, _ABSTENTION_COST]
OnFailure = Annotated[OnJudgeFailure | None, _ON_JUDGE_FAILURE]


@dataclass(frozen=True, slots=True)
class Judge:
    """The options of a costly scorer behind the cheap one."""

    run: Path | None
    cost: float | None
    abstention_cost: float | None
    on_failure: OnJudgeFailure | None

    def added_to(self, measured: CalibrationSet) -> CalibrationSet:
        """The records with the costly scorer's verdicts, and what it costs.

        Raises:
            InputError: there are costs without a costly scorer, or they are out of range.
        """
        if self.run is not None:
            measured = measured.with_judge(read_calibration_set(self.run, None))
        given = {
            "judge_cost": self.cost,
            "abstention_cost": self.abstention_cost,
            "on_failure": None if self.on_failure is None else self.on_failure.value,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            return measured
        if measured.cascade is None:
            raise InputError(
                "is for a costly scorer, and none measured these questions",
                where=f"--{_FLAGS[next(iter(changes))]}",
                hint="name a run of the costly scorer with --judge-run",
            )
        try:
            return replace(measured, cascade=replace(measured.cascade, **cast(Any, changes)))
        except ValueError as error:
            raise InputError(
                str(error), where="--judge-cost, --abstention-cost", hint="name a cost such as 200"
            ) from None


_FLAGS = {
    "judge_cost": "judge-cost",
    "abstention_cost": "abstention-cost",
    "on_failure": "on-judge-failure",
}
