"""The unit is the question: which record stands for it, and which part it is dealt to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from .. import CalibrationRecord


def one_per_question(
    records: Sequence[CalibrationRecord], *, seed: int = 0
) -> list[CalibrationRecord]:
    """Take one record per question, so that its variants do not count as evidence twice.

    Which one, and whether a question stays, depends on a hash of its id alone, not on
    signals or outcomes: a record is drawn with probability in proportion to its weight
    among the question's, and a question stays with probability in proportion to its mean
    weight, the heaviest one always. The result is an unweighted sample of the weighted
    population, so that exact tests apply.

    Example:
        >>> twice = [CalibrationRecord("q", r, None, True, None) for r in (0.1, 0.9)]
        >>> len(one_per_question(twice))
        1
    """
    variants: dict[str, list[CalibrationRecord]] = {}
    for record in records:
        variants.setdefault(record.question_id, []).append(record)
    means = {q: sum(r.weight for r in rs) / len(rs) for q, rs in variants.items()}
    heaviest = max(means.values(), default=1.0)
    kept = []
    for question, found in variants.items():
        which, stays = _two_draws(question, seed)
        if stays * heaviest < means[question]:
            # In an order of their own, so that the order of the records does not matter.
            kept.append(_drawn(sorted(found, key=repr) if len(found) > 1 else found, which))
    return kept


def is_answerable(record: CalibrationRecord) -> bool:
    """Whether the record has its source in place, and it was retrieved."""
    return record.case == "in_kb" and record.context_right is True


def split_questions(
    records: Sequence[CalibrationRecord],
    *,
    share: float,
    seed: int | None = None,
    by_group: bool = False,
) -> tuple[list[CalibrationRecord], list[CalibrationRecord]]:
    """Deal the questions at random to two parts, which have no question in common.

    By default questions are dealt, not their groups. The second part has to be a sample of
    all the questions that the promise is about; with whole groups dealt away it is one of
    the rest, and the promise broke in 15 to 66 % of trials where 10 % were promised. Related
    questions on both sides do no harm here: the first part only orders the points.

    Args:
        records: with all variants of each question.
        share: of the questions that the first part gets; in [0, 1].
        seed: of the deal, 0 or more; None for the one that follows from the records.
        by_group: the parts have no group in common either; needed where the group is the
            unit of the test. The first part's size is then only close to its share.

    Returns:
        The parts, each in the order of `records`.

    Raises:
        ValueError: `share` is out of its range.

    Example:
        >>> twice = [CalibrationRecord(str(i // 2), 0.5, None, True, None) for i in range(40)]
        >>> [len(part) for part in split_questions(twice, share=0.25)]
        [10, 30]
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must be from 0 to 1, not {share}")
    unit_of = {r.question_id: r.unit if by_group else ("", r.question_id) for r in records}
    sizes: dict[tuple[str, str], int] = {}
    for unit in unit_of.values():
        sizes[unit] = sizes.get(unit, 0) + 1
    units = sorted(sizes)
    wanted, taken = round(share * len(unit_of)), 0
    first: set[tuple[str, str]] = set()
    seed = CalibrationRecord.seed_of(unit_of) if seed is None else seed
    for index in np.random.default_rng(seed).permutation(len(units)):
        unit = units[index]
        # Deal a group only if that brings the first part closer to its share.
        if abs(taken + sizes[unit] - wanted) < abs(taken - wanted):
            first.add(unit)
            taken += sizes[unit]
    return (
        [record for record in records if unit_of[record.question_id] in first],
        [record for record in records if unit_of[record.question_id] not in first],
    )


def _two_draws(question: str, seed: int) -> tuple[float, float]:
    """Two numbers in [0, 1) from a question's id."""
    digest = hashlib.sha256(f"{seed}/{question}".encode("utf-8", "surrogatepass")).digest()
    # 53 bits, so that no draw is rounded up to 1.
    first, second = (int.from_bytes(part, "big") >> 11 for part in (digest[:8], digest[8:16]))
    return first / 2.0**53, second / 2.0**53


def _drawn(variants: list[CalibrationRecord], draw: float) -> CalibrationRecord:
    if len(variants) == 1:
        return variants[0]
    place = draw * sum(record.weight for record in variants)
    for record in variants:
        place -= record.weight
        if place < 0.0:
            return record
    return variants[-1]
