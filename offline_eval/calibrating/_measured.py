"""Measured cases: what a policy with a guarantee is fitted on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import astuple, dataclass
from pathlib import Path

from ...guard import ConflictBetween, Fingerprint


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One question with one context: both signals as measured, and who was right.

    Attributes:
        question_id: shared by the cases of one question, which is what is counted.
        relevance: on the scorer's own scale, or a probability; None: the signal failed.
        confidence: likewise of the estimator.
        context_right: whether the reply that follows the context is right; None: not
            known, which counts as wrong.
        closed_book_right: likewise of the reply without context.
        group: questions of one document or domain share it; "" for a question on its own.
        conflict: what the conflict signal said, None where it was not asked or failed.
        weight: how much the case counts in the estimate of a rate, above 0.
        case: kind of the case, unique within the question.
        nothing_retrieved: there was no passage: relevance is then 0, whatever the scale.
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
        """What must stay together in a split: the group, or the question on its own."""
        return ("group", self.group) if self.group else ("question", self.question_id)


@dataclass(frozen=True, slots=True)
class MeasuredCases:
    """Cases, with what measured them.

    Attributes:
        cases: in their order.
        source: file or folder they come from.
        scorer: what measured relevance, None where nobody said.
        estimator: what measured confidence, None where nobody said or nothing did.
        aggregator: how passage scores became one value.
        population: what kind of questions and cases these are, in words; may be "".
        conflict_between: what the cases' `conflict` compares, as in `Policy`.
    """

    cases: tuple[MeasuredCase, ...]
    source: str
    scorer: Fingerprint | None = None
    estimator: Fingerprint | None = None
    aggregator: str = "max"
    population: str = ""
    conflict_between: ConflictBetween = "memory"

    @property
    def name(self) -> str:
        """Of the file or folder alone: a report says the same wherever they lie."""
        return Path(os.path.abspath(self.source)).name

    @property
    def questions(self) -> int:
        """How many there are, case variants aside."""
        return len({case.question_id for case in self.cases})

    @property
    def groups(self) -> int:
        """How many there are; a question without a group is one of its own."""
        return len({case.unit for case in self.cases})

    @property
    def sha256(self) -> str:
        """Hash of the cases, independent of their order."""
        lines = sorted(json.dumps(astuple(case)) for case in self.cases)
        return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()
