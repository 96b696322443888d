"""Reviews: whether a question is answered after all although its source was left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AwareDatetime, Field

from ...guard.errors import InputError
from ._manifest import Stored
from ._questions import CaseKind, Identifier, MeasuredRow
from ._table import SharedLog

_HINT = "correct or remove the line, the others stay as they are"


class Review(Stored):
    """A line of `reviews.jsonl`: what a person says of a left-out case; its last line counts.

    Attributes:
        verdict: None takes the earlier ones back.
        at: when, with its zone.
        passage: id of the retrieved passage that answers, where one was named.
        note: of the reviewer.
        LONGEST_NOTE: in characters.
    """

    class Verdict(StrEnum):
        """Whether the passages that are left answer the question."""

        ANSWERED = "answered"
        NOT_ANSWERED = "not_answered"
        UNSURE = "unsure"

    LONGEST_NOTE: ClassVar = 5000

    case_id: Identifier
    verdict: Verdict | None
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    passage: str | None = None
    note: Annotated[str, Field(max_length=5000)] = ""

    @property
    def answered(self) -> bool:
        """Whether the case is no leak, because a passage that is left answers its question."""
        return self.verdict is self.Verdict.ANSWERED

    @staticmethod
    def log(folder: str | os.PathLike[str]) -> SharedLog[Review]:
        """Return the reviews of a run, appended line by line; several processes may write."""
        return SharedLog(Path(folder) / "reviews.jsonl", Review, hint=_HINT)

    def require_of(self, cases: Mapping[str, MeasuredRow], where: str) -> None:
        """Reject a review of anything but a left-out case of a run.

        Args:
            cases: of the run, by id; see `MeasuredRun.reviewable`.
            where: file and line.

        Raises:
            InputError: there is no such case, or its passage was not retrieved for it.
        """
        row = cases.get(self.case_id)
        if row is None:
            raise InputError(
                f"case {self.case_id[:80]!r} is no left-out case of this run",
                where=where,
                hint="its ids end in /left_out; the table belongs to one run",
            )
        if self.passage is not None and self.passage not in row.retrieved:
            raise InputError(
                f"passage {self.passage[:80]!r} was not retrieved for case {self.case_id[:80]!r}",
                where=where,
                hint="name one of its passages, or none",
            )

    @classmethod
    def read(
        cls, folder: str | os.PathLike[str], cases: Mapping[str, MeasuredRow]
    ) -> dict[str, Review]:
        """Return the last review of each case, by case id, without those that were taken back.

        Args:
            folder: of the run.
            cases: as for `require_of`.

        Raises:
            InputError: a line is damaged, or about no left-out case of the run (with the line).
        """
        found: dict[str, Review] = {}
        for where, review in cls.log(folder).places():
            review.require_of(cases, where)
            found[review.case_id] = review
        return {name: review for name, review in found.items() if review.verdict is not None}


def reviewable(rows: Iterable[MeasuredRow]) -> dict[str, MeasuredRow]:
    """Return the cases that can be reviewed, by id: measured, with the source left out."""
    return {row.case_id: row for row in rows if row.kind is CaseKind.LEFT_OUT and row.error is None}
