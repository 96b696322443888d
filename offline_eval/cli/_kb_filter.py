"""`knowgate kb filter`: the questions that are worth asking."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ...guard.engine import BiEncoderScorer
from ..data import read_questions
from ..data.diversity import (
    Diverse,
    DiversitySettings,
    DropReason,
    KeywordMethod,
    SemanticMethod,
    filter_questions_file,
)
from ._console import out as console
from ._console import progress_bar
from ._kb import kb_app

_SAID = {
    DropReason.DUPLICATE: "stand there twice",
    DropReason.NEAR_DUPLICATE: "nearly stand there twice",
    DropReason.KEYWORDS: "not unique by keywords",
    DropReason.MEANING: "too near in meaning",
}


@kb_app.command("filter")
def filter_questions(
    questions: Annotated[
        Path,
        typer.Argument(help="KnowOrNot question document (.json), or JSON lines (.jsonl)."),
    ],
    out: Annotated[Path, typer.Option(help="Where the kept ones go, in the form they came in.")],
    dropped: Annotated[
        Path | None,
        typer.Option(
            help="JSON lines: what was dropped, and why.  [default: OUT with .dropped.jsonl]"
        ),
    ] = None,
    keyword: Annotated[
        KeywordMethod,
        typer.Option(
            help="uniqueness: share of information that no kept question has. original: "
            "KnowOrNot's formula, which goes mostly by length."
        ),
    ] = KeywordMethod.UNIQUENESS,
    keyword_threshold: Annotated[
        float, typer.Option(help="Least uniqueness, 0 to 1; for original, of the scores' range.")
    ] = 0.3,
    semantic: Annotated[
        SemanticMethod, typer.Option(help="Pick the farthest first, or leave meaning out.")
    ] = SemanticMethod.FARTHEST_FIRST,
    semantic_threshold: Annotated[
        float, typer.Option(help="Least cosine distance, above 0 and at most 2.")
    ] = 0.3,
    near_duplicates: Annotated[
        float, typer.Option(help="Uniqueness below which a question counts as said before.")
    ] = 0.05,
    encoder: Annotated[
        str | None,
        typer.Option(help="sentence-transformers folder or hub id; the bundled one by default."),
    ] = None,
) -> None:
    """Keep the questions that differ from each other by words and by meaning.

    Duplicates go first, then questions whose keywords are not unique, then those that
    are near in meaning to one that is kept. Every field of what is kept stays as it is.

    Example: `knowgate kb filter kb/questions.jsonl --out kb/diverse.jsonl`
    """
    settings = DiversitySettings(
        keyword=keyword,
        semantic=semantic,
        keyword_threshold=keyword_threshold,
        semantic_threshold=semantic_threshold,
        near_duplicates=near_duplicates,
    )
    read_questions(questions)  # what is wrong with them, before a model is loaded
    report = dropped or out.with_name(f"{out.stem}.dropped.jsonl")
    with progress_bar("filtering") as advance:
        found = filter_questions_file(
            questions,
            out,
            report,
            None if semantic is SemanticMethod.OFF else BiEncoderScorer(encoder),
            settings,
            on_progress=lambda _stage, done, total: advance(done, total),
        )
    _tell(found, out, report)


def _tell(found: Diverse, out: Path, report: Path) -> None:
    total = len(found.kept) + len(found.dropped)
    console.print(f"{len(found.kept)} of {total} questions kept → {out}", markup=False)
    for reason, number in Counter(one.reason for one in found.dropped).items():
        console.print(f"  {number} {_SAID[reason]}", markup=False)
    if found.dropped:
        console.print(f"What was dropped, and why → {report}", markup=False)
    other = sum(one.same_answer is False for one in found.dropped if one.score == 0.0)
    if other:
        console.print(
            f"{other} of them ask what a kept one asks and have another answer: "
            "the knowledge base may contradict itself.",
            markup=False,
        )
