"""Reading and writing record files: one line per question and case."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, get_args

from pydantic import ValidationError

from ...calibration import CalibrationRecord
from ...calibration.risk import Cascade
from ...guard.contracts import ConflictBetween, RelevanceScorer
from ...guard.errors import InputError
from ...guard.files import read_json, read_jsonl
from ...guard.policy import Fingerprint, aggregator, default_calibrator
from ...guard.signals.relevance import SufficiencyScorer
from ...guard.text import clean_text
from ..suites import questions_tuned_on
from ._records import CalibrationSet

_REQUIRED = ("question_id", "relevance", "confidence", "context_right", "closed_book_right")
_HEADER = (
    "scorer", "estimator", "aggregator", "population", "conflict_between", "tuned_on",
    "costly_scorer",
)  # fmt: skip
# Beyond these, sums of weights would lose their digits.
_LIGHTEST, _HEAVIEST = 1e-9, 1e9
_HINT = (
    '{"question_id": "q1", "relevance": 0.7, "confidence": 0.4, "context_right": true, '
    '"closed_book_right": false}'
)


def read_records(
    path: str | os.PathLike[str], scorer: RelevanceScorer | None = None
) -> CalibrationSet:
    """Cases from `records.jsonl`, one line per question and case.

    What measured them may be stated in a first line
    `{"scorer": {…}, "estimator": {…}, "aggregator": "max", "population": "…"}`, or in
    `records.manifest.json` next to `records.jsonl`. A line may have `costly_relevance`, which
    the `costly_scorer` of the first line measured; the cases `in_kb` and `left_out` then serve
    to calibrate a cascade. `made_by` says that a program made the question. `tuned_on` of the
    first line lists the questions that the scorer was
    tuned on.

    Args:
        path: of the file.
        scorer: that measured the records, to find the questions that it was tuned on. Each
            record then needs its `question`.

    Raises:
        InputError: a line is no such record; names file and line. Or another scorer measured
            them.
    """
    where = os.fspath(path)
    lines = list(read_jsonl(path))
    header = _taken_header(lines, where)
    made_by = _made_by(header, _manifest_of(Path(path)), where)
    if scorer is not None:
        made_by = replace(made_by, tuned_on=_tuned_on(lines, scorer, made_by))
    costly = None if made_by.cascade is None else made_by.cascade.costly
    cases: dict[tuple[str, str], tuple[int, CalibrationRecord]] = {}
    groups: dict[str, tuple[int, str]] = {}
    for number, value in lines:
        at = f"{where}:{number}"
        case = _case(value, at, costly)
        key = (case.question_id, case.case)
        if key in cases:
            raise InputError(
                f"question {case.question_id!r}, case {case.case!r} is on line "
                f"{cases[key][0]} already",
                where=at,
                hint='tell the cases of one question apart by "case"',
            )
        first, group = groups.setdefault(case.question_id, (number, case.group))
        if group != case.group:
            raise InputError(
                f"question {case.question_id!r} is in group {case.group!r} here and in {group!r} "
                f"on line {first}",
                where=at,
                hint="a question belongs to one group",
            )
        cases[key] = (number, case)
    if not cases:
        raise InputError("holds no records", where=where, hint=f"one line per case: {_HINT}")
    records = tuple(case for _, case in cases.values())
    leaves_out = costly is not None and any(record.case == "left_out" for record in records)
    makers = {
        clean_text(str(value["question_id"])): maker
        for number, value in lines
        if (maker := _text(value, "made_by", f"{where}:{number}"))
    }
    return replace(made_by, records=records, leaves_out=leaves_out, makers=makers)


def _taken_header(lines: list[tuple[int, dict[str, Any]]], where: str) -> Mapping[str, Any]:
    """Take the first line off where it states what measured the records; else nothing.

    Raises:
        InputError: it has an unknown field.
    """
    if not lines or not _is_header(lines[0][1]):
        return {}
    header = lines.pop(0)[1]
    if unknown := sorted(set(header) - set(_HEADER)):
        raise InputError(
            f"field {unknown[0]!r} says nothing about what measured the records",
            where=f"{where}:1",
            hint=f"there are: {', '.join(_HEADER)}",
        )
    return header


def _tuned_on(
    lines: Sequence[tuple[int, Mapping[str, Any]]], scorer: RelevanceScorer, made_by: CalibrationSet
) -> tuple[str, ...]:
    """The ids of the questions that the scorer was tuned on."""
    differences = made_by.scorer.differences(scorer.fingerprint) if made_by.scorer else []
    if differences:
        raise InputError(
            f"is not the scorer that measured these records ({'; '.join(differences)})",
            where="--scorer",
            hint="name the one that did",
        )
    questions = {}
    for number, value in lines:
        question = value.get("question")
        if not isinstance(question, str) or not question.strip():
            raise InputError(
                "field 'question' must be text, to compare it with those that the scorer was "
                "tuned on",
                where=f"{made_by.source}:{number}",
                hint='add "question" to each record, or leave --scorer out',
            )
        questions[str(value.get("question_id"))] = question
    return tuple(questions_tuned_on(scorer, questions))


def _is_header(value: Mapping[str, Any]) -> bool:
    return "question_id" not in value and any(name in value for name in _HEADER)


def _manifest_of(path: Path) -> tuple[Mapping[str, Any], str]:
    manifest = path.with_name(f"{path.stem}.manifest.json")
    if not manifest.is_file():
        return {}, str(manifest)
    value = read_json(manifest)
    if not isinstance(value, dict):
        raise InputError(
            f"expected a JSON object, found {type(value).__name__}",
            where=str(manifest),
            hint='name "scorer", "estimator", "aggregator"',
        )
    return value, str(manifest)


def _made_by(
    header: Mapping[str, Any], manifest: tuple[Mapping[str, Any], str], where: str
) -> CalibrationSet:
    """No cases yet: what measured them, by the first line or the file beside it."""
    beside, beside_where = manifest
    for name in _HEADER:
        if name in header and name in beside and header[name] != beside[name]:
            raise InputError(
                f"{name!r} is stated here and, differently, in {Path(beside_where).name}",
                where=f"{where}:1",
                hint="keep the one that measured these records",
            )
    at = f"{where}:1" if header else beside_where
    found = {**beside, **header}
    by = found.get("aggregator", "max")
    try:
        aggregator(by if isinstance(by, str) else "")
    except InputError as error:
        raise InputError(
            f"field 'aggregator': unknown aggregator {by!r}",
            where=at,
            hint=error.hint,
        ) from None
    population = found.get("population", "")
    if not isinstance(population, str):
        _reject("field 'population' must be text", at)
    scorer = _fingerprint(found.get("scorer"), "scorer", at)
    costly = _fingerprint(found.get("costly_scorer"), "costly_scorer", at)
    tuned_on = found.get("tuned_on")
    if tuned_on is not None and not _is_list_of_text(tuned_on):
        _reject("field 'tuned_on' must be a list of ids", at)
    if tuned_on is None:
        stages = [one for one in (scorer, costly) if one is not None]
        tuned_on = None if any(map(SufficiencyScorer.is_tuned, stages)) else ()
    between = found.get("conflict_between", "memory")
    if between not in get_args(ConflictBetween):
        _reject("field 'conflict_between' must be memory, passages or both", at)
    return CalibrationSet(
        records=(),
        source=where,
        cascade=None if costly is None else Cascade(costly=costly),
        scorer=scorer,
        tuned_on=None if tuned_on is None else tuple(tuned_on),
        estimator=_fingerprint(found.get("estimator"), "estimator", at),
        aggregator=by,
        population=clean_text(population),
        conflict_between=between,
    )


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _fingerprint(value: Any, name: str, where: str) -> Fingerprint | None:
    if value is None:
        return None
    try:
        return Fingerprint.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join([name, *map(str, first["loc"])])
        raise InputError(
            f"field {field!r}: {first['msg']}",
            where=where,
            hint=f"write the fingerprint of the {name}, as `knowgate eval` does, e.g. "
            '{"kind": "bi_encoder"}',
        ) from None


def _case(value: Mapping[str, Any], where: str, costly: Fingerprint | None) -> CalibrationRecord:
    for name in _REQUIRED:
        if name not in value:
            _reject(f"field {name!r} is missing", where)
    identity = value["question_id"]
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if not isinstance(identity, str) or not identity:
        _reject("field 'question_id' must be text or a whole number", where)
    weight = _number(value, "weight", where, default=1.0)
    if weight is None or not _LIGHTEST <= weight <= _HEAVIEST:
        _reject(f"field 'weight' must be a number from {_LIGHTEST:g} to {_HEAVIEST:g}", where)
    return CalibrationRecord(
        question_id=clean_text(identity),
        relevance=_number(value, "relevance", where),
        confidence=_number(value, "confidence", where),
        context_right=_flag(value, "context_right", where),
        closed_book_right=_flag(value, "closed_book_right", where),
        group=_text(value, "group", where),
        conflict=_flag(value, "conflict", where),
        weight=weight,
        case=_text(value, "case", where),
        nothing_retrieved=_flag(value, "nothing_retrieved", where) or False,
        verdict=_verdict(value, where, costly),
    )


def _verdict(value: Mapping[str, Any], where: str, costly: Fingerprint | None) -> float | None:
    """The verdict of the costly scorer; None where it failed, or there is none."""
    raw = _number(value, "costly_relevance", where)
    if raw is None:
        return None
    if costly is None:
        raise InputError(
            "field 'costly_relevance' has no scorer",
            where=where,
            hint='name it in the first line: {"costly_scorer": {"kind": "judge", …}, …}',
        )
    return default_calibrator(costly).apply(raw)


def _number(
    value: Mapping[str, Any], name: str, where: str, *, default: float | None = None
) -> float | None:
    """A finite number; null, NaN and infinity stand for a signal that failed."""
    found = value.get(name, default)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        _reject(f"field {name!r} must be a number or null", where)
    try:
        return float(found) if math.isfinite(found) else None
    except OverflowError:
        _reject(f"field {name!r} is larger than any float", where)


def _flag(value: Mapping[str, Any], name: str, where: str) -> bool | None:
    found = value.get(name)
    if found is not None and not isinstance(found, bool):
        _reject(f"field {name!r} must be true, false or null", where)
    return found


def _text(value: Mapping[str, Any], name: str, where: str) -> str:
    found = value.get(name)
    if found is None:
        return ""
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    if not isinstance(found, str):
        _reject(f"field {name!r} must be text", where)
    return clean_text(found)


def _reject(what: str, where: str) -> NoReturn:
    raise InputError(what, where=where, hint=f"a record looks like {_HINT}")
