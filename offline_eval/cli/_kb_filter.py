"""`knowgate kb filter`: the questions that are worth asking."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ...guard.engine import BiEncoderScorer
from ..data import QuestionRecord
from ..data.diversity import (
    DiversitySettings,
    KeywordMethod,
    SemanticMethod,
    filter_questions_file,
)
from ._console import out as console
from ._console import print_figures, prints_figures, progress_bar
from ._kb import kb_app

_QUESTIONS = typer.Argument(
    help="KnowOrNot question document (.json), JSON lines (.jsonl), or CSV."
)
_OUT = typer.Option(help="Where the kept ones go, in the form they came in.")
_DROPPED = typer.Option(
    help="JSON lines: what was dropped, and why.  [default: OUT with .dropped.jsonl]"
)
_KEYWORD = typer.Option(
    help="uniqueness: share of information that no kept question has. original: "
    "KnowOrNot's formula, which goes mostly by length."
)
_KEYWORD_THRESHOLD = typer.Option(
    help="Least uniqueness, 0 to 1; for original, of the scores' range."
)
_SEMANTIC = typer.Option(help="Pick the farthest first, or leave meaning out.")
_SEMANTIC_THRESHOLD = typer.Option(help="Least cosine distance, above 0 and at most 2.")
_NEAR = typer.Option(help="Uniqueness below which a question counts as said before.")
_ENCODER = typer.Option(help="sentence-transformers folder or hub id; the bundled one by default.")


@kb_app.command("filter")
@prints_figures
def filter_questions(
    questions: Annotated[Path, _QUESTIONS],
    out: Annotated[Path, _OUT],
    dropped: Annotated[Path | None, _DROPPED] = None,
    keyword: Annotated[KeywordMethod, _KEYWORD] = KeywordMethod.UNIQUENESS,
    keyword_threshold: Annotated[float, _KEYWORD_THRESHOLD] = 0.3,
    semantic: Annotated[SemanticMethod, _SEMANTIC] = SemanticMethod.FARTHEST_FIRST,
    semantic_threshold: Annotated[float, _SEMANTIC_THRESHOLD] = 0.3,
    near_duplicates: Annotated[float, _NEAR] = 0.05,
    encoder: Annotated[str | None, _ENCODER] = None,
) -> None:
    """Keep the questions that differ from each other by words and by meaning.

    Duplicates are dropped first, then questions whose keywords are not unique, then those
    that are near in meaning to one that is kept. Every field of what is kept stays as it is.

    Example: `knowgate kb filter kb/questions.jsonl --out kb/diverse.jsonl`
    """
    settings = DiversitySettings(
        keyword, semantic, keyword_threshold, semantic_threshold, near_duplicates
    )
    QuestionRecord.read(questions)  # reject bad files before a model is loaded
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
    print_figures(
        {
            "kept": len(found.kept),
            "dropped": Counter(one.reason for one in found.dropped),
            "questions": out,
            "report": report,
        }
    )
    total = len(found.kept) + len(found.dropped)
    console.print(f"{len(found.kept)} of {total} questions kept → {out}", markup=False)
    for line in found.reasons():
        console.print(f"  {line}", markup=False)
    if found.dropped:
        console.print(f"What was dropped, and why → {report}", markup=False)
