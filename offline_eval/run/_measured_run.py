"""Reading a run folder of this suite: everything is checked before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...guard.errors import InputError
from ...guard.files import read_jsonl
from ...guard.policy import Policy
from ...guard.text import clean_text
from ._manifest import read_manifest, read_versioned
from ._questions import TWINS, CalibrationFile, CaseKind, MeasuredManifest, MeasuredRow, Question

_Model = TypeVar("_Model", bound=BaseModel)

_RUN_AGAIN = "run `knowgate eval ookb` again into another folder"
_GO_ON = "start the same `knowgate eval ookb` again, it goes on where it stopped"
_CALIBRATE_AGAIN = "run `knowgate calibrate` on this run again"


@dataclass(frozen=True, slots=True)
class RunCalibration:
    """A policy fitted on one part of a run's questions.

    Attributes:
        policy: the fitted policy.
        risk: the bound that was asked for, None where nothing was.
        calibration_questions: ids it was fitted on.
        test_questions: ids kept back for reporting.
    """

    policy: Policy
    risk: float | None
    calibration_questions: frozenset[str]
    test_questions: frozenset[str]


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A checked run.

    Attributes:
        manifest: the checked fields.
        settings: all settings as they stand in the manifest.
        questions: by id, in the order of the input.
        rows: in the order of the cases; at most one per question and kind.
        calibration: None until a policy was fitted on this run, or when not asked for.
    """

    manifest: MeasuredManifest
    settings: Mapping[str, Any]
    questions: Mapping[str, Question]
    rows: tuple[MeasuredRow, ...]
    calibration: RunCalibration | None


def read_measured_run(
    folder: str | os.PathLike[str], *, with_calibration: bool = True, unfinished: bool = False
) -> MeasuredRun:
    """A run of this suite.

    Args:
        folder: of the run.
        with_calibration: False leaves `calibration.json` unread, so that a broken
            one does not stop its being written anew.
        unfinished: True also takes a run of which only some rows are there, as long
            as the last one is whole. That is enough to show it, not to certify on it.

    Raises:
        InputError: no run there, another suite, a file that is missing, broken or
            written by a newer knowgate, or a run that is not finished; names file
            and line.
    """
    root = Path(folder)
    manifest, settings = _read_manifest(root)
    _require_whole_rows(root, manifest)
    questions = _read_questions(root)
    rows = _read_rows(root, questions)
    if not rows:
        raise _not_finished(root, manifest, 0)
    if not unfinished:
        _require_complete(root, manifest, questions, rows)
    calibration = _read_calibration(root, manifest, questions) if with_calibration else None
    return MeasuredRun(manifest, settings, questions, rows, calibration)


def _read_manifest(root: Path) -> tuple[MeasuredManifest, dict[str, Any]]:
    path = str(root / "manifest.json")
    value = read_manifest(root)
    suite = value.get("suite")
    if suite != "ookb":
        raise InputError(
            f"the run is of suite {suite!r}, not 'ookb'",
            where=path,
            hint="name a run made with `knowgate eval ookb`",
        )
    if value.get("holds") == "replies":
        raise InputError(
            "the run holds replies, not relevance signals",
            where=path,
            hint="calibrate on a run without --model and --replay: `knowgate eval ookb "
            "--questions … --scorer … --out …`",
        )
    value = _cleaned(value, where=path, hint=_RUN_AGAIN)
    try:
        manifest = MeasuredManifest.model_validate(value)
    except ValidationError as error:
        what = _first_fault(error)
        if error.errors()[0]["loc"][0] == "settings":
            what = f"field 'settings' does not name scorer and aggregator as it should ({what})"
        raise InputError(what, where=path, hint=_RUN_AGAIN) from None
    if not manifest.cases:
        raise InputError("the run holds no cases", where=path, hint=_RUN_AGAIN)
    return manifest, value["settings"]


def _require_whole_rows(root: Path, manifest: MeasuredManifest) -> None:
    """Refuse a run that was killed before its first row, or within one."""
    path = root / "rows.jsonl"
    if not path.exists():
        raise _not_finished(root, manifest, 0, "no rows.jsonl in the run folder: ")
    try:
        # As bytes: a kill may also cut a letter in two.
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(path), hint=_RUN_AGAIN
        ) from None
    if not content.endswith(b"\n"):
        raise _not_finished(root, manifest, content.count(b"\n"))


def _not_finished(root: Path, manifest: MeasuredManifest, done: int, lead: str = "") -> InputError:
    return InputError(
        f"{lead}the run is not finished ({done} of {manifest.cases} cases)",
        where=str(root),
        hint=_GO_ON,
    )


