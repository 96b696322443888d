"""From a run to a policy."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ..._version import __version__
from ...calibration import (
    SMALLEST_PROBABILITY,
    Interval,
    fit_leave_one_out_policy,
    split_by_group,
    wilson_interval,
)
from ...guard import InputError, Policy, Route
from ...guard.files import atomic_writer
from ._reading import calibration_document, read_ookb_run

_RUN_FILES = ("manifest.json", "questions.jsonl", "rows.jsonl", "calibration.json")


@dataclass(frozen=True, slots=True)
class OokbCalibrated:
    """A fitted policy and how it did on the questions kept back.

    Attributes:
        policy: the fitted policy.
        calibration_questions: how many it was fitted on.
        left_out_abstention: share of left-out test questions it abstains from.
        false_abstention: share of in-KB test questions with their source
            retrieved that it abstains from.
    """

    policy: Policy
    calibration_questions: int
    left_out_abstention: Interval
    false_abstention: Interval


def calibrate_ookb(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    risk: float,
    delta: float,
    share: float = 0.5,
    seed: int = 0,
) -> OokbCalibrated:
    """Fit a policy on a seeded part of a run's questions and write it.

    Args:
        run: a finished run folder; `calibration.json` is written into it, from
            which the report takes the held-out half.
        out: where `policy.json` goes.
        risk: bound α on the share of left-out questions that pass, in (0, 1).
        delta: probability δ that the bound fails, in (0, 1).
        share: of the questions used for fitting, in (0, 1).
        seed: of the split.

    Raises:
        InputError: the run cannot be used, or a number is out of range.
    """
    for name, value in {"risk": risk, "delta": delta, "share": share}.items():
        if not SMALLEST_PROBABILITY <= value <= 1 - SMALLEST_PROBABILITY:
            raise InputError(
                f"must be between 0 and 1, not {value:g}",
                where=f"--{name}",
                mend="name a share such as 0.1",
            )
    if seed < 0:
        raise InputError(f"must not be below 0, not {seed}", where="--seed", mend="name 0 or more")
    _require_apart(Path(run), Path(out))
    found = read_ookb_run(run, with_calibration=False)
    fit_on, test = split_by_group(found.records(), share=share, seed=seed)
    if not fit_on or not test:
        raise InputError(
            "too few distinct passages to split into two parts",
            where=os.fspath(run),
            mend="use more questions",
        )
    policy = fit_leave_one_out_policy(
        fit_on,
        scorer=found.scorer,
        aggregator=found.aggregator,
        risk=risk,
        delta=delta,
        created_by=f"knowgate {__version__}",
    )
    document = calibration_document(policy, fit_on, test, seed=seed)
    # Both or neither: each is begun before either takes its place.
    with atomic_writer(out) as whole, atomic_writer(Path(run) / "calibration.json") as noted:
        whole.write(policy.to_json())
        noted.write(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")
    return OokbCalibrated(
        policy=policy,
        calibration_questions=len(fit_on),
        left_out_abstention=_abstention(policy, [record.left_out for record in test]),
        false_abstention=_abstention(policy, [record.in_kb for record in test]),
    )


def _require_apart(run: Path, out: Path) -> None:
    if out.resolve() in {(run / name).resolve() for name in _RUN_FILES}:
        raise InputError("is a file of the run itself", where=str(out), mend="choose another --out")


def _abstention(policy: Policy, raw: list[float | None]) -> Interval:
    routes = [
        policy.route(policy.relevance_calibrator.apply(value), None)
        for value in raw
        if value is not None
    ]
    return wilson_interval(sum(route is Route.ABSTAIN for route in routes), len(routes))
