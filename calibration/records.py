"""What a policy is fitted on: one record per question and case."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from ..guard.errors import first_fault
from ..guard.files import json_sha256

# Cases that must not pass: the source was left out, or a user's question has no answer.
MISSING_CASES = ("left_out", "unanswerable")


def _plain(value: Any) -> Any:
    """A number or truth value of numpy as Python's; NaN, a signal that failed, as None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isnan(value) else value


def _as_text(value: Any) -> Any:
    return "" if value is None else str(value)


_Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]
_Signal = Annotated[_Finite | None, BeforeValidator(_plain)]
_Verdict = Annotated[float, Field(ge=0.0, le=1.0, strict=True)]
_Text = Annotated[str, BeforeValidator(_as_text)]
_Outcome = Annotated[bool | None, BeforeValidator(_plain)]


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
        case: which case this is, unique within the question: e.g. `in_kb`, one of `MISSING_CASES`,
            or a left-out case that a person found to be answered by another passage (`ELSEWHERE`).
        nothing_retrieved: there was no passage; calibrated relevance is then 0.
        verdict: of a costly scorer, in [0, 1], where a cascade is fitted; None where there is none.
        strict: relevance by the strict reading of a cascade, on the same scale; None where there is
            none.
        ELSEWHERE: the name of a case that was measured as `left_out` and that review found to be
            answered by another passage. It may pass: it is no leak. It is not `is_answerable`
            either, since reviewed cases are chosen, by high relevance, and a rate that counted
            them would look better than it is.
    """

    ELSEWHERE: ClassVar = "answered_elsewhere"

    question_id: Annotated[_Text, Field(min_length=1)]
    relevance: _Signal
    confidence: _Signal
    context_right: _Outcome
    closed_book_right: _Outcome
    group: _Text = ""
    conflict: _Outcome = None
    weight: Annotated[_Finite, Field(gt=0.0), BeforeValidator(_plain)] = 1.0
    case: _Text = ""
    nothing_retrieved: bool = False
    verdict: Annotated[_Verdict | None, BeforeValidator(_plain)] = None
    strict: _Signal = None

    @property
    def unit(self) -> tuple[str, str]:
        """What the record is evidence about: its group, or the question on its own."""
        return ("group", self.group) if self.group else ("question", self.question_id)

    @property
    def measured_case(self) -> str:
        """The case as it was measured, whatever review found."""
        return "left_out" if self.case == self.ELSEWHERE else self.case

    @property
    def may_pass(self) -> bool:
        """Whether its passages hold the answer: those of its source, or by review others."""
        return self.is_answerable or (self.case == self.ELSEWHERE and self.context_right is True)

    @property
    def is_answerable(self) -> bool:
        """Whether the record has its source in place, and it was retrieved."""
        return self.case == "in_kb" and self.context_right is True

    @property
    def is_missing(self) -> bool:
        """Whether the answer is missing, so that the record must not pass."""
        return self.case in MISSING_CASES

    @staticmethod
    def seed_of(question_ids: Iterable[str]) -> int:
        """The seed of every split and resampling of these questions, which nobody can choose.

        It follows from their ids alone, so that a split depends neither on
        signals nor on outcomes, and not on the order of records or the last bit of a score.

        Example:
            >>> CalibrationRecord.seed_of("abba") == CalibrationRecord.seed_of("ab") < 2**48
            True
        """
        return int(json_sha256(sorted(set(question_ids)))[:12], 16)

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

    @staticmethod
    def one_per_question(records: Records) -> list[CalibrationRecord]:
        """Take one record per question, so that its variants do not count as evidence twice.

        Which one, and whether a question stays, depends on a hash of its id alone, not on
        signals or outcomes: a record is drawn with probability in proportion to its weight
        among the question's, and a question stays with probability in proportion to its mean
        weight, the heaviest one always. The result is an unweighted sample of the weighted
        population, so that exact tests apply.

        Example:
            >>> twice = [CalibrationRecord("q", r, None, True, None) for r in (0.1, 0.9)]
            >>> len(CalibrationRecord.one_per_question(twice))
            1
        """
        variants: dict[str, list[CalibrationRecord]] = {}
        for record in records:
            variants.setdefault(record.question_id, []).append(record)
        means = {q: sum(r.weight for r in rs) / len(rs) for q, rs in variants.items()}
        heaviest = max(means.values(), default=1.0)
        kept = []
        for question, found in variants.items():
            which, stays = _two_draws(question)
            if stays * heaviest < means[question]:
                # In an order of their own, so that the order of the records does not matter.
                kept.append(_drawn(sorted(found, key=repr), which))
        return kept

    @staticmethod
    def split(
        records: Records, *, share: float, seed: int | None = None
    ) -> tuple[list[CalibrationRecord], list[CalibrationRecord]]:
        """Deal the groups at random to two parts, which have no group in common.

        The group is the unit of every test: with questions of one group on both sides, what was
        learned on the first part would look better in the second than it is. A question without
        a group is one by itself.

        Args:
            records: with all variants of each question.
            share: of the groups that the first part gets, however many questions they have, so
                that the groups of each part are a sample of all; in [0, 1].
            seed: of the deal, 0 or more; None for the one that follows from the records.

        Returns:
            The parts, each in the order of `records`.

        Raises:
            ValueError: `share` is out of its range.

        Example:
            >>> twice = [CalibrationRecord(str(i // 2), 0.5, None, True, None) for i in range(40)]
            >>> [len(part) for part in CalibrationRecord.split(twice, share=0.25)]
            [10, 30]
        """
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must be from 0 to 1, not {share}")
        unit_of: dict[str, tuple[str, str]] = {}
        for record in records:
            known = unit_of.setdefault(record.question_id, record.unit)
            unit_of[record.question_id] = min(known, record.unit)
        units = sorted(set(unit_of.values()))
        seed = CalibrationRecord.seed_of(unit_of) if seed is None else seed
        dealt = np.random.default_rng(seed).permutation(len(units))[: round(share * len(units))]
        first = {units[index] for index in dealt}
        return (
            [record for record in records if unit_of[record.question_id] in first],
            [record for record in records if unit_of[record.question_id] not in first],
        )


Records = Sequence[CalibrationRecord]
_CHECKED = TypeAdapter(CalibrationRecord)
_FIELDS = [one.name for one in fields(CalibrationRecord)]
_HASHED = attrgetter(
    "question_id", "relevance", "confidence", "context_right", "closed_book_right",
    "group", "conflict", "weight", "case",
)  # fmt: skip


def as_calibration_records(
    records: Iterable[object],
    *,
    raw: bool = False,
) -> list[CalibrationRecord]:
    """Check the records, and copy them.

    Args:
        records: of any kind that has the attributes.
        raw: signals may be on any scale; otherwise they are probabilities.

    Raises:
        ValueError: a signal is infinite or, unless `raw`, outside [0, 1], a weight is not above
            0 and finite, or an outcome is no bool; names the record by its number, from 0.
    """
    found = []
    for number, record in enumerate(records):
        given = {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        try:
            checked = _CHECKED.validate_python(given)
        except ValidationError as error:
            raise ValueError(f"record {number}: {first_fault(error)}") from None
        for name in () if raw else ("relevance", "confidence"):
            if not 0.0 <= (getattr(checked, name) or 0.0) <= 1.0:
                raise ValueError(f"record {number}: {name}: must be in [0, 1]")
        found.append(checked)
    return found


def records_sha256(records: Records) -> str:
    """Hash of the records, independent of their order."""
    return lines_sha256(json.dumps(_HASHED(record)) for record in records)


def lines_sha256(lines: Iterable[str]) -> str:
    """Hash of the lines, independent of their order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8")).hexdigest()


def _two_draws(question: str) -> tuple[float, float]:
    """Two numbers in [0, 1) from a question's id."""
    digest = hashlib.sha256(f"0/{question}".encode("utf-8", "surrogatepass")).digest()
    first, second = struct.unpack_from(">QQ", digest)
    # 53 bits, so that no draw is rounded up to 1.
    return (first >> 11) / 2.0**53, (second >> 11) / 2.0**53


def _drawn(variants: list[CalibrationRecord], draw: float) -> CalibrationRecord:
    place = draw * sum(record.weight for record in variants)
    for record in variants:
        place -= record.weight
        if place < 0.0:
            return record
    return variants[-1]
