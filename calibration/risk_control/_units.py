"""The unit is the question: which record speaks for it, and which part it falls into."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from .._calibration_record import CalibrationRecord

_FEW_GROUPS = 10


def one_per_question(
    records: Sequence[CalibrationRecord], *, seed: int = 0
) -> list[CalibrationRecord]:
    """One record per question, so that variants of a question do not count as evidence twice.

    Which one, and whether a question stays, hangs on a hash of its id alone, blind to
    signals and outcomes: a record is drawn with probability in proportion to its weight
    among the question's, and a question stays with probability in proportion to its mean
    weight. What is left is an unweighted sample of the weighted population, so that exact
    tests apply.

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
            kept.append(_drawn(found, which))
    return kept


def split_questions(
    records: Sequence[CalibrationRecord], *, share: float, seed: int
) -> tuple[list[CalibrationRecord], list[CalibrationRecord]]:
    """Two parts without a common question, nor a common group where there are ten or more.

    Fewer groups (say, two domains) cannot be dealt without changing what the second part
    is a sample of: then questions are dealt within each group.

    Args:
        records: with all variants of each question.
        share: of the questions, about, that the first part gets; in (0, 1).
        seed: of the deal.
    """
    # A question whose records name several groups goes by the first.
    groups: dict[str, str] = {}
    for record in records:
        groups.setdefault(record.question_id, record.group or f"question {record.question_id}")
    by_group: dict[str, list[str]] = {}
    for question, group in groups.items():
        by_group.setdefault(group, []).append(question)
    rng = np.random.default_rng(seed)
    if len(by_group) >= _FEW_GROUPS:
        first = _deal([by_group[g] for g in sorted(by_group)], share, rng)
    else:
        first = set()
        for group in sorted(by_group):
            first |= _deal([[q] for q in sorted(by_group[group])], share, rng)
    return (
        [record for record in records if record.question_id in first],
        [record for record in records if record.question_id not in first],
    )


def _deal(units: list[list[str]], share: float, rng: np.random.Generator) -> set[str]:
    """Whole units dealt in random order while that brings the total nearer to the share."""
    wanted = share * sum(len(unit) for unit in units)
    chosen: set[str] = set()
    for index in rng.permutation(len(units)):
        size = len(units[index])
        if abs(len(chosen) + size - wanted) < abs(len(chosen) - wanted):
            chosen.update(units[index])
    return chosen


def _two_draws(question: str, seed: int) -> tuple[float, float]:
    """Two numbers in [0, 1) from a question's id."""
    digest = hashlib.sha256(f"{seed}/{question}".encode("utf-8", "surrogatepass")).digest()
    return tuple(int.from_bytes(part, "big") / 2.0**64 for part in (digest[:8], digest[8:16]))  # type: ignore[return-value]


def _drawn(variants: list[CalibrationRecord], draw: float) -> CalibrationRecord:
    if len(variants) == 1:
        return variants[0]
    place = draw * sum(record.weight for record in variants)
    for record in variants:
        place -= record.weight
        if place < 0.0:
            return record
    return variants[-1]
