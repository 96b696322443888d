"""From a run to a policy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...._version import __version__
from ....calibration import (
    SMALLEST_PROBABILITY,
    Interval,
    LeaveOneOutRecord,
    split_by_group,
    wilson_interval,
)
from ....calibration.risk import fit_leave_one_out_policy
from ....guard.decision import Route
from ....guard.errors import InputError
from ....guard.files import atomic_writer
from ....guard.policy import Policy
from ...run import SCHEMA_VERSION, read_measured_run
from ._measure import with_answers_from_memory

_RUN_FILES = ("manifest.json", "questions.jsonl", "rows.jsonl", "calibration.json")


@dataclass(frozen=True, slots=True)
class OokbCalibrated:
    """A fitted policy and how it did on the questions kept back.

    Attributes:
        policy: the fitted policy.
        calibration_questions: how many it was fitted on.
        left_out_abstention: share of left-out test questions whose context does not
            pass, so that it abstains, or answers from memory where that is allowed.
        false_abstention: the same share of in-KB test questions with their source
            retrieved.
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
    confidence_threshold: float | None = None,
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
        confidence_threshold: where the context does not pass, answer from memory from
            this confidence on, in (0, 1]; declared by you, not certified. None: never.

    Raises:
        InputError: the run cannot be used, or a number is out of range.
    """
    _require_in_range({"risk": risk, "delta": delta, "share": share}, seed, confidence_threshold)
    _require_apart(Path(run), Path(out))
    found = read_measured_run(run, with_calibration=False)
    fit_on, test = split_by_group(found.records(), share=share, seed=seed)
    if not fit_on or not test:
        raise InputError(
            "too few distinct passages to split into two parts",
            where=os.fspath(run),
            hint="use more questions",
        )
    policy = fit_leave_one_out_policy(
        fit_on,
        scorer=found.manifest.settings.scorer,
        aggregator=found.manifest.settings.aggregator,
        risk=risk,
        delta=delta,
        created_by=f"knowgate {__version__}",
    )
    if confidence_threshold is not None:
        policy = with_answers_from_memory(policy, confidence_threshold)
    document = _calibration_document(policy, fit_on, test, seed=seed)
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


def _require_in_range(
    shares: Mapping[str, float], seed: int, confidence_threshold: float | None
) -> None:
    for name, value in shares.items():
        if not SMALLEST_PROBABILITY <= value <= 1 - SMALLEST_PROBABILITY:
            raise InputError(
                f"must be between 0 and 1, not {value:g}",
                where=f"--{name}",
                hint="name a share such as 0.1",
            )
    if seed < 0:
        raise InputError(f"must not be below 0, not {seed}", where="--seed", hint="name 0 or more")
    if confidence_threshold is not None and not 0 < confidence_threshold <= 1:
        raise InputError(
            f"must be above 0 and at most 1, not {confidence_threshold:g}",
            where="--answer-from-memory",
            hint="name a confidence such as 0.7",
        )


def _calibration_document(
    policy: Policy,
    calibration: list[LeaveOneOutRecord],
    test: list[LeaveOneOutRecord],
    *,
    seed: int,
) -> dict[str, Any]:
    """What `calibration.json` in a run folder holds."""
    guarantee = policy.guarantee
    return {
        "schema_version": SCHEMA_VERSION,
        "policy": policy.model_dump(mode="json"),
        "risk": None if guarantee is None else guarantee.risk,
        "delta": None if guarantee is None else guarantee.delta,
        "seed": seed,
        "calibration_questions": [record.question_id for record in calibration],
        "test_questions": [record.question_id for record in test],
    }


def _require_apart(run: Path, out: Path) -> None:
    if out.resolve() in {(run / name).resolve() for name in _RUN_FILES}:
        raise InputError("is a file of the run itself", where=str(out), hint="choose another --out")


def _abstention(policy: Policy, raw: list[float | None]) -> Interval:
    # Confidence is not measured here; without it a policy never answers from memory.
    routes = [
        policy.route(policy.relevance_calibrator.apply(value), None)
        for value in raw
        if value is not None
    ]
    return wilson_interval(sum(route is Route.ABSTAIN for route in routes), len(routes))
