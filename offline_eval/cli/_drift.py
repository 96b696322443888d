"""`knowgate drift`: does live traffic still look like the calibration questions?"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel, ConfigDict, Field

from ...calibration import Interval
from ...calibration.monitoring import DecisionMonitor
from ...calibration.monitoring.drift import DriftReport
from ...calibration.monitoring.report import MonitorReport
from ...guard.decision import Decision, Route
from ...guard.errors import InputError
from ...guard.policy import Policy
from ...guard.read_models import read_models
from ..run.measured_run import MeasuredRun
from ..suites.ookb.signals import replayed_decisions
from ._console import out, print_figures
from ._options import prints_figures, require_one, require_share

_DECISION = 'each line is a Decision: "route", "reason", and "relevance" and "confidence" or null'
_FEEDBACK = (
    'each line needs "route" (follow_context or answer) and "right" (true, false or null); '
    '"rate", in (0, 1], where replies are picked for labelling at different rates'
)
# That every reply was picked for labelling, at rates that say otherwise.
_IMPLAUSIBLE = 0.001


Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Decision(BaseModel):
    """What is compared of a decision; whatever else was logged is left aside."""

    model_config = ConfigDict(extra="ignore", strict=True)

    route: Annotated[Route, Field(strict=False)]
    # Of the guard, or of a veto of the user's.
    reason: str = Field(pattern=r"^[a-z0-9_]{1,60}$")
    relevance: Probability | None = None
    confidence: Probability | None = None
    relevance_stage: Literal["cheap", "costly", "fallback"] | None = None


class _Label(BaseModel):
    """A reply that was let through: whether it was right, and how likely it was to be picked."""

    model_config = ConfigDict(extra="ignore", strict=True)

    route: Literal["follow_context", "answer"]
    right: bool | None
    rate: float = Field(1.0, gt=0, le=1)


@prints_figures
def drift(
    policy: Path,
    input_path: Path | None = None,
    run: Path | None = None,
    feedback: Path | None = None,
    risk: float | None = None,
    delta: float | None = None,
    fail_on_drift: bool = False,
) -> None:
    """Compare live decisions with the calibration set, and feedback with the promise.

    Decisions are lines of `DecisionLog`, of `knowgate apply` or of `Decision.model_dump`; or
    those that the policy takes on a run of `knowgate measure`, where a log of questions of which
    nothing is known suffices.
    Relevance and confidence are compared with the policy's histograms (PSI and KS, with
    what chance alone gives), the abstention rate against its baseline, and feedback, if
    given, against the promised risk.

    Example: `knowgate drift --policy policy.json --input decisions.jsonl --fail-on-drift`

    Args:
        policy: The policy that served.
        input_path: JSON lines: decisions in the order they were taken.
        run: In place of --input: a run of `knowgate measure`, e.g. on a log of questions.
        feedback: JSON lines: {"route", "right"} of replies let through.
        risk: Bound α on wrong replies; by default that of the policy's guarantee.
        delta: Probability of a false alarm of the risk; by default the guarantee's.
        fail_on_drift: Exit code 1 on drift or any alarm.
    """
    hint = "name a file of decisions, or a run of measured questions"
    require_one(input_path, run, where="--input, --run", hint=hint)
    require_share({"risk": risk, "delta": delta})
    loaded = Policy.load(policy)
    if input_path is not None:
        lines = read_models(input_path, _Decision, hint=_DECISION)
        taken: Iterable[Decision] = (Decision(**one.model_dump()) for _, one in lines)
    else:
        assert run is not None
        taken = replayed_decisions(MeasuredRun.read(run, with_calibration=False), loaded)
    labels = [] if feedback is None else _labels(feedback)
    least = min((one.rate for one in labels), default=1.0)
    monitor = DecisionMonitor(loaded, risk=risk, delta=delta, least_rate=least, metrics=False)
    if labels and not monitor.report().risks:
        raise InputError(
            "the policy's guarantee is not about wrong replies, so feedback has no bound",
            where=str(policy),
            hint="give it with --risk",
        )
    counted: Counter[Route] = Counter()

    def observed() -> Iterator[Decision]:
        for decision in taken:
            monitor(decision)
            counted[decision.route] += 1
            yield decision

    # Drift and abstention over all decisions, not over the last block.
    drift = DriftReport.of(loaded, observed())
    for one in labels:
        monitor.feedback(one.route, one.right, rate=one.rate)
    report = monitor.report()
    rate = Interval.wilson(counted[Route.ABSTAIN], counted.total())
    abstention = dataclasses.replace(report.abstention, rate=rate)
    report = dataclasses.replace(report, complete=True, drift=drift, abstention=abstention)
    print_figures(report.to_dict())
    for line in _lines(report):
        out.print(line)
    if fail_on_drift and report.alarms:
        raise typer.Exit(1)


def _lines(report: MonitorReport) -> list[str]:
    lines = [f"{report.decisions} decisions"]
    rows = [
        f"{signal.signal:<12}{name:<5}{distance.value:>7.3f}"
        f"{distance.without_drift:>11.3f}{distance.p_value:>8.3f}{signal.n:>9}"
        for signal in report.drift.signals
        for name, distance in (("PSI", signal.psi), ("KS", signal.ks))
        if distance is not None
    ]
    if rows:
        lines += [f"{'signal':<17}{'value':>7}{'by chance':>11}{'p':>8}{'n':>9}", *rows]
    lines += report.words.split("\n")
    alarms = ", ".join(report.alarms)
    lines.append(f"alarms: {alarms}" if alarms else "no alarm")
    return lines


def _labels(path: Path) -> list[_Label]:
    found = [one for _, one in read_models(path, _Label, hint=_FEEDBACK)]
    picked = math.prod(one.rate for one in found)
    if picked < _IMPLAUSIBLE and all(one.right is not None for one in found):
        raise InputError(
            "labels at rates below 1, but not one reply that was not picked",
            where=str(path),
            hint='add those with "right": null, or leave out "rate" if it is the same for all',
        )
    return found
