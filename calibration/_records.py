"""What a policy is fitted on: one record per question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
