"""`knowgate plan`: what can be certified with so many questions, before anything is measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...guard.errors import InputError
from ..data import KnowledgeBase, PassageKind, QuestionRecord
from ._app import app
from ._console import out, print_figures, prints_figures

if TYPE_CHECKING:
    from ...calibration.risk import LeakPlan

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
            "as one piece of evidence. Not used where every question names its source."
        ),
    ] = None,
) -> None:
    """Say what can be certified with these questions, and with 20 to 1,000 like them.

    What counts is how many passages (or sources) the questions are about. The numbers come
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
    sizes = _sizes(questions, passage)
    level = Guarantee.level_of(delta, 1)
    found = LeakPlan.of(sizes, risk, delta=level)
    rows = [LeakPlan.of(_like(sizes, count), risk, delta=level) for count in _TABLE]
    for line in [_verdict(found, risk, delta), "", *_table(found, rows)]:
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


def _sizes(path: Path, kind: PassageKind | None) -> list[int]:
    """Questions of each source or passage."""
    records = QuestionRecord.read(path)
    if kind is None and all(record.source for record in records):
        return list(Counter(record.source for record in records).values())
    base = KnowledgeBase.of(records, kind, where=str(path))
    return list(Counter(base.passage_of.values()).values())


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
