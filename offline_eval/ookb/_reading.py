"""Reading a run of the out-of-knowledge-base suite back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from ...calibration import LeaveOneOutRecord
from ...guard import Fingerprint, InputError, Policy
from ...guard.files import read_json, read_jsonl, read_text
from ..runs import SCHEMA_VERSION, read_manifest
from ._cases import CaseKind

_Row = TypeVar("_Row", bound=BaseModel)


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class OokbQuestion(_Stored):
    """One question of a run, with the passage that holds its answer."""

    question_id: str
    question: str
    answer: str
    passage: str
    passage_id: str
    source: str | None = None


class RowError(_Stored):
    """Why a case could not be measured."""

    type: str
    detail: str


class OokbRow(_Stored):
    """One measured case.

    Attributes:
        retrieved: passage ids, best first.
        scores: raw relevance per retrieved passage.
        raw_relevance: their aggregate, None when the case failed.
        retrieval_miss: an in-KB case whose own passage was not retrieved.
    """

    case_id: str
    question_id: str
    kind: CaseKind
    retrieved: tuple[str, ...]
    scores: tuple[FiniteFloat, ...]
    raw_relevance: FiniteFloat | None
    retrieval_miss: bool
    error: RowError | None


@dataclass(frozen=True, slots=True)
class OokbCalibration:
    """A policy fitted on one part of a run's questions.

    Attributes:
        policy: the fitted policy.
        calibration_questions: ids it was fitted on.
        test_questions: ids kept back for reporting.
    """

    policy: Policy
    calibration_questions: frozenset[str]
    test_questions: frozenset[str]


@dataclass(frozen=True, slots=True)
class OokbRun:
    """A complete run.

    Attributes:
        manifest: what was run.
        scorer: fingerprint of what judged relevance.
        aggregator: how passage scores became one value.
        questions: by id, in the order of the input.
        rows: in the order of the cases.
        calibration: None until a policy was fitted on this run.
    """

    manifest: Mapping[str, Any]
    scorer: Fingerprint
    aggregator: str
    questions: Mapping[str, OokbQuestion]
    rows: tuple[OokbRow, ...]
    calibration: OokbCalibration | None

    def records(self) -> list[LeaveOneOutRecord]:
        """One record per question; a retrieval miss or failure has no in-KB value."""
        values: dict[tuple[str, CaseKind], float | None] = {
            (row.question_id, row.kind): None if row.retrieval_miss else row.raw_relevance
            for row in self.rows
        }
        return [
            LeaveOneOutRecord(
                question_id=name,
                group=question.passage_id,
                in_kb=values[name, CaseKind.IN_KB],
                left_out=values[name, CaseKind.LEFT_OUT],
            )
            for name, question in self.questions.items()
        ]


def read_ookb_run(folder: str | os.PathLike[str], *, with_calibration: bool = True) -> OokbRun:
    """A complete run of this suite.

    Args:
        folder: of the run.
        with_calibration: False leaves `calibration.json` unread, so that a broken
            one does not stop its being written anew.

    Raises:
        InputError: no run there, another suite, a broken or missing row, or a run
            that is not finished.
    """
    root = Path(folder)
    manifest = read_manifest(root)
    where = str(root / "manifest.json")
    if manifest.get("suite") != "ookb":
        raise InputError(
            f"the run is of suite {manifest.get('suite')!r}, not 'ookb'",
            where=where,
            mend="name a run made with `knowgate eval ookb`",
        )
    scorer, aggregator = _scorer(manifest, where)
    _require_whole(root, manifest)
    questions = {q.question_id: q for q in _rows(root / "questions.jsonl", OokbQuestion)}
    rows = tuple(_rows(root / "rows.jsonl", OokbRow))
    _require_complete(root, manifest, questions, rows)
    calibration = _calibration(root) if with_calibration else None
    return OokbRun(manifest, scorer, aggregator, questions, rows, calibration)


def calibration_document(
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


def _scorer(manifest: Mapping[str, Any], where: str) -> tuple[Fingerprint, str]:
    settings = manifest.get("settings")
    try:
        if not isinstance(settings, dict) or not isinstance(settings.get("aggregator"), str):
            raise TypeError
        return Fingerprint.model_validate(settings["scorer"]), settings["aggregator"]
    except (TypeError, KeyError, ValidationError):
        raise InputError(
            "field 'settings' does not name scorer and aggregator",
            where=where,
            mend="run `knowgate eval ookb` again",
        ) from None


def _rows(path: Path, kind: type[_Row]) -> Iterator[_Row]:
    for number, value in read_jsonl(path):
        try:
            yield kind.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"field '{field}': {first['msg']}",
                where=f"{path}:{number}",
                mend="run `knowgate eval ookb` again",
            ) from None


def _require_whole(root: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a run that was killed before its first row or within one."""
    rows = root / "rows.jsonl"
    text = read_text(rows) if rows.exists() else ""
    if not text.endswith("\n"):
        raise _unfinished(root, manifest, text.count("\n"))


def _unfinished(root: Path, manifest: Mapping[str, Any], done: int) -> InputError:
    return InputError(
        f"the run is not finished ({done} of {manifest.get('cases')} cases)",
        where=str(root),
        mend="start the same `knowgate eval ookb` again, it goes on where it stopped",
    )


def _require_complete(
    root: Path,
    manifest: Mapping[str, Any],
    questions: Mapping[str, OokbQuestion],
    rows: tuple[OokbRow, ...],
) -> None:
    expected = [f"{name}/{kind.value}" for name in questions for kind in CaseKind]
    found = [row.case_id for row in rows]
    if len(rows) < len(expected) and found == expected[: len(found)]:
        raise _unfinished(root, manifest, len(rows))
    if found != expected or not expected:
        raise InputError(
            "rows and questions do not belong together",
            where=str(root / "rows.jsonl"),
            mend="run `knowgate eval ookb` again into another folder",
        )


def _calibration(root: Path) -> OokbCalibration | None:
    path = root / "calibration.json"
    if not path.exists():
        return None
    value = read_json(path)
    mend = "run `knowgate calibrate` again"
    if not isinstance(value, dict) or not isinstance(value.get("schema_version"), int):
        raise InputError("field 'schema_version' is missing", where=str(path), mend=mend)
    if value["schema_version"] > SCHEMA_VERSION:
        raise InputError(
            f"calibration schema {value['schema_version']} is newer than {SCHEMA_VERSION}",
            where=str(path),
            mend="upgrade knowgate",
        )
    parts = [value.get("calibration_questions"), value.get("test_questions")]
    if not all(isinstance(p, list) and all(isinstance(i, str) for i in p) for p in parts):
        raise InputError("the lists of question ids are missing", where=str(path), mend=mend)
    return OokbCalibration(
        policy=Policy.parse(value.get("policy"), where=str(path)),
        calibration_questions=frozenset(value["calibration_questions"]),
        test_questions=frozenset(value["test_questions"]),
    )
