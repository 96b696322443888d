"""Check and read the files of a run of this suite, finished or not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ....guard.errors import InputError
from ....guard.policy import Policy
from ...run import (
    Manifest,
    Run,
    TableSpec,
)
from ._plan import CASES, PlanFile, read_plan_file
from ._rows import CaseRow, UniKnowRow, UniKnowSignal

_RUN_AGAIN = "run `knowgate eval uniknow` again into another folder"
_GO_ON = "start the same `knowgate eval uniknow` again; it continues the run"
SIGNALS = TableSpec("signals", UniKnowSignal, key="case_id", hint=_RUN_AGAIN, clean=True)
ROWS = TableSpec("rows", UniKnowRow, key="case_id", hint=_RUN_AGAIN, clean=True)
POLICY = "policy.json"


class UniKnowManifest(Manifest):
    """The manifest of a run of this suite.

    Attributes:
        methods: that answer, in the order of the rows; see also `PlanFile.left_out`.
        left_out: methods that were asked for and cannot be run on this model, with the reason.
    """

    suite: Literal["uniknow"]
    created_by: str
    settings: dict[str, object]
    methods: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    left_out: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UniKnowRun:
    """A checked run.

    Attributes:
        manifest: the methods that could not be trained are among those left out.
        plan: numbers of the plan; its `rows` are those of a finished run.
        cases: evaluation cases by id, in the order of the run.
        rows: as stored, in the order of the run.
        finished: whether all rows are there.
        policy: of the guards, with its guarantee; None if no guard took part yet.
        signals: of the evaluation cases; empty likewise.
    """

    manifest: UniKnowManifest
    plan: PlanFile
    cases: Mapping[str, CaseRow]
    rows: tuple[UniKnowRow, ...]
    finished: bool
    policy: Policy | None = None
    signals: tuple[UniKnowSignal, ...] = ()


def checked_run(run: Run) -> UniKnowRun:
    """Check a run of this suite, finished or not; it has at least one row.

    Args:
        run: opened to read, with a `UniKnowManifest`.

    Raises:
        InputError: a file is missing, damaged or written by a newer knowgate, or there is no
            row yet; names file and line.
    """
    plan = _plan(run)
    manifest = run.manifest
    assert isinstance(manifest, UniKnowManifest)
    left_out = {**manifest.left_out, **plan.left_out}
    methods = tuple(name for name in manifest.methods if name not in left_out)
    for spec in (CASES, ROWS):
        if not spec.path(run.folder).exists():
            raise InputError(
                f"no {spec.name}.jsonl in the run folder", where=str(run.folder), hint=_RUN_AGAIN
            )
    cases = {row.case_id: row for row in run[CASES].rows() if row.part == "evaluation"}
    rows = []
    for where, row in run[ROWS].places():
        if row.case_key not in cases or row.method not in methods:
            raise InputError(
                "the row is of no case or method of this run", where=where, hint=_RUN_AGAIN
            )
        rows.append(row)
    if not rows:
        raise InputError("the run has no row yet", where=str(run.folder), hint=_GO_ON)
    path = run.folder / POLICY
    return UniKnowRun(
        manifest=manifest.model_copy(update={"methods": methods, "left_out": left_out}),
        plan=plan,
        cases=cases,
        rows=tuple(rows),
        finished=len(rows) >= plan.rows,
        policy=Policy.load(path, links=False) if path.exists() else None,
        signals=tuple(one for one in run[SIGNALS].rows() if one.part == "evaluation")
        if SIGNALS.path(run.folder).exists()
        else (),
    )


def uniknow_signals(folder: str | os.PathLike[str]) -> list[UniKnowSignal]:
    """Return what the guards of a run measured, to calibrate on.

    One per question and context, training questions first.

    Raises:
        InputError: no run of this suite there, no guard took part, or signals are missing.
    """
    suite = Manifest.read_raw(folder).get("suite")
    if suite != "uniknow":
        raise InputError(
            f"the run is of suite {suite!r}, not 'uniknow'",
            where=str(Path(folder) / "manifest.json"),
            hint="name a run made with `knowgate eval uniknow`",
        )
    run = Run.read(folder, UniKnowManifest)
    plan = _plan(run)
    if not SIGNALS.path(run.folder).exists():
        raise InputError(
            "the run has no signals.jsonl: no guard took part",
            where=str(run.folder),
            hint="run it with --methods all, or with guard_naive among them",
        )
    found = run[SIGNALS].rows()
    if len(found) < plan.training_cases + plan.evaluation_cases:
        raise InputError(
            "not all signals are measured yet", where=str(SIGNALS.path(run.folder)), hint=_GO_ON
        )
    return found


def _plan(run: Run) -> PlanFile:
    plan = read_plan_file(run.folder)
    if plan is None:
        raise InputError("the run has no row yet", where=str(run.folder), hint=_GO_ON)
    return plan
