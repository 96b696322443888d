"""What a three-way policy is fitted on: one question in one situation."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Protocol


class CalibrationEvidence(Protocol):
    """What `fit_policy` reads of a record; any object with these attributes will do.

    `group`, `conflict`, `weight` and `case` are read where they are there; see
    `CalibrationRecord` for all of them.
    """

    @property
    def question_id(self) -> str:
        """Records of one question share it."""
        ...

    @property
    def relevance(self) -> float | None:
        """Calibrated, in [0, 1]."""
        ...

    @property
    def confidence(self) -> float | None:
        """Calibrated, in [0, 1]."""
        ...

    @property
    def context_right(self) -> bool | None:
        """Whether the answer from the context is right."""
        ...

    @property
    def closed_book_right(self) -> bool | None:
        """Whether the answer from memory is right."""
        ...


@dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """The signals of one question in one situation, and what each route would have led to.

    A question may have several records: with its source retrieved, with it left out, with
    other passages. They are evidence about one question, not about several.

    Attributes:
        question_id: records of one question share it.
        relevance: calibrated, in [0, 1], on the scale of `Policy.route`; None where the
            signal failed.
        confidence: likewise.
        context_right: whether the answer from the context is right; None where nobody
            knows, which counts as wrong.
        closed_book_right: whether the answer from memory is right; None likewise.
        group: document or domain; questions of one group stay in one part of a split.
            Empty: the question is a group of its own.
        conflict: whether the answers that the policy compares differ; None: not measured.
        weight: how common such records are in service against the others; above 0.
        case: which situation this is, e.g. `in_kb` or `left_out`.
    """

    question_id: str
    relevance: float | None
    confidence: float | None
    context_right: bool | None
    closed_book_right: bool | None
    group: str = ""
    conflict: bool | None = None
    weight: float = 1.0
    case: str = ""


_fields = attrgetter(*(field.name for field in fields(CalibrationRecord)))


def as_calibration_records(records: Iterable[CalibrationEvidence]) -> list[CalibrationRecord]:
    """The records, checked; other objects with the same attributes are copied.

    Raises:
        ValueError: a signal is outside [0, 1], a weight is not above 0 and finite, or an
            outcome is no bool; the record is named by its number, from 0.
    """
    return [_checked(record, number) for number, record in enumerate(records)]


def calibration_records_sha256(records: Sequence[CalibrationRecord]) -> str:
    """Hash of the records, independent of their order."""
    lines = sorted(json.dumps(_fields(record)) for record in records)
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def _is_sound(record: CalibrationEvidence) -> bool:
    """Whether it is a record that needs no copy; a shortcut, `_checked` has the last word."""
    return (
        type(record) is CalibrationRecord
        and (record.relevance is None or 0.0 <= record.relevance <= 1.0)
        and (record.confidence is None or 0.0 <= record.confidence <= 1.0)
        and (record.context_right is None or type(record.context_right) is bool)
        and (record.closed_book_right is None or type(record.closed_book_right) is bool)
        and (record.conflict is None or type(record.conflict) is bool)
        and 0.0 < record.weight < math.inf
    )


def _checked(record: CalibrationEvidence, number: int) -> CalibrationRecord:
    if _is_sound(record):
        assert isinstance(record, CalibrationRecord)
        return record
    weight = getattr(record, "weight", 1.0)
    weight = 1.0 if weight is None else float(weight)
    if not (math.isfinite(weight) and weight > 0.0):
        raise ValueError(f"record {number}: weight must be above 0 and finite, not {weight}")
    group = getattr(record, "group", None)
    case = getattr(record, "case", None)
    return CalibrationRecord(
        question_id=str(record.question_id),
        relevance=_signal(record.relevance, "relevance", number),
        confidence=_signal(record.confidence, "confidence", number),
        context_right=_outcome(record.context_right, "context_right", number),
        closed_book_right=_outcome(record.closed_book_right, "closed_book_right", number),
        group="" if group is None else str(group),
        conflict=_outcome(getattr(record, "conflict", None), "conflict", number),
        weight=weight,
        case="" if case is None else str(case),
    )


def _signal(value: float | None, name: str, number: int) -> float | None:
    if value is None:
        return None
    found = float(value)
    if math.isnan(found):
        return None  # a signal that failed, as in the guard
    if not 0.0 <= found <= 1.0:
        raise ValueError(
            f"record {number}: {name} {found:g} is not within [0, 1]; "
            "make probabilities of raw scores first, e.g. with choose_calibrator"
        )
    return found


def _outcome(value: object, name: str, number: int) -> bool | None:
    if value is None:
        return None
    # numpy's bools and 0/1 are as good as bool; 0.7 is a mistake.
    if value in (True, False):
        return bool(value)
    raise ValueError(f"record {number}: {name} must be true, false or None, not {value!r}")
