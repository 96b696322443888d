"""What so many questions can certify, before anything is measured: `calibrate --dry-run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.questions import QuestionRecord
from ..run.questions import LeaveOut
from ..systems.leaving_out import sizes_of_units
from ._console import aligned, out, print_figures, tell
from ._options import required

if TYPE_CHECKING:
    from ...calibration.risk.plan import LeakPlan

_UNITS = {LeaveOut.SOURCE: "passages", LeaveOut.PAGE: "pages", LeaveOut.TOPIC: "units"}
_TABLE = (20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)


def plan(
    questions: Path | None,
    unanswerable: Path | None,
    *,
    risk: float,
    delta: float,
    leave_out: LeaveOut,
) -> None:
    """Say what can be certified with these questions, and with 20 to 1,000 like them.

    What counts is how many passages (or sources, pages) the questions are about. The numbers come
    from the test of the certificate; what a policy would abstain from needlessly comes from
    the same test on simulated scores. Nothing is measured and no model is asked.

    Args:
        questions: file of questions. They are taken for ones that are asked of documents where
            all name their source and not all their passage, else of their own passages.
        unanswerable: file of questions that the documents do not answer.
        risk: bound α that is wanted.
        delta: probability δ that the bound fails.
        leave_out: what is one piece of evidence.

    Raises:
        InputError: no questions are named, or a file cannot be used.
    """
    from ...calibration.risk.plan import LeakPlan
    from ...guard.artefacts import Guarantee

    questions = required(questions, "--questions", "name a file of questions")
    records = QuestionRecord.read(questions, need_answer=False)
    named = all(one.source for one in records)
    served = named and not all(one.passage for one in records)
    sizes = sizes_of_units(questions, leave_out, None, served=served)
    level = Guarantee.level_of(delta, 1)
    found = LeakPlan.of(sizes, risk, delta=level)
    rows = [LeakPlan.of(_like(sizes, count), risk, delta=level) for count in _TABLE]
    note = _note(questions, leave_out, len(sizes), served=served) if named else ""
    tell("plan", found, risk, delta, _UNITS[leave_out])
    for line in (*filter(None, [note]), "", *_table(found, rows)):
        out.print(line)
    figures: dict[str, Any] = {"plan": found, "table": rows}
    if unanswerable is not None:
        own = LeakPlan.of(_topics(unanswerable, records), risk, delta=level)
        figures["unanswerable"] = own
        out.print("\nunanswerable: ", end="")
        tell("plan", own, risk, delta, "topics")
        for line in _table(own, [])[:2]:
            out.print(line)
    print_figures(figures)


def _topics(path: Path, beside: Sequence[QuestionRecord]) -> list[int]:
    """Unanswerable questions of each topic; one without a topic stands alone."""
    records = QuestionRecord.read_unanswerable(path, beside=beside)
    return list(Counter(one.topic or (one.question_id,) for one in records).values())


def _note(questions: Path, leave_out: LeaveOut, count: int, *, served: bool) -> str:
    """Say when another number of units will count, which depends on what is measured."""
    if leave_out is LeaveOut.TOPIC:
        on_topics = "Pages were counted: on how many topics they are is known once it is measured."
        return on_topics if served else ""
    documents = LeaveOut.PAGE if served else leave_out
    other = len(sizes_of_units(questions, documents, None, served=True))
    if other == count:
        return ""
    if served:
        return f"Where the documents name no sections, whole pages are left out: {other} count."
    return f"Asked of documents, with their sources left out, {other} count."


def _like(sizes: list[int], questions: int) -> list[int]:
    """So many questions, as many to a passage as there are on average."""
    passages = max(1, round(questions * len(sizes) / sum(sizes)))
    each, more = divmod(questions, passages)
    return [each + (place < more) for place in range(passages)]


def _table(found: LeakPlan, rows: list[LeakPlan]) -> list[str]:
    """Yours first, then 20 to 1,000 questions with as many to a passage."""
    known = [row.false_abstention for row in (*rows, found) if row.false_abstention]
    separations = list(known[-1]) if known else []
    columns = ["questions", "passages", "smallest --risk"]
    columns += [f"abstains, AUROC {value:g}" for value in separations]
    lines = []
    for row in (found, *rows):
        smallest = "none" if row.smallest is None else f"{row.smallest:g}"
        shares = [row.false_abstention.get(value) for value in separations]
        told = ["all" if share is None else f"{share:.0%}" for share in shares]
        lines.append([str(row.questions), str(row.passages), smallest, *told])
    head, own, *others = aligned(columns, lines)
    return [head, f"{own}  ← yours", *others]
