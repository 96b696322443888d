"""What a policy is fitted on: one record per question."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Protocol, SupportsFloat, TypeGuard

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LeaveOneOutRecord:
    """The relevance of one question with its source in place and left out.

    Attributes:
        question_id: unique.
        group: questions of one group (say, one passage) stay in the same half.
        in_kb: raw relevance with the source in the knowledge base; None when the
            scorer failed or the retriever missed the source.
        left_out: raw relevance with the source left out; None when the scorer failed.
    """

    question_id: str
    group: str
    in_kb: float | None
    left_out: float | None


def records_sha256(records: Sequence[LeaveOneOutRecord]) -> str:
    """Hash of the records, independent of their order."""
    lines = sorted(json.dumps([r.question_id, r.group, r.in_kb, r.left_out]) for r in records)
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def one_per_group(records: Sequence[LeaveOneOutRecord]) -> list[LeaveOneOutRecord]:
    """One record of each group, picked by a hash of its id: blind to scores and to order.

    Example:
        >>> records = [LeaveOneOutRecord(str(i), str(i // 2), 1.0, 0.0) for i in range(8)]
        >>> [record.group for record in one_per_group(records)]
        ['0', '1', '2', '3']
    """
    chosen: dict[str, LeaveOneOutRecord] = {}
    for record in records:
        rival = chosen.get(record.group)
        if rival is None or _id_hash(record) < _id_hash(rival):
            chosen[record.group] = record
    return list(chosen.values())


def _id_hash(record: LeaveOneOutRecord) -> bytes:
    return hashlib.sha256(record.question_id.encode("utf-8", "surrogatepass")).digest()


def split_by_group(
    records: Sequence[LeaveOneOutRecord], *, share: float = 0.5, seed: int = 0
) -> tuple[list[LeaveOneOutRecord], list[LeaveOneOutRecord]]:
    """Two parts without a common group; the first has about `share` of the questions.

    Groups are shuffled by `seed` and dealt until the first part is full. Both
    parts keep the order of `records`.

    Example:
        >>> records = [LeaveOneOutRecord(str(i), str(i // 2), 1.0, 0.0) for i in range(8)]
        >>> first, second = split_by_group(records)
        >>> len(first), {r.group for r in first} & {r.group for r in second}
        (4, set())
    """
    if not 0.0 < share < 1.0:
        raise ValueError("share must be between 0 and 1")
    sizes: dict[str, int] = {}
    for record in records:
        sizes[record.group] = sizes.get(record.group, 0) + 1
    groups = sorted(sizes)
    order = np.random.default_rng(seed).permutation(len(groups))
    wanted = round(share * len(records))
    chosen: set[str] = set()
    taken = 0
    for index in order:
        size = sizes[groups[index]]
        # Deal a group only if that brings the first part closer to its share.
        if abs(taken + size - wanted) < abs(taken - wanted):
            chosen.add(groups[index])
            taken += size
    first = [record for record in records if record.group in chosen]
    second = [record for record in records if record.group not in chosen]
    return first, second


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
        group: document or domain, kept together where calibrators are compared, and the
            unit of intervals; policies say so where groups are few. Empty: the question is
            a group of its own.
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


_NUMBERS = (float, int, np.floating, np.integer)


def _is_sound(record: CalibrationEvidence) -> bool:
    """Whether it is a record that needs no copy; a shortcut, `_checked` has the last word."""
    return (
        type(record) is CalibrationRecord
        and type(record.question_id) is type(record.group) is type(record.case) is str
        and record.question_id != ""
        and (record.relevance is None or _is_probability(record.relevance))
        and (record.confidence is None or _is_probability(record.confidence))
        and (record.context_right is None or type(record.context_right) is bool)
        and (record.closed_book_right is None or type(record.closed_book_right) is bool)
        and (record.conflict is None or type(record.conflict) is bool)
        and type(record.weight) is float
        and 0.0 < record.weight < math.inf
    )


def _is_probability(value: object) -> bool:
    return type(value) is float and 0.0 <= value <= 1.0


def _checked(record: CalibrationEvidence, number: int) -> CalibrationRecord:
    if _is_sound(record):
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
        relevance=_signal(record.relevance, "relevance", number),
        confidence=_signal(record.confidence, "confidence", number),
        context_right=_outcome(record.context_right, "context_right", number),
        closed_book_right=_outcome(record.closed_book_right, "closed_book_right", number),
        group="" if group is None else str(group),
        conflict=_outcome(getattr(record, "conflict", None), "conflict", number),
        weight=_weight(getattr(record, "weight", None), number),
        case="" if case is None else str(case),
    )


def _weight(value: object, number: int) -> float:
    if value is None:
        return 1.0
    found = float(value) if _is_number(value) else math.nan
    if not 0.0 < found < math.inf:
        raise ValueError(f"record {number}: weight must be above 0 and finite, not {value!r}")
    return found


def _signal(value: object, name: str, number: int) -> float | None:
    if value is None:
        return None
    if not _is_number(value):
        raise ValueError(f"record {number}: {name} must be a number or None, not {value!r}")
    found = float(value)
    if math.isnan(found):
        return None  # a signal that failed, as in the guard
    if not 0.0 <= found <= 1.0:
        raise ValueError(
            f"record {number}: {name} {found:g} is not within [0, 1]; "
            "make probabilities of raw scores first, e.g. with choose_calibrator"
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


Floats = NDArray[np.float64]
Numbers = Sequence[float] | Floats
"""One number per case."""
Outcomes = Sequence[bool] | Floats
"""Per case whether it came true; arrays hold 0.0 and 1.0."""


def scored_cases(scores: Numbers, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Finite scores and their outcomes as 0.0 and 1.0.

    Raises:
        ValueError: lengths differ, a score is NaN or infinite, an outcome is neither true
            nor false.
    """
    numbers, came_true = _same_length(scores, outcomes, "scores")
    if not np.isfinite(numbers).all():
        raise ValueError("scores must be finite")
    return numbers, came_true


def stated_cases(probabilities: Numbers, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Probabilities and their outcomes as 0.0 and 1.0.

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
            neither true nor false.
    """
    stated, came_true = _same_length(probabilities, outcomes, "probabilities")
    if not ((stated >= 0.0) & (stated <= 1.0)).all():
        raise ValueError("probabilities must be between 0 and 1")
    return stated, came_true


def equal_mass_bins(ascending: Floats, bins: int) -> list[slice]:
    """Sorted numbers cut into bins of (as nearly as possible) equal size.

    Equal numbers are never parted: a cut among them moves up to the last of them. So
    there may be fewer than `bins`, and none is empty.

    Raises:
        ValueError: `bins` is below 1.

    Example:
        >>> [(b.start, b.stop) for b in equal_mass_bins(np.array([0.1, 0.2, 0.2, 0.3]), 2)]
        [(0, 3), (3, 4)]
    """
    if bins < 1:
        raise ValueError(f"there must be a bin, not {bins}")
    if not len(ascending):
        return []
    parts = np.array_split(ascending, min(bins, len(ascending)))
    ends = np.unique(np.searchsorted(ascending, [part[-1] for part in parts], side="right"))
    starts = [0, *ends[:-1].tolist()]
    return [slice(start, stop) for start, stop in zip(starts, ends.tolist(), strict=True)]


def _same_length(numbers: Numbers, outcomes: Outcomes, name: str) -> tuple[Floats, Floats]:
    values = np.asarray(numbers, dtype=np.float64)
    came_true = np.asarray(outcomes, dtype=np.float64)
    if values.shape != came_true.shape or values.ndim != 1:
        raise ValueError(f"{values.size} {name} for {came_true.size} outcomes")
    if not np.isin(came_true, (0.0, 1.0)).all():
        raise ValueError("outcomes must be true or false")
    return values, came_true
