"""Reading a run folder: everything is checked before anything is computed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...guard import InputError, Policy, clean_text
from ...guard.files import read_json, read_jsonl
from ._artefacts import (
    RUN_SCHEMA_VERSION,
    CalibrationFile,
    CaseRow,
    Manifest,
    QuestionRow,
)

_Model = TypeVar("_Model", bound=BaseModel)

_RUN_AGAIN = "run `knowgate eval ookb` again"
_CALIBRATE_AGAIN = "run `knowgate calibrate` on this run again"


@dataclass(frozen=True, slots=True)
class Calibration:
    """A policy and the questions that it has not seen."""

    policy: Policy
    risk: float | None
    calibration_questions: frozenset[str]
    test_questions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Run:
    """A checked run folder.

    Attributes:
        manifest: the checked fields.
        settings: all settings as they stand in the manifest.
        questions: by id, in the order of the file.
        rows: in the order of the file; at most one per question and kind.
        calibration: None until `knowgate calibrate` was run.
    """

    manifest: Manifest
    settings: dict[str, Any]
    questions: dict[str, QuestionRow]
    rows: tuple[CaseRow, ...]
    calibration: Calibration | None


def read_run(run_dir: str | os.PathLike[str]) -> Run:
    """The run in a folder.

    Raises:
        InputError: the folder or a file is missing, broken, empty or written by a
            newer knowgate; names file and line.
    """
    folder = Path(run_dir)
    if not folder.is_dir():
        what = "is a file, not a run folder" if folder.exists() else "no such run folder"
        raise InputError(
            what, where=str(folder), mend="name a folder that `knowgate eval ookb` wrote"
        )
    manifest, settings = _read_manifest(folder / "manifest.json")
    questions = _read_questions(folder / "questions.jsonl")
    rows = _read_rows(folder / "rows.jsonl", questions)
    calibration = _read_calibration(folder / "calibration.json", manifest, questions)
    return Run(manifest, settings, questions, rows, calibration)


def _read_manifest(path: Path) -> tuple[Manifest, dict[str, Any]]:
    if not path.is_file():
        raise InputError(
            f"no {path.name} in the run folder",
            where=str(path.parent),
            mend="name a folder that `knowgate eval ookb` wrote",
        )
    value = _versioned(path, mend=_RUN_AGAIN)
    suite = value.get("suite")
    if suite != "ookb":
        raise InputError(
            f"the run is of suite {suite!r}, not 'ookb'",
            where=str(path),
            mend="name a folder that `knowgate eval ookb` wrote",
        )
    return _model(Manifest, value, where=str(path), mend=_RUN_AGAIN), value["settings"]


def _read_questions(path: Path) -> dict[str, QuestionRow]:
    found: dict[str, QuestionRow] = {}
    for number, value in _lines(path):
        where = f"{path}:{number}"
        row = _model(QuestionRow, _cleaned(value), where=where, mend=_RUN_AGAIN)
        if row.question_id in found:
            raise InputError(
                f"question_id {row.question_id!r} stands here twice", where=where, mend=_RUN_AGAIN
            )
        found[row.question_id] = row
    return found


def _read_rows(path: Path, questions: dict[str, QuestionRow]) -> tuple[CaseRow, ...]:
    rows: list[CaseRow] = []
    seen: set[tuple[str, str]] = set()
    for number, value in _lines(path):
        where = f"{path}:{number}"
        row = _model(CaseRow, _cleaned(value), where=where, mend=_RUN_AGAIN)
        if row.question_id not in questions:
            raise InputError(
                f"question_id {row.question_id!r} is not in questions.jsonl",
                where=where,
                mend=_RUN_AGAIN,
            )
        own = questions[row.question_id].own_passage
        if row.kind == "left_out" and own in row.retrieved:
            raise InputError(
                f"passage {own!r} was retrieved although it was left out",
                where=where,
                mend=_RUN_AGAIN,
            )
        key = (row.question_id, row.kind)
        if key in seen:
            raise InputError(
                f"case {row.case_id!r}: a second {row.kind} case of one question",
                where=where,
                mend="remove the second line",
            )
        seen.add(key)
        rows.append(row)
    if not rows:
        raise InputError("the run holds no cases", where=str(path), mend=_RUN_AGAIN)
    return tuple(rows)


def _read_calibration(
    path: Path, manifest: Manifest, questions: dict[str, QuestionRow]
) -> Calibration | None:
    if not path.exists():
        return None
    where = str(path)
    value = _versioned(path, mend=_CALIBRATE_AGAIN)
    file = _model(CalibrationFile, value, where=where, mend=_CALIBRATE_AGAIN)
    policy = Policy.parse(file.policy, where=where)
    policy.require_scorer(manifest.settings.scorer)
    if policy.aggregator != manifest.settings.aggregator:
        raise InputError(
            f"the policy aggregates by {policy.aggregator!r}, "
            f"the run by {manifest.settings.aggregator!r}",
            where=where,
            mend=_CALIBRATE_AGAIN,
        )
    fitted, held_out = frozenset(file.calibration_questions), frozenset(file.test_questions)
    if stray := sorted((fitted | held_out) - questions.keys()):
        raise InputError(
            f"question {stray[0]!r} is not part of this run", where=where, mend=_CALIBRATE_AGAIN
        )
    if both := sorted(fitted & held_out):
        raise InputError(
            f"question {both[0]!r} is a calibration and a test question at once",
            where=where,
            mend=_CALIBRATE_AGAIN,
        )
    return Calibration(policy, file.risk, fitted, held_out)


def _lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    if not path.is_file():
        raise InputError(
            f"no {path.name} in the run folder", where=str(path.parent), mend=_RUN_AGAIN
        )
    return list(read_jsonl(path))


def _versioned(path: Path, *, mend: str) -> dict[str, Any]:
    """A JSON object whose `schema_version` is known here."""
    value = _cleaned(read_json(path))
    if not isinstance(value, dict):
        raise InputError(
            f"expected a JSON object, found {type(value).__name__}", where=str(path), mend=mend
        )
    version = value.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(
            "field 'schema_version' is missing or not a positive number",
            where=str(path),
            mend=mend,
        )
    if version > RUN_SCHEMA_VERSION:
        raise InputError(
            f"run schema {version} is newer than {RUN_SCHEMA_VERSION}, the newest known here",
            where=str(path),
            mend="upgrade knowgate",
        )
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise InputError("a number is NaN or infinite", where=str(path), mend=mend) from None
    return value


def _model(model: type[_Model], value: dict[str, Any], *, where: str, mend: str) -> _Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        what = f"field '{field}': {first['msg']}" if field else str(first["msg"])
        raise InputError(what, where=where, mend=mend) from None


def _cleaned(value: Any) -> Any:
    """JSON whose strings can be encoded: a lone surrogate must not stop a report."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _cleaned(item) for key, item in value.items()}
    return value