def _read_questions(root: Path) -> dict[str, Question]:
    path = root / "questions.jsonl"
    if not path.exists():
        raise InputError(
            "no questions.jsonl in the run folder",
            where=str(root),
            hint="start the same `knowgate eval ookb` again, it writes what is missing",
        )
    found: dict[str, Question] = {}
    for number, value in read_jsonl(path):
        where = f"{path}:{number}"
        question = _model(Question, value, where=where, hint=_RUN_AGAIN)
        if question.question_id in found:
            raise InputError(
                f"question_id {question.question_id!r} stands here twice",
                where=where,
                hint=_RUN_AGAIN,
            )
        found[question.question_id] = question
    return found


def _read_rows(root: Path, questions: Mapping[str, Question]) -> tuple[MeasuredRow, ...]:
    path = root / "rows.jsonl"
    rows: dict[tuple[str, CaseKind], MeasuredRow] = {}
    for number, value in read_jsonl(path):
        where = f"{path}:{number}"
        row = _model(MeasuredRow, value, where=where, hint=_RUN_AGAIN)
        if row.question_id not in questions:
            raise InputError(
                f"question_id {row.question_id!r} is not in questions.jsonl: rows and questions "
                "do not belong together",
                where=where,
                hint=_RUN_AGAIN,
            )
        own = questions[row.question_id].own_passage
        if row.kind is CaseKind.LEFT_OUT and own in row.retrieved:
            raise InputError(
                f"passage {own!r} was retrieved although it was left out",
                where=where,
                hint=_RUN_AGAIN,
            )
        if (row.question_id, row.kind) in rows:
            raise InputError(
                f"case {row.case_id!r}: a second {row.kind} case of one question: rows and "
                "questions do not belong together",
                where=where,
                hint=_RUN_AGAIN,
            )
        rows[row.question_id, row.kind] = row
    return tuple(rows.values())


def _require_complete(
    root: Path,
    manifest: MeasuredManifest,
    questions: Mapping[str, Question],
    rows: tuple[MeasuredRow, ...],
) -> None:
    """Refuse anything but each question's two cases, in order, with its passage named."""
    expected = [(f"{name}/{kind}", name, kind) for name in questions for kind in TWINS]
    found = [(row.case_id, row.question_id, row.kind) for row in rows]
    if len(found) < len(expected) and found == expected[: len(found)]:
        raise _not_finished(root, manifest, len(found))
    if found != expected:
        raise InputError(
            "rows and questions do not belong together",
            where=str(root / "rows.jsonl"),
            hint=_RUN_AGAIN,
        )
    for question in questions.values():
        if not question.passage_id:
            # Guessed, it would let questions on one passage count as independent.
            raise InputError(
                f"question {question.question_id!r}: field 'passage_id' is missing",
                where=str(root / "questions.jsonl"),
                hint=_GO_ON,
            )


def _read_calibration(
    root: Path, manifest: MeasuredManifest, questions: Mapping[str, Question]
) -> RunCalibration | None:
    path = root / "calibration.json"
    if not path.exists():
        return None
    where = str(path)
    value = read_versioned(path, hint=_CALIBRATE_AGAIN)
    file = _model(CalibrationFile, value, where=where, hint=_CALIBRATE_AGAIN)
    policy = Policy.parse(file.policy, where=where)
    policy.require_scorer(manifest.settings.scorer)
    if policy.aggregator != manifest.settings.aggregator:
        raise InputError(
            f"the policy aggregates by {policy.aggregator!r}, "
            f"the run by {manifest.settings.aggregator!r}",
            where=where,
            hint=_CALIBRATE_AGAIN,
        )
    fitted, held_out = frozenset(file.calibration_questions), frozenset(file.test_questions)
    if stray := sorted((fitted | held_out) - questions.keys()):
        raise InputError(
            f"question {stray[0]!r} is not part of this run", where=where, hint=_CALIBRATE_AGAIN
        )
    if both := sorted(fitted & held_out):
        raise InputError(
            f"question {both[0]!r} is a calibration and a test question at once",
            where=where,
            hint=_CALIBRATE_AGAIN,
        )
    return RunCalibration(policy, file.risk, fitted, held_out)


def _model(model: type[_Model], value: dict[str, Any], *, where: str, hint: str) -> _Model:
    try:
        return model.model_validate(_cleaned(value, where=where, hint=hint))
    except ValidationError as error:
        raise InputError(_first_fault(error), where=where, hint=hint) from None


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return f"field '{field}': {first['msg']}" if field else str(first["msg"])


def _cleaned(value: dict[str, Any], *, where: str, hint: str) -> dict[str, Any]:
    """JSON whose strings can be encoded: a lone surrogate must not stop a report."""
    try:
        found: dict[str, Any] = _clean(value)
    except RecursionError:
        raise InputError("nested too deeply", where=where, hint=hint) from None
    return found


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _clean(item) for key, item in value.items()}
    return value
