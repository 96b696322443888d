"""What a policy is fitted on: one record per question and case."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol, SupportsFloat, TypeGuard

import numpy as np


class CalibrationEvidence(Protocol):
    """What `fit_policy` reads of a record; any object with these attributes will do.

    The other attributes of `CalibrationRecord` are optional.
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
    """The signals of one question in one case, and which replies would have been right.

    A question may have several records: with its source retrieved, with it left out, with
    other passages. They are evidence about one question, not about several.

    Attributes:
        question_id: records of one question share it.
        relevance: None where the signal failed. `fit_policy` takes probabilities in [0, 1], on
            the scale of `Policy.route`, and for a leak the scorer's own scale.
        confidence: likewise of the confidence estimator.
        context_right: whether the reply from the context is right; None where that is not
            known, which counts as wrong.
        closed_book_right: whether the reply from memory is right; None likewise.
        group: document, passage or domain, kept together where calibrators are compared, and
            the unit of intervals. Empty: the question is a group of its own.
        conflict: whether the replies that the policy compares differ; None: not measured.
        weight: how common such records are in service against the others; above 0.
        case: which case this is, unique within the question, e.g. `in_kb` or `left_out`.
        nothing_retrieved: there was no passage; calibrated relevance is then 0.
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
    nothing_retrieved: bool = False

    @property
    def unit(self) -> tuple[str, str]:
        """What the record is evidence about: its group, or the question on its own."""
        return ("group", self.group) if self.group else ("question", self.question_id)

    @staticmethod
    def seed_of(question_ids: Iterable[str]) -> int:
        """The seed of every split and resampling of these questions, which nobody can choose.

        It follows from their ids alone, so that a split depends neither on
        signals nor on outcomes, and not on the order of records or the last bit of a score.

        Example:
            >>> CalibrationRecord.seed_of("abba") == CalibrationRecord.seed_of("ab") < 2**48
            True
        """
        text = json.dumps(sorted(set(question_ids)))
        return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:6], "big")

    @classmethod
    def leave_one_out_pair(
        cls, question_id: str, in_kb: float | None, left_out: float | None, *, group: str = ""
    ) -> tuple[CalibrationRecord, CalibrationRecord]:
        """Make the two records of one question for a `Leak`: source in place, and left out.

        Args:
            question_id: unique.
            in_kb: raw relevance with the source in the knowledge base; None when the scorer
                failed or the retriever missed the source.
            left_out: raw relevance with the source left out; None when the scorer failed.
            group: the passage; questions on one passage are one piece of evidence.
        """
        right = in_kb is not None
        return (
            cls(question_id, in_kb, None, right, None, group=group, case="in_kb"),
            cls(question_id, left_out, None, False, None, group=group, case="left_out"),
        )


_HASHED = attrgetter(
    "question_id", "relevance", "confidence", "context_right", "closed_book_right",
    "group", "conflict", "weight", "case",
)  # fmt: skip


def as_calibration_records(
    records: Iterable[CalibrationEvidence], *, raw: bool = False
) -> list[CalibrationRecord]:
    """Check the records; other objects with the same attributes are copied.

    Args:
        records: of any kind that has the attributes.
        raw: signals may be on any scale; otherwise they are probabilities.

    Raises:
        ValueError: a signal is infinite or, unless `raw`, outside [0, 1], a weight is not above
            0 and finite, or an outcome is no bool; names the record by its number, from 0.
    """
    return [_checked(record, number, raw=raw) for number, record in enumerate(records)]


def records_sha256(records: Sequence[CalibrationRecord]) -> str:
    """Hash of the records, independent of their order."""
    return lines_sha256(json.dumps(_HASHED(record)) for record in records)


def lines_sha256(lines: Iterable[str]) -> str:
    """Hash of the lines, independent of their order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8")).hexdigest()


_NUMBERS = (float, int, np.floating, np.integer)


def _is_sound(record: CalibrationEvidence, *, raw: bool) -> bool:
    """Whether the record needs no conversion; a fast path of `_checked`."""
    return (
        type(record) is CalibrationRecord
        and type(record.question_id) is type(record.group) is type(record.case) is str
        and record.question_id != ""
        and (record.relevance is None or _is_on_scale(record.relevance, raw=raw))
        and (record.confidence is None or _is_on_scale(record.confidence, raw=raw))
        and (record.context_right is None or type(record.context_right) is bool)
        and (record.closed_book_right is None or type(record.closed_book_right) is bool)
        and (record.conflict is None or type(record.conflict) is bool)
        and type(record.weight) is float
        and 0.0 < record.weight < math.inf
    )


def _is_on_scale(value: object, *, raw: bool) -> bool:
    return type(value) is float and (math.isfinite(value) if raw else 0.0 <= value <= 1.0)


def _checked(record: CalibrationEvidence, number: int, *, raw: bool) -> CalibrationRecord:
    if _is_sound(record, raw=raw):
        assert isinstance(record, CalibrationRecord)
        return record
    for name in ("question_id", "relevance", "confidence", "context_right", "closed_book_right"):
        if not hasattr(record, name):
            raise ValueError(
                f"record {number} has no {name}: give CalibrationRecord, or objects with its "
                "attributes"
            )
    if record.question_id is None or str(record.question_id) == "":
        raise ValueError(f"record {number}: question_id is empty")
    group, case = getattr(record, "group", None), getattr(record, "case", None)
    return CalibrationRecord(
        question_id=str(record.question_id),
        relevance=_signal(record.relevance, "relevance", number, raw=raw),
        confidence=_signal(record.confidence, "confidence", number, raw=raw),
        context_right=_outcome(record.context_right, "context_right", number),
        closed_book_right=_outcome(record.closed_book_right, "closed_book_right", number),
        group="" if group is None else str(group),
        conflict=_outcome(getattr(record, "conflict", None), "conflict", number),
        weight=_weight(getattr(record, "weight", None), number),
        case="" if case is None else str(case),
        nothing_retrieved=bool(getattr(record, "nothing_retrieved", False)),
    )


def _weight(value: object, number: int) -> float:
    if value is None:
        return 1.0
    found = float(value) if _is_number(value) else math.nan
    if not 0.0 < found < math.inf:
        raise ValueError(f"record {number}: weight must be above 0 and finite, not {value!r}")
    return found


def _signal(value: object, name: str, number: int, *, raw: bool) -> float | None:
    if value is None:
        return None
    if not _is_number(value):
        raise ValueError(f"record {number}: {name} must be a number or None, not {value!r}")
    found = float(value)
    if math.isnan(found):
        return None  # a signal that failed, as in the guard
    if raw:
        if math.isinf(found):
            raise ValueError(f"record {number}: {name} must be finite")
        return found
    if not 0.0 <= found <= 1.0:
        raise ValueError(
            f"record {number}: {name} {found:g} is not within [0, 1]; "
            "make probabilities of raw scores first, e.g. with CalibratorChoice.among"
        )
    return found


def _is_number(value: object) -> TypeGuard[SupportsFloat]:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _outcome(value: object, name: str, number: int) -> bool | None:
    if value is None:
        return None
    # numpy's bools and 0/1 are as good as bool; 0.7 is a mistake.
    if isinstance(value, bool | np.bool_) or (_is_number(value) and float(value) in (0.0, 1.0)):
        return bool(value)
    raise ValueError(f"record {number}: {name} must be true, false or None, not {value!r}")
