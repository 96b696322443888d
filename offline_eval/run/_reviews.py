"""Reviews: whether a question is answered after all although its source was left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, Field

from ...guard.errors import InputError
from ._manifest import Stored
from ._questions import CaseKind, Identifier, MeasuredRow
from ._table import SharedLog

_HINT = "correct or remove the line, the others stay as they are"
LONGEST_NOTE = 5000


class ReviewVerdict(StrEnum):
    """Whether the passages that are left answer the question."""

    ANSWERED = "answered"
    NOT_ANSWERED = "not_answered"
    UNSURE = "unsure"


class Review(Stored):
    """A line of `reviews.jsonl`: what a person says of a left-out case; its last line counts.

    Attributes:
        verdict: None takes the earlier ones back.
        at: when, with its zone.
        passage: id of the retrieved passage that answers, where one was named.
        note: of the reviewer.
    """

    case_id: Identifier
    verdict: ReviewVerdict | None
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    passage: str | None = None
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""

    @property
    def answered(self) -> bool:
        """Whether the case is no leak, because a passage that is left answers its question."""
        return self.verdict is ReviewVerdict.ANSWERED


def review_log(folder: str | os.PathLike[str]) -> SharedLog[Review]:
    """The reviews of a run, appended line by line; several processes may write."""
    return SharedLog(Path(folder) / "reviews.jsonl", Review, hint=_HINT)


def reviewable(rows: Iterable[MeasuredRow]) -> dict[str, MeasuredRow]:
    """Return the cases that can be reviewed, by id: measured, with the source left out."""
    return {row.case_id: row for row in rows if row.kind is CaseKind.LEFT_OUT and row.error is None}


def require_reviewable(review: Review, cases: Mapping[str, MeasuredRow], where: str) -> None:
    """Reject a review of anything but a left-out case of the run.

    Raises:
        InputError: there is no such case, or its passage was not retrieved for it.
    """
    row = cases.get(review.case_id)
    if row is None:
        raise InputError(
            f"case {review.case_id[:80]!r} is no left-out case of this run",
            where=where,
            hint="its ids end in /left_out; the table belongs to one run",
        )
    if review.passage is not None and review.passage not in row.retrieved:
        raise InputError(
            f"passage {review.passage[:80]!r} was not retrieved for case {review.case_id[:80]!r}",
            where=where,
            hint="name one of its passages, or none",
        )


def read_reviews(folder: str | os.PathLike[str], rows: Iterable[MeasuredRow]) -> dict[str, Review]:
    """Return the last review of each case, by case id; those that were taken back are left out.

    Raises:
        InputError: a line is damaged, or about no left-out case of the run (with the line).
    """
    cases, found = reviewable(rows), dict[str, Review]()
    for where, review in review_log(folder).places():
        require_reviewable(review, cases, where)
        found[review.case_id] = review
    return {name: review for name, review in found.items() if review.verdict is not None}
