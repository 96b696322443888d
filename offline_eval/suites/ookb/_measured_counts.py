"""What came of a run of `knowgate measure`, as its last table says it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ...run import CaseKind, MeasuredRun, Question, RunTotals
from .._parts import Ending


@dataclass(frozen=True, slots=True)
class MeasuredCounts:
    """Counts of a run, finished or not.

    Attributes:
        kinds: cases by kind.
        retrieval_misses: in-KB cases whose own passage was not retrieved.
        unmatched: questions that name a source which no document has.
        duplicates: questions that repeat an earlier one, case and white space aside.
        duplicates_apart: those that are counted as evidence of their own all the same, because
            something else was left out for them.
        failed: cases with another error.
    """

    kinds: dict[str, int]
    retrieval_misses: int
    unmatched: int
    duplicates: int
    duplicates_apart: int
    failed: int

    @classmethod
    def of(cls, run: MeasuredRun) -> MeasuredCounts:
        """Count the rows and questions of a run."""
        found = Counter(row.kind for row in run.rows)
        errors = [row.question_id for row in run.rows if row.error is not None]
        asked = dict.fromkeys(row.question_id for row in run.rows)
        texts = _by_text(run.questions[name] for name in asked)
        evidence = [{one.evidence for one in same} for same in texts]
        return cls(
            kinds={kind.value: found[kind] for kind in CaseKind if found[kind]},
            retrieval_misses=sum(row.retrieval_miss for row in run.rows),
            unmatched=len(run.unmatched),
            duplicates=sum(len(same) - 1 for same in texts),
            duplicates_apart=sum(len(several) - 1 for several in evidence),
            failed=sum(name not in run.unmatched for name in errors),
        )

    def ending(self, totals: RunTotals) -> Ending:
        """Return the table of the command, and what stands below it."""
        each = totals.seconds / totals.stored if totals.stored else 0.0
        lines = (
            *((f"cases, {kind}", str(number)) for kind, number in self.kinds.items()),
            ("retrieval misses", str(self.retrieval_misses)),
            ("unmatched sources", str(self.unmatched)),
            ("duplicate questions", str(self.duplicates)),
            ("failed", str(self.failed)),
            ("time", f"{totals.seconds:.1f} s"),
            ("time per case", f"{each:.3f} s"),
        )
        notes = []
        if self.unmatched:
            notes.append(
                f"{self.unmatched} of the questions name a source that no document has: they "
                "count in no rate; see `error` in rows.jsonl"
            )
        values = {
            "cases": self.kinds,
            "retrieval_misses": self.retrieval_misses,
            "unmatched": self.unmatched,
            "duplicates": self.duplicates,
            "seconds_per_case": each,
        }
        return Ending(self.failed, ("what", "number"), lines, tuple(notes), values)


def _by_text(questions: Iterable[Question]) -> list[list[Question]]:
    """Questions that were asked in the same words."""
    found: dict[str, list[Question]] = defaultdict(list)
    for one in questions:
        found[" ".join(one.question.split()).casefold()].append(one)
    return list(found.values())
