"""The unit is the question: which record speaks for it, and which part it falls into."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import numpy as np

from .. import SMALLEST_PROBABILITY, CalibrationRecord

RiskKind = Literal["selective", "follow", "answer", "false_abstention", "cost"]


@dataclass(frozen=True, slots=True)
class LossTable:
    """What each mishap costs, in [0, 1]; everything else costs nothing.

    Attributes:
        wrong_follow: following a context to a wrong answer.
        wrong_answer: a wrong answer from memory.
        false_abstention: abstaining where the context or memory would have been right.
    """

    wrong_follow: float = 1.0
    wrong_answer: float = 1.0
    false_abstention: float = 0.0

    def __post_init__(self) -> None:
        for name in ("wrong_follow", "wrong_answer", "false_abstention"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must be within [0, 1], not {value}")

    @property
    def all_or_nothing(self) -> bool:
        """Whether every mishap costs 0 or 1, so that the exact binomial tail applies."""
        return {self.wrong_follow, self.wrong_answer, self.false_abstention} <= {0.0, 1.0}


@dataclass(frozen=True, slots=True)
class RiskTarget:
    """A bound on one risk.

    Attributes:
        kind: `selective`: share answered wrongly among all that are let through;
            `follow`, `answer`: the same among those let through by that route;
            `false_abstention`: share abstained from among those that the context or
            memory would have answered rightly; `cost`: mean cost per question, by the
            loss table.
        bound: in (0, 1).
        losses: for `cost`.
    """

    kind: RiskKind
    bound: float
    losses: LossTable = field(default_factory=LossTable)

    def __post_init__(self) -> None:
        if self.kind not in ("selective", "follow", "answer", "false_abstention", "cost"):
            raise ValueError(f"unknown kind of risk {self.kind!r}")
        if not SMALLEST_PROBABILITY <= self.bound <= 1 - SMALLEST_PROBABILITY:
            raise ValueError(f"risk must be between 0 and 1, not {self.bound}")


Of = TypeVar("Of", bound="OfAQuestion")


def one_per_question(
    records: Sequence[CalibrationRecord], *, seed: int = 0
) -> list[CalibrationRecord]:
    """One record per question, so that variants of a question do not count as evidence twice.

    Which one, and whether a question stays, hangs on a hash of its id alone, blind to
    signals and outcomes: a record is drawn with probability in proportion to its weight
    among the question's, and a question stays with probability in proportion to its mean
    weight, the heaviest one always. What is left is an unweighted sample of the weighted
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


class OfAQuestion(Protocol):
    """A record, case or anything else that is about one question."""

    @property
    def question_id(self) -> str:
        """What is about one question shares it."""
        ...


def split_questions(
    records: Sequence[Of], *, share: float, seed: int = 0
) -> tuple[list[Of], list[Of]]:
    """Two parts without a common question, dealt at random.

    Questions are dealt, not their groups. The second part has to be a sample of all the
    questions that the promise speaks of; with whole groups dealt away it is one of the rest,
    and the promise broke in 15 to 66 % of trials where 10 % were promised. Related
    questions on both sides do no harm here: the first part only orders the points.

    Args:
        records: with all variants of each question.
        share: of the questions that the first part gets; in [0, 1].
        seed: of the deal, 0 or more.

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
    questions = sorted({record.question_id for record in records})
    order = np.random.default_rng(seed).permutation(len(questions))
    first = {questions[index] for index in order[: round(share * len(questions))]}
    return (
        [record for record in records if record.question_id in first],
        [record for record in records if record.question_id not in first],
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
