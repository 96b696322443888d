"""`knowgate tune …`: adapt a part of the guard to one's own data."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ...calibration.training.sufficiency import (
    TrainingQuestion,
    TuningReport,
    TuningSettings,
    tune_relevance,
)
from ...guard.errors import InputError
from ...guard.files import new_folder, require_new_folder, write_json
from ...guard.signals.relevance import scorer_names
from ..data import KnowledgeBase, PassageKind, QuestionRecord
from ._app import app
from ._console import out, progress_bar

# Makes a folder a tuned scorer, so it comes last.
_LAST_FILE = "sufficiency.json"

tuning = typer.Typer(no_args_is_help=True, help="Adapt a part of the guard to your own data.")
app.add_typer(tuning, name="tune")


@tuning.command()
def relevance(
    questions: Annotated[
        Path, typer.Option(help="KnowOrNot question document (.json), or JSON lines (.jsonl).")
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="Folder to write; new or empty.")],
    passage: Annotated[
        PassageKind | None,
        typer.Option(
            help="What a passage of your knowledge base holds.  [default: passage where every "
            "question has one, else answer]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of splits and draws.")] = 0,
) -> None:
    """Fine-tune the relevance scorer `sufficiency` on a knowledge base's own questions.

    Each question with its passage retrieved is a positive case, with its passage left
    out a negative one. Whether it helped is measured on questions that took no part,
    and printed; `tuning.json` in the folder holds the figures. Use the folder as
    `--scorer DIR`, and calibrate again: a policy is bound to its scorer.

    Example: `knowgate tune relevance --questions kb.json --out tuned`
    """
    records = QuestionRecord.read(questions)
    cases = _training_questions(records, passage, where=str(questions))
    require_new_folder(out_dir)
    with new_folder(out_dir, last=_LAST_FILE) as work:
        with progress_bar("tuning") as advance:
            report = tune_relevance(
                cases, work, settings=TuningSettings(seed=seed), on_progress=advance
            )
        assert report is not None  # it is judged by default
        write_json(work / "tuning.json", report.as_json())
    _tell(report, out_dir)


def _training_questions(
    records: list[QuestionRecord], passage: PassageKind | None, *, where: str
) -> list[TrainingQuestion]:
    knowledge_base = KnowledgeBase.of(records, passage, where=where)
    if len(records) < TuningSettings.MIN_QUESTIONS:
        raise InputError(
            f"{len(records)} questions are too few to tune on",
            where=where,
            hint=f"at least {TuningSettings.MIN_QUESTIONS} are needed; "
            "the bundled scorer needs none",
        )
    return [
        TrainingQuestion(
            id=record.question_id,
            text=record.question,
            passage=knowledge_base.passages[knowledge_base.passage_of[record.question_id]],
            topic="knowledge base",
        )
        for record in records
    ]


def _tell(report: TuningReport, folder: Path) -> None:
    gain = report.gain
    assert gain.value is not None
    assert gain.low is not None
    assert gain.high is not None
    out.print(
        f"AUROC on questions not trained on ({report.questions}): {report.before:.3f} bundled, "
        f"{report.after:.3f} tuned; gain {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]",
        markup=False,
    )
    if report.helped:
        verdict = "It helped: the interval lies above 0."
    elif gain.high < 0.0:
        verdict = "It did harm: keep the bundled scorer."
    else:
        verdict = (
            "Whether it helped cannot be told from so few questions: the interval holds 0. "
            "The bundled scorer is the safe choice."
        )
    out.print(f"{verdict} → {folder}", markup=False)
    # A scorer's name goes before a folder of that name.
    named = os.path.join(".", folder) if str(folder) in scorer_names() else str(folder)
    use = "Use it with" if report.helped else "To use it all the same:"
    out.print(f"{use} --scorer {quote(named)}, and calibrate again.", markup=False)
