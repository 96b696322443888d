"""What a detector of abstentions says, and what it looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .._fingerprint import Fingerprint
from ._citation import Citation


@dataclass(frozen=True, slots=True)
class AbstentionVerdict:
    """Whether one reply abstains.

    Attributes:
        abstained: the reply gives no answer.
        probability: calibrated probability of that, in [0, 1]; 0 or 1 for a rule
            that knows no in between.
    """

    abstained: bool
    probability: float


class AbstentionRule(Protocol):
    """Tells replies that abstain from replies that answer, without a language model."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What made a verdict, for runs and reports."""
        ...

    def detect(
        self, response: str, *, question: str | None = None, citation: object = Citation.UNKNOWN
    ) -> AbstentionVerdict:
        """The verdict on one reply."""
        ...

    def detect_many(
        self,
        responses: Sequence[str],
        *,
        questions: Sequence[str | None] | None = None,
        citations: Sequence[object] | None = None,
    ) -> list[AbstentionVerdict]:
        """The verdicts on many replies, in order; equal to `detect` one by one."""
        ...
