"""Reading record files: one line per question and case."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

from ...calibration import CalibrationRecord
from ...calibration.risk.fit import Cascade
from ...guard.contracts import ConflictBetween, RelevanceScorer
from ...guard.errors import InputError
from ...guard.files import AnyPath, read_jsonl
from ...guard.fingerprint import Fingerprint, aggregator
from ...guard.policy import default_calibrator
from ...guard.read_models import check_model
from ...guard.signals.relevance.sufficiency import SufficiencyScorer
from ...guard.text import clean_text
from ..suites.parts import questions_tuned_on
from .records import CalibrationSet

_HINT = (
    'a record looks like {"question_id": "q1", "relevance": 0.7, "confidence": 0.4, '
    '"context_right": true, "closed_book_right": false}'
)
_NO_COSTLY = 'name it in the first line: {"costly_scorer": {"kind": "judge", …}, …}'


def _as_text(value: Any) -> Any:
    return "" if value is None else str(value) if type(value) is int else value


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _known_aggregator(name: str) -> str:
    try:
        aggregator(name)
    except InputError as error:
        raise ValueError(f"unknown aggregator {name!r}; {error.hint}") from None
    return name


_Text = Annotated[str, BeforeValidator(_as_text), AfterValidator(clean_text)]
# NaN and infinity stand for a signal that failed, as null does.
_Signal = Annotated[Annotated[float, Field(strict=True)] | None, AfterValidator(_finite)]
# Beyond these, sums of weights would lose their digits.
_Weight = Annotated[float, Field(strict=True, ge=1e-9, le=1e9)]


# Fields of a line that are none of its record.
_BESIDE = {"costly_relevance", "made_by", "question"}


class _Record(BaseModel):
    """A line; `CalibrationRecord` says what its fields mean."""

    question_id: Annotated[_Text, Field(min_length=1)]
    relevance: _Signal
    confidence: _Signal
    context_right: StrictBool | None
    closed_book_right: StrictBool | None
    group: _Text = ""
    conflict: StrictBool | None = None
    weight: _Weight = 1.0
    case: _Text = ""
    nothing_retrieved: Annotated[StrictBool | None, AfterValidator(bool)] = False
    costly_relevance: _Signal = None
    made_by: _Text = ""
    question: Any = None

    def as_record(self, costly: Fingerprint | None) -> CalibrationRecord:
        """Make the record, with the verdict of the costly scorer if there is one."""
        own, verdict = self.model_dump(exclude=_BESIDE), None
        if costly is not None and self.costly_relevance is not None:
            verdict = default_calibrator(costly).apply(self.costly_relevance)
        return CalibrationRecord(**own, verdict=verdict)


class _MeasuredBy(BaseModel):
    """What measured the records: their first line."""

    model_config = ConfigDict(extra="forbid")

    scorer: Fingerprint | None = None
    estimator: Fingerprint | None = None
    aggregator: Annotated[str, AfterValidator(_known_aggregator)] = "max"
    population: _Text = ""
    conflict_between: ConflictBetween = "memory"
    tuned_on: tuple[str, ...] | None = None
    costly_scorer: Fingerprint | None = None


def read_records(path: AnyPath, scorer: RelevanceScorer | None = None) -> CalibrationSet:
    """Cases from `records.jsonl`, one line per question and case.

    What measured them may be stated in a first line
    `{"scorer": {…}, "estimator": {…}, "aggregator": "max", "population": "…"}`. A line may have
    `costly_relevance`, which the `costly_scorer` of the first line measured; the cases `in_kb` and
    `left_out` then serve to calibrate a cascade. `made_by` says that a program made the question.
    `tuned_on` of the first line lists the questions that the scorer was tuned on.

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
    made_by = _made_by(lines, where)
    costly = None if made_by.cascade is None else made_by.cascade.costly
    found = []
    for number, value in lines:
        at = f"{where}:{number}"
        line = check_model(_Record, value, where=at, hint=_HINT)
        if line.costly_relevance is not None and costly is None:
            raise InputError("field 'costly_relevance' has no scorer", where=at, hint=_NO_COSTLY)
        found.append((number, line))
    if not found:
        raise InputError("holds no records", where=where, hint=_HINT)
    _require_one_of_each(found, where)
    if scorer is not None:
        made_by = replace(made_by, tuned_on=_tuned_on(found, scorer, made_by))
    records = tuple(line.as_record(costly) for _, line in found)
    return replace(
        made_by,
        records=records,
        leaves_out=costly is not None and any(record.case == "left_out" for record in records),
        makers={line.question_id: line.made_by for _, line in found if line.made_by},
    )


def _require_one_of_each(lines: Sequence[tuple[int, _Record]], where: str) -> None:
    """Reject a case that is there twice, and a question in two groups."""
    cases: dict[tuple[str, str], int] = {}
    groups: dict[str, tuple[int, str]] = {}
    for number, line in lines:
        name, at = line.question_id, f"{where}:{number}"
        if (earlier := cases.setdefault((name, line.case), number)) != number:
            raise InputError(
                f"question {name!r}, case {line.case!r} is on line {earlier} already",
                where=at,
                hint='tell the cases of one question apart by "case"',
            )
        first, group = groups.setdefault(name, (number, line.group))
        if group != line.group:
            both = f"group {line.group!r} here and in {group!r} on line {first}"
            hint = "a question belongs to one group"
            raise InputError(f"question {name!r} is in {both}", where=at, hint=hint)


def _tuned_on(
    lines: Sequence[tuple[int, _Record]], scorer: RelevanceScorer, made_by: CalibrationSet
) -> tuple[str, ...]:
    """The ids of the questions that the scorer was tuned on."""
    differences = made_by.scorer.differences(scorer.fingerprint) if made_by.scorer else []
    if differences:
        raise InputError(
            f"is not the scorer that measured these records ({'; '.join(differences)})",
            where="--scorer",
            hint="name the one that did",
        )
    for number, line in lines:
        if not isinstance(line.question, str) or not line.question.strip():
            raise InputError(
                "field 'question' must be text, to tell whether the scorer was tuned on it",
                where=f"{made_by.source}:{number}",
                hint='add "question" to each record, or leave --scorer out',
            )
    return tuple(questions_tuned_on(scorer, {line.question_id: line.question for _, line in lines}))


def _made_by(lines: list[tuple[int, dict[str, Any]]], path: str) -> CalibrationSet:
    """Say what measured the records, without any; takes the first line off where it says so."""
    known = _MeasuredBy.model_fields.keys()
    header: Mapping[str, Any] = {}
    if lines and "question_id" not in lines[0][1] and known & lines[0][1].keys():
        header = lines.pop(0)[1]
    hint = 'write fingerprints as `knowgate eval` does, e.g. {"kind": "bi_encoder"}'
    told = dict(check_model(_MeasuredBy, header, where=f"{path}:1", hint=hint))
    costly: Fingerprint | None = told.pop("costly_scorer")
    stages = [one for one in (told["scorer"], costly) if one is not None]
    if told["tuned_on"] is None and not any(map(SufficiencyScorer.is_tuned, stages)):
        told["tuned_on"] = ()
    cascade = None if costly is None else Cascade(costly=costly)
    return CalibrationSet(records=(), source=path, cascade=cascade, **told)
