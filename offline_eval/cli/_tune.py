"""`knowgate tune`: adapt a part of the guard, or a language model, to one's own data."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer
from pydantic import Field

from ...calibration.training.cases import TrainingQuestion
from ...calibration.training.scenarios import (
    ScenarioTrainingSettings,
    check_training,
    train_scenarios,
)
from ...calibration.training.sufficiency import MIN_QUESTIONS, TuningReport, tune_relevance
from ...guard.contracts import LanguageModel
from ...guard.errors import InputError
from ...guard.files import new_folder, require_new_folder, write_json
from ...guard.signals.relevance.registry import scorer_names
from ..data.questions import KnowledgeBase, PassageKind, QuestionRecord
from ..suites.uniknow.methods import TrainedMethod
from ..suites.uniknow.plan import tuning_examples
from ..systems.factory import EMBEDDED, local_model
from ._console import call_progress, out, print_figures, progress_bar, tell
from ._options import Pairs, prints_figures, reject, required

# Makes a folder a tuned scorer, so it comes last.
_LAST_FILE = "sufficiency.json"
_ANSWER_TOKENS = 24
_RELEVANCE, _SCENARIOS = "Relevance", "Scenarios"


class TrainingOptions(Pairs):
    """How an adapter is trained, as `--training` names it; by default what suits."""

    epochs: int | None = Field(None, ge=1)
    learning_rate: float | None = Field(None, gt=0, allow_inf_nan=False)
    rank: int | None = Field(None, ge=1)
    device: str | None = None


@prints_figures
def tune(
    part: Annotated[
        Literal["relevance", "scenarios"], typer.Argument(metavar="relevance|scenarios")
    ],
    out_dir: Path,
    *,
    model: str | None = None,
    seed: int = 0,
    questions: Annotated[Path | None, typer.Option(rich_help_panel=_RELEVANCE)] = None,
    passage: Annotated[PassageKind | None, typer.Option(rich_help_panel=_RELEVANCE)] = None,
    method: Annotated[TrainedMethod | None, typer.Option(rich_help_panel=_SCENARIOS)] = None,
    data: Annotated[str | None, typer.Option(rich_help_panel=_SCENARIOS)] = None,
    knowledge: Annotated[Path | None, typer.Option(rich_help_panel=_SCENARIOS)] = None,
    limit: Annotated[int | None, typer.Option(min=2, rich_help_panel=_SCENARIOS)] = None,
    training: Annotated[TrainingOptions, typer.Option(rich_help_panel=_SCENARIOS)],
) -> None:
    """Adapt the relevance scorer, or a language model, to your own data.

    relevance: fine-tune the scorer `sufficiency` on a knowledge base's own questions. Each
    question with its passage retrieved is a positive case, with its passage left out a negative
    one. Whether it helped is measured on questions that took no part; `tuning.json` in the
    folder holds the figures. Use the folder as `--scorer DIR`, and calibrate again, on other
    questions: a policy is bound to its scorer.

    scenarios: train a LoRA adapter on the knowledge scenarios of a data set's training half.
    The model is asked without contexts what it knows, and learns from known and unknown
    questions. Use the folder as `HuggingFaceLM(model, adapter=DIR)`.

    Example: `knowgate tune relevance --questions kb.json --out tuned`

    Args:
        part: What is adapted.
        out_dir: Folder to write; new or empty.
        model: scenarios: embedded (by default), smollm2, gguf:FILE, or the folder of a causal
            model.
        seed: Random seed of splits, draws and training.
        questions: Questions of the knowledge base: a KnowOrNot question document (.json), JSON
            lines (.jsonl), or CSV.
        passage: What a passage of your knowledge base holds.  [default: passage where every
            question has one, else answer]
        method: Method of training.
        data: microworld (by default), or a file of questions (MRQA, SQuAD or JSON lines).
        knowledge: File that keeps what the model knows, so that it is asked once.
        limit: At most that many questions.
        training: epochs, learning_rate, rank (of the LoRA adapter), device (auto, cpu, cuda,
            cuda:N). By default what suits.
    """
    relevance = {"questions": questions, "passage": passage}
    scenarios = {
        "model": model, "method": method, "data": data, "knowledge": knowledge, "limit": limit,
        "training": training,
    }  # fmt: skip
    if part == "relevance":
        reject(scenarios, "goes with `tune scenarios`")
        questions = required(questions, "--questions", "`knowgate kb build` writes a file of them")
        require_new_folder(out_dir)
        _tune_relevance(questions, passage, out_dir, seed)
        return
    reject(relevance, "goes with `tune relevance`")
    names = ", ".join(one.value for one in TrainedMethod)
    method, model = required(method, "--method", f"name one of: {names}"), model or EMBEDDED
    settings = ScenarioTrainingSettings()
    if model == EMBEDDED:
        preferences = method is TrainedMethod.DPO
        settings = ScenarioTrainingSettings.for_embedded(preferences=preferences)
    settings = replace(settings, **training.model_dump(exclude_none=True))
    # Before anything that takes long.
    check_training(out_dir, settings)
    folder = local_model(model) or Path(model)
    with call_progress("building training cases") as on_progress:
        examples = tuning_examples(
            method,
            load=partial(_load, folder, settings.device),
            data=data or "microworld",
            knowledge=knowledge,
            limit=limit,
            seed=seed,
            on_progress=on_progress,
        )
    with progress_bar("training") as advance:
        report = train_scenarios(
            folder, examples, out_dir, settings=settings, seed=seed, on_progress=advance
        )
    print_figures(asdict(report))
    path = "microworld_model_path()" if model == EMBEDDED else repr(str(folder))
    out.print(f"{report}\n→ {report.folder}")
    out.print(f"Use it as HuggingFaceLM({path}, adapter={quote(str(report.folder))!r})")


def _load(folder: Path, device: str) -> LanguageModel:
    from ...adapters.huggingface import HuggingFaceLM

    return HuggingFaceLM(folder, device=device, max_new_tokens=_ANSWER_TOKENS)


def _tune_relevance(questions: Path, passage: PassageKind | None, out_dir: Path, seed: int) -> None:
    records = QuestionRecord.read(questions)
    base = KnowledgeBase.of(records, passage, where=str(questions))
    if len(records) < MIN_QUESTIONS:
        what = f"{len(records)} questions are too few to tune on"
        hint = f"at least {MIN_QUESTIONS} are needed; the bundled scorer needs none"
        raise InputError(what, where=str(questions), hint=hint)
    cases = [
        TrainingQuestion(one.question_id, one.question, passage=text, topic="knowledge base")
        for one in records
        for text in [base.passages[base.passage_of[one.question_id]]]
    ]
    with new_folder(out_dir, last=_LAST_FILE) as work:
        with progress_bar("tuning") as advance:
            report = tune_relevance(cases, work, seed=seed, on_progress=advance)
        # It is judged by default.
        assert report is not None
        write_json(work / "tuning.json", report.as_json())
    print_figures({**report.as_json(), "folder": out_dir})
    named = os.path.join(".", out_dir) if str(out_dir) in scorer_names() else str(out_dir)
    tell("tuned", report, report.gain, out_dir, TuningReport.BUNDLED, named)
