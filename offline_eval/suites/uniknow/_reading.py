"""Reading a run folder of this suite: everything is checked before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ....guard.errors import InputError
from ....guard.policy import Policy
from ....guard.text import clean_text
from ...run import read_manifest, read_versioned
from ._append_log import AppendLog
from ._artefacts import PlanFile, StoredCase, StoredSignal, UniKnowManifest, UniKnowRow, checked
from ._guard_method import UniKnowSignal, signal_from
from ._plan import EVALUATION

_Model = TypeVar("_Model", bound=BaseModel)

_RUN_AGAIN = "run `knowgate eval uniknow` again into another folder"
_GO_ON = "start the same `knowgate eval uniknow` again, it goes on where it stopped"


@dataclass(frozen=True, slots=True)
class UniKnowRun:
    """A checked run.

    Attributes:
        manifest: the checked fields; methods that turned out to have nothing to be
            trained on stand among those left out.
        plan: what the run was to ask; its `rows` are those of a finished run.
        cases: evaluation cases by id, in the order of the run.
        rows: as stored, in the order of the run.
        finished: whether all rows are there.
        policy: of the guards, with what it promises; None where none took part yet.
    """

    manifest: UniKnowManifest
    plan: PlanFile
    cases: Mapping[str, StoredCase]
    rows: tuple[dict[str, Any], ...]
    finished: bool
    policy: Policy | None = None


def read_uniknow_run(folder: str | os.PathLike[str]) -> UniKnowRun:
    """A run of this suite, finished or not; at least one row.

    Raises:
        InputError: no run there, another suite, a file that is missing, broken or
            written by a newer knowgate, or no row yet; names file and line.
    """
    root = Path(folder)
    manifest, left_out = _manifest(root), left_out_of(root)
    methods = tuple(name for name in manifest.methods if name not in left_out)
    manifest = manifest.model_copy(update={"methods": methods, "left_out": left_out})
    plan = _plan(root)
    cases = _cases(root)
    rows = []
    for where, row in _lines(root, "rows.jsonl"):
        found = _model(UniKnowRow, row, where)
        case_id = found.case_id.removeprefix(f"{found.method}|")
        if case_id not in cases or found.method not in manifest.methods:
            raise InputError(
                "the row is of no case or method of this run", where=where, hint=_RUN_AGAIN
            )
        rows.append(row)
    if len({row["case_id"] for row in rows}) < len(rows):
        raise InputError("a row stands twice", where=str(root / "rows.jsonl"), hint=_RUN_AGAIN)
    if not rows:
        raise InputError("the run has no row yet", where=str(root), hint=_GO_ON)
    path = root / "policy.json"
    policy = Policy.load(path) if path.exists() else None
    return UniKnowRun(manifest, plan, cases, tuple(rows), len(rows) >= plan.rows, policy)


def left_out_of(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Methods that were asked for and do not answer in a run, with the reason.

    Raises:
        InputError: no run of this suite there, or it has no plan yet.
    """
    root = Path(folder)
    return {**_manifest(root).left_out, **_plan(root).left_out}


def uniknow_signals(folder: str | os.PathLike[str]) -> list[UniKnowSignal]:
    """What the guards of a run measured, for calibrating on it.

    One per question and context, training questions first: raw relevance and confidence,
    whether the naive reply is what the context calls for, whether the closed-book reply is
    a gold answer.

    Raises:
        InputError: no run of this suite there, no guard took part, or it is not whole.
    """
    root = Path(folder)
    _manifest(root)
    plan = _plan(root)
    path = root / "signals.jsonl"
    if not path.exists():
        raise InputError(
            "the run has no signals.jsonl: no guard took part",
            where=str(root),
            hint="run it with --methods all, or with guard_naive among them",
        )
    found = [
        signal_from(_model(StoredSignal, row, where).model_dump(mode="json"))
        for where, row in _lines(root, "signals.jsonl")
    ]
    if len(found) < plan.training_cases + plan.evaluation_cases:
        raise InputError("not all signals are measured yet", where=str(path), hint=_GO_ON)
    return found


def _manifest(root: Path) -> UniKnowManifest:
    path = str(root / "manifest.json")
    value = read_manifest(root)
    if value.get("suite") != "uniknow":
        raise InputError(
            f"the run is of suite {value.get('suite')!r}, not 'uniknow'",
            where=path,
            hint="name a run made with `knowgate eval uniknow`",
        )
    return _model(UniKnowManifest, value, path)


def _plan(root: Path) -> PlanFile:
    path = root / "plan.json"
    if not path.exists():
        raise InputError("the run has no row yet", where=str(root), hint=_GO_ON)
    return _model(PlanFile, read_versioned(path, hint=_RUN_AGAIN), str(path))


def _cases(root: Path) -> dict[str, StoredCase]:
    found = (_model(StoredCase, row, where) for where, row in _lines(root, "cases.jsonl"))
    return {case.case_id: case for case in found if case.part == EVALUATION}


def _lines(root: Path, name: str) -> list[tuple[str, dict[str, Any]]]:
    path = root / name
    if not path.exists():
        raise InputError(f"no {name} in the run folder", where=str(root), hint=_RUN_AGAIN)
    # A line that a kill cut off is none: the run goes on before it.
    return [(f"{path}:{number}", _clean(row)) for number, row in AppendLog(path).read()]


def _model(model: type[_Model], value: dict[str, Any], where: str) -> _Model:
    return checked(model, value, where=where, hint=_RUN_AGAIN)


def _clean(value: Any) -> Any:
    """JSON whose strings can be encoded: a lone surrogate must not stop a report."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _clean(item) for key, item in value.items()}
    return value
