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
from ..data.facts import BuildSettings, build_questions
from ..systems import load_chat_model
from ._app import app
from ._call_progress import call_stages
from ._console import out, print_figures, prints_figures, progress_bar

# Makes a folder a tuned scorer, so it comes last.
_LAST_FILE = "sufficiency.json"

tuning = typer.Typer(no_args_is_help=True, help="Adapt a part of the guard to your own data.")
app.add_typer(tuning, name="tune")


@tuning.command()
@prints_figures
def relevance(
    out_dir: Annotated[Path, typer.Option("--out", help="Folder to write; new or empty.")],
    questions: Annotated[
        Path | None,
        typer.Option(
            help="Questions of the knowledge base: a KnowOrNot question document (.json), JSON "
            "lines (.jsonl), or CSV."
        ),
    ] = None,
    documents: Annotated[
        list[Path] | None,
        typer.Option(
            help="Where there are no questions: documents, or folders of them, on which --model "
            "writes some. Repeatable."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="With --documents: who writes them, as for `knowgate kb build`: a Hugging "
            "Face folder, `provider:model`, `python:module:attribute`, or `none` (by rules)."
        ),
    ] = None,
    kb_dir: Annotated[
        Path | None,
        typer.Option(
            "--kb",
            help="With --documents: folder for the questions; continued if it exists.  [default: "
            "OUT-kb]",
        ),
    ] = None,
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
    and printed with the scorer to use; `tuning.json` in the folder holds the figures.
    Use the folder as `--scorer DIR`, and calibrate again, on other questions: a policy
    is bound to its scorer.

    Example: `knowgate tune relevance --questions kb.json --out tuned`
    """
    if (questions is None) == (documents is None):
        raise InputError(
            "exactly one is needed", where="--questions, --documents", hint="name one of both"
        )
    require_new_folder(out_dir)
    if documents is not None:
        kb = kb_dir or out_dir.with_name(f"{out_dir.name}-kb")
        questions = _written_questions(documents, model, kb)
    elif model is not None or kb_dir is not None:
        name = "--model" if model is not None else "--kb"
        raise InputError("is for --documents", where=name, hint="leave it out")
    assert questions is not None
    records = QuestionRecord.read(questions)
    cases = _training_questions(records, passage, where=str(questions))
    with new_folder(out_dir, last=_LAST_FILE) as work:
        with progress_bar("tuning") as advance:
            report = tune_relevance(
                cases, work, settings=TuningSettings(seed=seed), on_progress=advance
            )
        assert report is not None  # it is judged by default
        write_json(work / "tuning.json", report.as_json())
    print_figures({**report.as_json(), "folder": out_dir})
    _tell(report, out_dir)


def _written_questions(documents: list[Path], model: str | None, folder: Path) -> Path:
    """Have a model write questions on documents, or the rest of them; return their file.

    Raises:
        InputError: no model is named, or the documents cannot be used.
    """
    if model is None:
        raise InputError(
            "is missing",
            where="--model",
            hint="name who writes questions, e.g. openai:gpt-4o-mini, or none for rules",
        )
    settings = BuildSettings(model=model)
    with call_stages() as show:
        totals = build_questions(
            documents,
            folder,
            model=load_chat_model(model) if settings.asks_model else None,
            settings=settings,
            on_progress=show,
        )
    path = folder / "questions.jsonl"
    out.print(f"{totals.questions} questions → {path}", markup=False)
    return path


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
        verdict = "It did not help: the tuned scorer is worse."
    else:
        verdict = "It is not shown to help: the interval holds 0."
    out.print(f"{verdict} → {folder}", markup=False)
    if not report.helped:
        out.print(f"Keep the bundled scorer, --scorer {TuningReport.BUNDLED}.", markup=False)
        return
    # A scorer's name goes before a folder of that name.
    named = os.path.join(".", folder) if str(folder) in scorer_names() else str(folder)
    out.print(
        f"Use it with --scorer {quote(named)}, and calibrate again, on other questions.",
        markup=False,
    )
