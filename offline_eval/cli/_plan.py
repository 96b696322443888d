"""`knowgate plan`: what can be certified with so many questions, before anything is measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...guard.errors import InputError
from ..data import PassageKind, QuestionRecord
from ..run import LeaveOut
from ..suites.ookb import sizes_of_units
from ._app import app
from ._console import out, print_figures, prints_figures

if TYPE_CHECKING:
    from ...calibration.risk import LeakPlan

_UNITS = {LeaveOut.SOURCE: "passages", LeaveOut.PAGE: "pages", LeaveOut.TOPIC: "units"}
_TABLE = (20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)


@app.command()
@prints_figures
def plan(
    questions: Annotated[
        Path, typer.Option(help="KnowOrNot question document (.json), JSON lines (.jsonl), or CSV.")
    ],
    unanswerable: Annotated[
        Path | None,
        typer.Option(
            help="Questions that the documents do not answer, as for `measure`: what these can "
            "certify is printed too."
        ),
    ] = None,
    risk: Annotated[float, typer.Option(help="Bound α on the leak that is wanted.")] = 0.1,
    delta: Annotated[
        float, typer.Option(help="Probability δ that the bound fails by bad luck in the draw.")
    ] = 0.1,
    passage: Annotated[
        PassageKind | None,
        typer.Option(
            help="What a passage holds, as for `measure`; questions that share one count "
            "as one piece of evidence. Not used with --served."
        ),
    ] = None,
    leave_out: Annotated[
        LeaveOut,
        typer.Option(
            help="What is left out, as for `measure`: questions count as one piece of evidence "
            "where it is the same."
        ),
    ] = LeaveOut.SOURCE,
    served: Annotated[
        bool | None,
        typer.Option(
            help="The questions are for `measure` with --chain or --documents, which leaves out "
            "what they name as source; otherwise for their own passages.  [default: served, if "
            "every question names its source and not every one its passage]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Say what can be certified with these questions, and with 20 to 1,000 like them.

    What counts is how many passages (or sources, pages) the questions are about. The numbers come
    from the test of the certificate; what a policy would abstain from needlessly comes from
    the same test on simulated scores. Nothing is measured and no model is asked.

    Example: `knowgate plan --questions kb.jsonl --risk 0.1`
    """
    from ...calibration.risk import LeakPlan
    from ...guard.policy import Guarantee

    for name, value in (("--risk", risk), ("--delta", delta)):
        if not 1e-9 <= value <= 1 - 1e-9:
            raise InputError(
                f"must be between 0 and 1, not {value:g}", where=name, hint="name one such as 0.1"
            )
    records = QuestionRecord.read(questions, need_answer=False)
    if served is None:
        served = all(one.source for one in records) and not all(one.passage for one in records)
    sizes = sizes_of_units(questions, leave_out, passage, served=served)
    level = Guarantee.level_of(delta, 1)
    found = LeakPlan.of(sizes, risk, delta=level)
    rows = [LeakPlan.of(_like(sizes, count), risk, delta=level) for count in _TABLE]
    named = served or all(one.source for one in records)
    note = _note(questions, leave_out, len(sizes), served=served) if named else ""
    units = _UNITS[leave_out]
    for line in [
        _verdict(found, risk, delta, units),
        *filter(None, [note]),
        "",
        *_table(found, rows),
    ]:
        out.print(line, markup=False)
    figures: dict[str, Any] = {"plan": found, "table": rows}
    if unanswerable is not None:
        own = LeakPlan.of(_topics(unanswerable, questions), risk, delta=level)
        figures["unanswerable"] = own
        out.print(f"\nunanswerable: {_verdict(own, risk, delta, 'topics')}", markup=False)
        for line in _table(own, [])[:2]:
            out.print(line, markup=False)
    print_figures(figures)


def _topics(path: Path, questions: Path) -> list[int]:
    """Unanswerable questions of each topic; one without a topic stands alone."""
    beside = QuestionRecord.read(questions, need_answer=False)
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
    return f"Asked of documents (--served), with their sources left out, {other} count."


def _like(sizes: list[int], questions: int) -> list[int]:
    """So many questions, as many to a passage as there are on average."""
    passages = max(1, round(questions * len(sizes) / sum(sizes)))
    each, more = divmod(questions, passages)
    return [each + (place < more) for place in range(passages)]


def _verdict(found: LeakPlan, risk: float, delta: float, units: str = "passages") -> str:
    counts = f"{found.questions} questions on {found.passages} {units}"
    sure = f"with confidence {1 - delta:g}"
    if found.passages < found.needed:
        offer = "" if found.smallest is None else f"; they can certify --risk {found.smallest:g}"
        return (
            f"{counts} cannot certify a leak of at most {risk:g} {sure}, whatever is measured: "
            f"that takes {found.needed} {units}{offer}."
        )
    return (
        f"{counts} can certify a leak of at most {risk:g} {sure} (it takes {found.needed} "
        f"{units} at least); how much a policy then abstains from without need depends on how "
        "well the scorer tells the cases apart:"
    )


def _table(found: LeakPlan, rows: list[LeakPlan]) -> list[str]:
    """Yours first, then 20 to 1,000 questions with as many to a passage."""
    known = [row.false_abstention for row in (*rows, found) if row.false_abstention]
    separations = list(known[-1]) if known else []
    head = f"{'questions':>9} {'passages':>9} {'smallest --risk':>16}"
    head += "".join(f" {f'abstains, AUROC {value:g}':>21}" for value in separations)
    lines = [head]
    for row, note in [(found, "  ← yours"), *((row, "") for row in rows)]:
        smallest = "none" if row.smallest is None else f"{row.smallest:g}"
        line = f"{row.questions:>9} {row.passages:>9} {smallest:>16}"
        for value in separations:
            share = row.false_abstention.get(value)
            line += f" {'all' if share is None else f'{share:.0%}':>21}"
        lines.append(line + note)
    return lines
