"""Measured cases of an out-of-knowledge-base run."""

from __future__ import annotations

import os

from ..ookb import CaseKind, OokbRow, OokbRun, read_ookb_run
from ._measured import MeasuredCase, MeasuredCases

_POPULATION = (
    "questions on this knowledge base, each asked twice: with the whole of it and with the "
    "passage that holds the answer left out, both counting the same; a context counts as right "
    "if that passage was retrieved"
)


def records_from_ookb(run: str | os.PathLike[str]) -> MeasuredCases:
    """Two cases per question: with the whole knowledge base, and with its source left out.

    The suite judges no reply: a context counts as right where the question's own passage
    was retrieved, and never with that passage left out. It measures no confidence.

    Raises:
        InputError: no finished run of this suite lies there.
    """
    found: OokbRun = read_ookb_run(run, with_calibration=False)
    return MeasuredCases(
        cases=tuple(_case(found, row) for row in found.rows),
        source=os.fspath(run),
        scorer=found.manifest.settings.scorer,
        aggregator=found.manifest.settings.aggregator,
        population=_POPULATION,
    )


def _case(run: OokbRun, row: OokbRow) -> MeasuredCase:
    failed = row.error is not None
    return MeasuredCase(
        question_id=row.question_id,
        relevance=None if failed else row.raw_relevance,
        confidence=None,
        context_right=row.kind is CaseKind.IN_KB and not failed and not row.retrieval_miss,
        closed_book_right=None,
        group=run.questions[row.question_id].own_passage,
        case=row.kind.value,
        nothing_retrieved=not failed and not row.retrieved,
    )
